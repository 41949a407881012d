from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from add_problem import ADD, CORRECT
from other_users import run_python

from verifiers import Answer, FunctionTests, Limits, SandboxUnavailable
from verifiers.sandbox.packages import find_packages
from verifiers.sandbox.pool import shared_pool

PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
# The rung rlimits runs as a user who may not be able to read this environment.
RUNGS = ["bubblewrap", "namespaces", "process"]


def call(source: str, sandbox: str, packages: tuple[str, ...], limits: Limits = Limits()) -> Any:  # noqa: B008
    """What `f()` returns."""

    def job(execution):
        loaded = execution.load(source, "f")
        reply = execution.ask("call", "f") if loaded.kind == "loaded" else loaded
        return reply.value if reply.kind == "value" else reply

    return shared_pool(limits, sandbox, 1, packages).run(job)


@pytest.mark.parametrize("sandbox", RUNGS)
def test_numpy_computes_with_the_default_limits(sandbox: str):
    source = """
import os
import numpy as np
def f():
    a = np.random.default_rng(0).random((300, 300))
    error = abs(np.linalg.solve(a, a @ a) - a).max()
    return float(error) < 1e-8, len(os.listdir("/proc/self/task"))
"""
    for _ in range(3):
        assert call(source, sandbox, ("numpy", "numpy.random")) == (True, 1)


@pytest.mark.parametrize("sandbox", RUNGS)
def test_packages_are_imported_already_and_their_neighbours_are_not_there(sandbox: str):
    source = """
import sys, importlib
def f():
    imported = "numpy" in sys.modules
    import numpy.polynomial
    missing = []
    for name in ("torch", "transformers", "pip", "packaging", "verifiers", "llm_envs"):
        try: importlib.import_module(name)
        except ImportError: missing.append(name)
    return imported, missing
"""
    imported, missing = call(source, sandbox, ("numpy",))
    assert imported
    assert missing == ["torch", "transformers", "pip", "packaging", "verifiers", "llm_envs"]


@pytest.mark.parametrize("sandbox", ["bubblewrap", "namespaces"])
def test_packages_are_read_only_and_alone_in_their_folder(sandbox: str):
    source = """
import os, sys
def f():
    try: open("/packages/iniconfig/x", "w")
    except OSError: return sorted(os.listdir("/packages")), sys.path[-1]
"""
    assert call(source, sandbox, ("iniconfig",)) == (["iniconfig"], "/packages")


@pytest.mark.parametrize("sandbox", RUNGS)
def test_pytest_runs_inside_as_a_program(sandbox: str):
    program = """
import pytest
with open("test_it.py", "w") as file:
    file.write("def test_right(tmp_path): assert tmp_path\\ndef test_wrong(): assert 1 == 2\\n")
print(int(pytest.main(["-q", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null", "--rootdir=.", "."])))
"""
    pool = shared_pool(Limits(), sandbox, 1, PYTEST)
    reply = pool.run(lambda execution: execution.program(program, b""))
    assert reply.kind == "output", reply
    output, status = reply.value
    assert b"1 failed, 1 passed" in output
    assert status == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="the rung rlimits needs root")
def test_rlimits_find_packages_where_they_are():
    script = f"""
import sys
sys.path.append({os.path.dirname(find_packages(("iniconfig",))[0])!r})
from verifiers import Limits
from verifiers.sandbox.pool import shared_pool
source = "import sys\\ndef f(): return 'iniconfig' in sys.modules, 'pluggy' in sys.modules"
pool = shared_pool(Limits(), "rlimits", 1, ("iniconfig",))
print(pool.run(lambda execution: (execution.load(source, "f"), execution.ask("call", "f")))[1].value)
"""
    done = run_python("-c", script, user=0)
    assert done.stdout == "(True, False)\n", done.stderr


@pytest.mark.parametrize("name", ["no_such_package", "numpy; import os", "", "../numpy", "no_such_package.part"])
def test_unknown_package_is_refused(name: str):
    with pytest.raises(ValueError, match="packages: .* is not the import name of a package that is installed here"):
        FunctionTests(packages=(name,))


@pytest.mark.parametrize("sandbox", RUNGS)
def test_package_that_cannot_be_imported_is_loud(sandbox: str, tmp_path, monkeypatch):
    (tmp_path / "needs_a_friend.py").write_text("import no_such_friend")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "importing needs_a_friend: ModuleNotFoundError: No module named 'no_such_friend'"
    with pytest.raises(SandboxUnavailable, match=message):
        FunctionTests(sandbox=sandbox, packages=("needs_a_friend",))


def test_packages_are_part_of_the_pool_and_of_the_fingerprint():
    with_package, without = FunctionTests(packages=("colorsys",)), FunctionTests()
    assert with_package._pool() is not without._pool()
    assert with_package._pool() is FunctionTests(packages=["colorsys"])._pool()
    assert with_package.fingerprint() != without.fingerprint()
    assert with_package.verify(ADD, Answer(CORRECT)).kind == "passed"


def test_finding_imports_nothing():
    before = set(sys.modules)
    assert find_packages(("mpmath", "json", "mpmath.libmp"))[0].name == "mpmath"
    assert not {name for name in set(sys.modules) - before if name.startswith("mpmath")}
