"""Who may import whom (`CONTRIBUTING.md`), read from the source; what importing does, watched in a fresh process."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("verifiers", "llm_envs", "agents")
MAY_IMPORT = {
    "verifiers": {"numpy"},
    "llm_envs": {"gymnasium", "numpy", "tokenizers", "verifiers"},
    "agents": {"gymnasium", "numpy", "rich", "safetensors", "tokenizers", "torch", "transformers"},
}
"""At module level, beside the package itself and the standard library."""


def modules(package: str) -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of every module of a package."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(), str(path))
    return found


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def import_statements(tree: ast.AST, inside_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run, when the module is imported or (`inside_functions`) at any time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not inside_functions:
            continue
        elif not is_type_checking(node):
            yield from import_statements(node, inside_functions)


def imported(tree: ast.AST, inside_functions: bool = False) -> set[str]:
    """Dotted names; `from a.b import c` gives both `a.b` and `a.b.c`, since `c` may be a module."""
    names: set[str] = set()
    for node in import_statements(tree, inside_functions):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"line {node.lineno}: a relative import"
            assert node.module is not None
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def top_level(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_lies_below_them(package):
    for name, tree in modules(package).items():
        foreign = top_level(imported(tree)) - sys.stdlib_module_names - {package}
        assert foreign <= MAY_IMPORT[package], f"{name} imports {sorted(foreign - MAY_IMPORT[package])}"


@pytest.mark.parametrize(
    ("package", "never"),
    [("agents", {"llm_envs", "verifiers"}), ("verifiers", {"llm_envs", "agents"}), ("llm_envs", {"agents"})],
)
def test_nobody_looks_up_even_inside_functions(package, never):
    for name, tree in modules(package).items():
        assert not top_level(imported(tree, inside_functions=True)) & never, name


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycles(package):
    trees = modules(package)
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        needs = imported(tree) & set(trees)
        # `from a.b import c` needs the package `a.b` itself only for what is no module of it.
        statements = [node for node in import_statements(tree, False) if isinstance(node, ast.ImportFrom)]
        for node in statements:
            if all(f"{node.module}.{alias.name}" in trees for alias in node.names):
                needs.discard(str(node.module))
        graph[name] = needs
    assert sum(map(len, graph.values())) >= len(trees)  # it did read the imports
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["verifiers", "llm_envs"])
def test_importing_imports_no_torch(package):
    assert run(f"import sys, {package}; print('torch' in sys.modules, 'transformers' in sys.modules)") == "False False"


def test_importing_verifiers_imports_no_gymnasium():
    assert run("import sys, verifiers; print('gymnasium' in sys.modules)") == "False"


WATCH = """
import importlib, logging, random, sys
import gymnasium, numpy
{third_party}

def handlers():
    ours = [logging.getLogger(name) for name in ("agents", "llm_envs", "verifiers")]
    return [list(map(str, logger.handlers)) for logger in (logging.root, *ours)]

def state():
    torch = sys.modules.get("torch")
    drawn = [random.getstate(), repr(numpy.random.get_state()), torch and torch.get_rng_state().tolist()]
    return dict(handlers=handlers(), level=logging.root.level, random=drawn)

before = state()
for name in {names}:
    importlib.import_module(name)
print([key for key, value in state().items() if value != before[key]])
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_configures_no_logging_and_draws_no_random_numbers(package):
    # Imported first, since what they do is not ours to judge (rich draws a random number).
    third_party = "import rich.progress, torch, transformers" if package == "agents" else ""
    assert run(WATCH.format(names=list(modules(package)), third_party=third_party)) == "[]"
