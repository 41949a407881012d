from __future__ import annotations

from typing import Any

import pytest

from verifiers import Answer, Example, Limits, VerifierError
from verifiers.code.program_tests import ProgramTests, same_output

SUM = "a, b = map(int, input().split())\nprint(a + b)\n"


def example(*tests: tuple[str, str] | dict[str, Any], **hidden: Any) -> Example:
    cases = [test if isinstance(test, dict) else dict(zip(("stdin", "stdout"), test, strict=True)) for test in tests]
    return Example(id="sum", prompt="", hidden={"tests": cases, **hidden})


ADD = example(("1 2\n", "3\n"), ("-1 1\n", "0\n"))


@pytest.fixture(scope="module")
def programs() -> ProgramTests:
    return ProgramTests(Limits(cpu_s=1, wall_s=3.0))


def test_passing_verdict(programs: ProgramTests):
    verdict = programs.verify(ADD, Answer(SUM))
    assert (verdict.score, verdict.passed, verdict.kind) == (1.0, True, "passed")
    assert verdict.components == {"passed_fraction": 1.0}


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (SUM.replace("+", "-"), "wrong"),
        ("print('PASSED')", "wrong"),
        ("1 / 0", "exception"),
        (SUM + "raise SystemExit(3)", "exception"),
        (SUM + "raise SystemExit('done')", "exception"),
        (SUM + "import os; os._exit(1)", "exception"),
        ("import os; os.abort()", "died"),
        ("import os; os.kill(os.getpid(), 15); os.kill(0, 9)", "exception wrong died"),
        ("import ctypes; ctypes.string_at(0)", "died"),
        ("while True: pass", "timeout"),
        ("while True: print('x' * 1000)", "too_large"),
        ("def f(", "syntax_error"),
        ("\0", "bad_source"),
        ("x = bytearray(6 << 30)", "exception"),
        ("", "wrong"),
        ("import os; os.write(1, b'\\xff\\xfe')", "wrong"),
        ("import os; os.execv('/bin/true', ['true'])", "exception wrong"),
    ],
)
def test_bad_programs(programs: ProgramTests, source: str, kind: str):
    verdict = programs.verify(ADD, Answer(source))
    assert (verdict.score, verdict.passed) == (0.0, False)
    assert verdict.kind in kind.split(), verdict
    assert programs.verify(ADD, Answer(SUM)).passed


@pytest.mark.parametrize(
    "source",
    [
        "\ufeff" + SUM.replace("\n", "\r\n"),
        SUM + "raise SystemExit",
        SUM + "import os, sys; sys.stdout.flush(); os._exit(0)",
        "import sys\nprint(sum(map(int, sys.stdin.read().split())))",
        "print(sum(map(int, open(0).read().split())))",
        "import os\nos.write(1, str(sum(map(int, os.read(0, 99).split()))).encode())",
        "out = open(1, 'w')\nout.write(str(sum(map(int, input().split()))))",
        "import threading, time\ndef main():\n    time.sleep(0.1)\n    print(sum(map(int, input().split())))\n"
        "threading.Thread(target=main).start()",
        "import atexit\natexit.register(lambda: print(sum(map(int, input().split()))))",
        "def main():\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    main()",
        "import sys\nsys.stdout.write(str(sum(map(int, input().split()))))\nsys.stdout.close()",
        "import os\nif os.fork() == 0:\n    print(sum(map(int, input().split())))\nelse:\n    os.wait()",
        "print(sum(map(int, input().split())), '  \\n\\n')",
        "import sys\nprint('debug', file=sys.stderr)\n" + SUM,
        "import sys\nassert sys.modules['__main__'].__dict__ is globals()\n" + SUM,
        "class A:\n    def __del__(self): print(n)\nn = sum(map(int, input().split()))\na = A()\na = None",
    ],
)
def test_right_programs_however_they_end(programs: ProgramTests, source: str):
    verdict = programs.verify(ADD, Answer(source))
    assert verdict.kind == "passed", verdict


def test_sleeping_program_meets_the_wall_clock():
    programs = ProgramTests(Limits(wall_s=0.5))
    assert programs.verify(ADD, Answer("import time; time.sleep(99)")).kind == "timeout"
    assert programs.verify(ADD, Answer("input(); input()")).kind == "exception", "the input ends"


def test_large_input_and_output(programs: ProgramTests):
    text = "x" * 3_000_000
    assert programs.verify(example((text, "3000000")), Answer("print(len(input()))")).passed
    assert programs.verify(example((text, "1")), Answer("print(1)")).passed, "the input may be left unread"
    echo = example(("y" * 200_000, "y" * 200_000))
    assert programs.verify(echo, Answer("print(input())")).passed
    assert programs.verify(example(("1", "")), Answer("print('x' * (1 << 18))")).kind == "too_large"


def test_every_run_starts_fresh(programs: ProgramTests):
    source = "import os\nprint(os.listdir('.'), len(os.listdir('/proc/self/fd')) < 6)\nopen('left', 'w').close()"
    assert programs.verify(example(("", "[] True"), ("", "[] True")), Answer(source)).passed


def test_exit_status_may_be_asked_for(programs: ProgramTests):
    problem = example({"stdin": "", "stdout": "", "exit_status": 3})
    assert programs.verify(problem, Answer("raise SystemExit(3)")).passed
    assert programs.verify(problem, Answer("")).kind == "exception"


def test_scoring(programs: ProgramTests):
    three = "print(3)"
    assert programs.verify(example(("", "3"), ("", "4"), ("", "3"), scoring="fraction"), Answer(three)).score == 2 / 3
    verdict = programs.verify(example(("", "3"), ("", "4"), ("", "3")), Answer(three))
    assert (verdict.score, verdict.components["passed_fraction"]) == (0.0, 1 / 3)
    assert verdict.feedback == "test 2 of 3: wrong output"


@pytest.mark.parametrize(
    ("got", "expected", "whitespace", "tolerance", "same"),
    [
        ("a b \n", "a b", "lines", 0, True),
        ("a b\n\n \n", "a b\n", "lines", 0, True),
        ("a b\r\nc\r\n", "a b\nc\n", "lines", 0, True),
        ("a  b", "a b", "lines", 0, False),
        (" a b", "a b", "lines", 0, False),
        ("\na", "a", "lines", 0, False),
        ("a\n\nb", "a\nb", "lines", 0, False),
        (" a \n b", "a b", "tokens", 0, True),
        ("a b c", "a b", "tokens", 0, False),
        ("a\n", "a", "exact", 0, False),
        ("a\n", "a\n", "exact", 0, True),
        ("0.50001 x", "0.5 x", "tokens", 1e-3, True),
        ("0.6 x", "0.5 x", "tokens", 1e-3, False),
        ("nan", "0.5", "tokens", 1e9, False),
        ("inf", "0.5", "tokens", 1e9, False),
        ("1e999", "1e999 ", "tokens", 1.0, True),
        ("1e999", "2e999", "tokens", 1.0, False),
        ("1_0", "10", "tokens", 1e-3, False),
        ("x", "y", "tokens", 1e9, False),
    ],
)
def test_white_space_and_tolerance(got: str, expected: str, whitespace: str, tolerance: float, same: bool):
    assert same_output(got, expected, whitespace, tolerance) == same


@pytest.mark.parametrize(
    ("field", "hidden"),
    [
        ("tests", {"tests": []}),
        ("tests", {"tests": [{"stdin": ""}]}),
        ("tests", {"tests": [{"stdin": "", "stdout": 3}]}),
        ("tests", {"tests": [{"stdin": "", "stdout": "", "exit_status": 256}]}),
        ("tests", {"tests": [{"stdin": "", "stdout": "", "args": []}]}),
        ("scoring", {"scoring": "some"}),
        ("whitespace", {"whitespace": "none"}),
        ("tolerance", {"tolerance": 1.0}),
        ("tolerance", {"tolerance": -1.0, "whitespace": "tokens"}),
        ("entry", {"entry": "f"}),
    ],
)
def test_malformed_hidden_data_are_the_judges_fault(programs: ProgramTests, field: str, hidden: dict[str, Any]):
    with pytest.raises(VerifierError, match=rf"'sum'.*\['{field}'\]"):
        programs.verify(Example(id="sum", prompt="", hidden={**ADD.hidden, **hidden}), Answer(SUM))
