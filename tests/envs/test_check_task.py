"""`check_task`: every built-in task passes, and every fault it is for is found."""

import re
import time
from dataclasses import replace

import gymnasium as gym
import pytest

from llm_envs import Answer, Example, OptionError, Task, Verdict, Verifier, VerifierError, build_task, check_task
from llm_envs.code_repair.tool_task import make_task as make_tool_task
from llm_envs.rebuild import difference, digest
from llm_envs.registration import registered_ids

IDS = [id for id in registered_ids() if "Text-v0" not in id and gym.spec(id).kwargs["task"].startswith("llm_envs.")]
RECORDS = [{"prompt": f"{n} + 1 = ", "answer": str(n + 1)} for n in range(9)]
GOOD = build_task("Good", {"train": RECORDS[:6], "test": RECORDS[6:]}, max_new_tokens=8)


@pytest.mark.parametrize("id", IDS)
def test_registered_tasks(id):
    report = check_task(id, limit=3)
    assert report.ok, report
    assert all(count.checked == 3 for count in report.splits)
    assert report.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_registered_tasks_in_depth(id):
    report = check_task(id, limit=500 if id.startswith("llm_envs/CodeRepair") else 8000)
    assert report.ok, report


@pytest.mark.parametrize("difficulty", [2, 3])
def test_options_of_the_task_are_passed_on(difficulty):
    report = check_task("llm_envs/CodeRepairTools-v0", limit=1, difficulty=difficulty, split="test")
    assert report.ok, report
    assert [count.split for count in report.splits] == ["test"]


def test_a_good_task_and_its_report():
    report = check_task(GOOD)
    assert report.ok, report
    text = str(report)
    assert "Good: verifier ExactMatch, at most 8 tokens" in text
    assert "train: 6 of 6 examples checked" in text
    assert 'which only a task registered as "module:function" allows' in text
    assert "nothing is wrong" in text


class Odd(Verifier):
    """Breaks in the way it is told."""

    def __init__(self, how=""):
        self.how = how

    def validate(self, example):
        if self.how == "refuses":
            raise VerifierError("hidden['answer'] must be a poem")

    def verify(self, example, answer):
        if self.how == "breaks":
            raise VerifierError("the judge is ill")
        if self.how == "slow":
            time.sleep(5)
        passed = bool(answer.text) or self.how == "lenient"
        return Verdict(0.5 if self.how == "half" else float(passed), passed, "passed" if passed else "wrong")


def raising(example, *rest):
    raise KeyError("oops")


def lazily(*ids):
    """Examples that no loader has checked."""

    class Examples(tuple):
        pass

    return lambda split: Examples(Example(id, f"{split if id == 'x' else ''}{id}", {"answer": "a"}, "a") for id in ids)


FAULTS = {
    "wrong gold": (
        replace(GOOD, solution=lambda e: ["99"]),
        "the gold answer does not score 1: 'train/0', score 0, kind",
    ),
    "half": (replace(GOOD, verifier=Odd("half")), "the gold answer does not score 1: 'train/0', score 0.5"),
    "no gold": (replace(GOOD, solution=lambda e: [e.metadata.get("gold", "")]), "no gold answer: 'train/0'"),
    "gold fails": (replace(GOOD, solution=raising), "task.solution fails: 'train/0', KeyError: 'oops'"),
    "wrong passes": (
        replace(GOOD, wrong=lambda e: e.gold),
        r"the wrong answer \(task.wrong\) passes: 'train/0', score 1",
    ),
    "wrong fails": (replace(GOOD, wrong=raising), "task.wrong fails: 'train/0', KeyError"),
    "empty passes": (replace(GOOD, verifier=Odd("lenient")), "the empty answer passes: 'train/0', score 1"),
    "extract fails": (
        replace(GOOD, extract=raising),
        "the episode fails: the gold answer to 'train/0', KeyError: 'oops'",
    ),
    "broken judge": (replace(GOOD, verifier=Odd("breaks")), "the verifier broke: .*'train/0', the judge is ill"),
    "refused": (replace(GOOD, verifier=Odd("refuses")), "no environment can be made: .*must be a poem"),
    "refused late": (
        Task("T", lazily("a"), ("train",), Odd("refuses")),
        r"refuses the hidden data: 'a', hidden\['answer'\] must be a poem",
    ),
    "budget": (
        replace(GOOD, max_new_tokens=1),
        "the gold answer is too long: 'train/0', 2 tokens .* max_new_tokens is 1",
    ),
    "prompt": (replace(GOOD, max_new_tokens=1020), "the prompt does not fit: 'train/0', the prompt is 8 tokens long"),
    "content": (
        Task("T", lazily("y"), ("train", "test")),
        "test: content of another split: 'y', which is 'y' of 'train'",
    ),
    "ids": (Task("T", lazily("x"), ("train", "test")), "test: an id comes twice: 'x', first in 'train'"),
    "no example": (
        Task("T", lambda split: [{"prompt": "p"}], ("train",)),  # type: ignore[list-item]
        "an example cannot be built: number 0, TypeError: expected an Example, got {'prompt': 'p'}",
    ),
    "empty split": (Task("T", lambda split: [], ("train",)), "train: no environment can be made: .*holds no examples"),
    "split fails": (replace(GOOD, problems=raising), "no environment can be made: KeyError: 'oops'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault):
    task, words = FAULTS[fault]
    report = check_task(task)
    assert not report.ok
    assert any(re.search(words, problem) for problem in report.problems), report
    assert all("\n" not in problem for problem in report.problems)
    assert len(report.problems) <= 6  # one sentence for all examples that share a fault
    assert "wrong: " in str(report)


def test_a_slow_judge_ends_the_check():
    report = check_task(replace(GOOD, verifier=Odd("slow")), seconds=0.2)
    assert report.problems == ["the gold answer to 'train/0' took more than 0.2 s, so the check ended here"]
    assert report.seconds < 3


def test_tools_are_played():
    task = make_tool_task()
    report = check_task(replace(task, solution=lambda example: list(task.solution(example))[:-1]), limit=1)
    assert report.ok, report  # what was not submitted is judged as it is
    first = replace(task, solution=lambda example: list(task.solution(example))[:1])
    assert not check_task(first, limit=1).ok


def test_a_judge_without_a_fingerprint_is_a_note():
    task = build_task("F", {"train": RECORDS}, verifier=lambda e, a: a.text == e.hidden["answer"])
    report = check_task(task)
    assert report.ok, report
    assert any("the verifier has no fingerprint" in note for note in report.notes)


def test_limit_and_tokenizer():
    assert [count.checked for count in check_task(GOOD, limit=2).splits] == [2, 2]
    assert [count.checked for count in check_task(GOOD, limit=None).splits] == [6, 3]


MODULE = """
from llm_envs import Example, Task

def make_task(order="set"):
    words = {"pear", "apple", "fig", "plum", "kiwi", "lime", "date", "lemon"}
    words = list(words) if order == "set" else sorted(words)
    return Task("Fruit", lambda split: [Example(w, f"say {w}", {"answer": w}, w) for w in words], ("train",))
"""


def test_examples_that_depend_on_the_process_are_found(tmp_path, monkeypatch):
    (tmp_path / "fruit.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    report = check_task("fruit:make_task")
    assert len(report.problems) == 1
    assert re.fullmatch(r"train: example \d is another one when it is built in another process", report.problems[0])
    assert check_task("fruit:make_task", order="sorted").ok
    assert check_task("fruit:make_task", rebuild=False).ok


def test_what_cannot_be_rebuilt_is_a_note():
    assert "no JSON value" in difference("fruit:make_task", {"x": object()}, {})[1]
    assert "module:function" in difference("__main__:make_task", {}, {})[1]
    assert digest(Example("1", "p", {"x": 1})) != digest(Example("1", "p", {"x": 1.0}))


def test_answers_are_taken_from_messages_as_in_training():
    task = replace(GOOD, extract=lambda example, message: Answer(message.removeprefix("so: ")))
    assert check_task(replace(task, solution=lambda example: [f"so: {example.gold}"], max_new_tokens=16)).ok


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limit": 0}, "limit must be a positive integer, got 0"),
        ({"limit": True}, "limit must be a positive integer, got True"),
        ({"limit": 2.0}, "limit must be a positive integer, got 2.0"),
        ({"seconds": float("nan")}, "seconds must be a positive number, got nan"),
        ({"seconds": float("inf")}, "seconds must be a positive number, got inf"),
        ({"seconds": "9"}, "seconds must be a positive number, got '9'"),
        ({"split": "tets"}, "unknown split of task 'Good' 'tets': did you mean 'test'"),
    ],
)
def test_arguments_that_make_no_sense_are_one_sentence(arguments, words):
    with pytest.raises(OptionError, match=words):
        check_task(GOOD, **arguments)


def test_one_split_alone_is_read_no_further_than_it_is_played():
    class Counted(list):
        read = 0

        def __getitem__(self, index):
            self.read += 1
            return super().__getitem__(index)

    examples = Counted(Example(str(n), f"{n} + 1 = ", {"answer": str(n + 1)}, str(n + 1)) for n in range(500))
    task = Task("Sums", lambda split: examples, ("train", "test"), max_new_tokens=8)
    assert check_task(task, limit=2, split="train", rebuild=False).ok
    assert examples.read < 50


def test_splits_are_compared_beyond_the_examples_that_are_played():
    def problems(split):
        numbers = range(2000) if split == "train" else range(700, 702)
        return [Example(f"{split}/{n}", f"{n}", {"answer": str(n)}, str(n)) for n in numbers]

    report = check_task(Task("T", problems, ("train", "test")), limit=1)
    assert report.problems == [
        "test: content of another split: 'test/700', which is 'train/700' of 'train' again (and 1 more)"
    ]
    assert [count.checked for count in report.splits] == [1, 1]
    assert "train: the content of the first 1000 of 2000 examples was compared" in report.notes
    late = Task(
        "T", lambda split: problems(split) if split == "train" else problems("train")[1500:1501], ("train", "test")
    )
    assert not check_task(late, limit=None).ok


CHATTY = (
    MODULE
    + """
import atexit, sys
if sys.argv[0] == "-c":
    atexit.register(print, "good bye")
    print("hello")
"""
)


def test_a_task_whose_module_prints_can_be_built_in_another_process(tmp_path, monkeypatch):
    (tmp_path / "chatty_fruit.py").write_text(CHATTY)
    monkeypatch.syspath_prepend(tmp_path)
    assert check_task("chatty_fruit:make_task", order="sorted").ok
    (tmp_path / "silent_fruit.py").write_text(MODULE + "import os, sys\nif sys.argv[0] == '-c': os._exit(0)\n")
    report = check_task("silent_fruit:make_task", order="sorted")
    assert report.problems == ["examples cannot be built in another process: it ended before it said what it built"]
