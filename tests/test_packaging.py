"""What `pyproject.toml` and `constraints.txt` promise."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def test_every_package_folder_is_listed():
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in ("agents", "llm_envs", "verifiers")
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == folders


def test_every_dependency_has_a_lower_bound_and_an_exact_pin():
    requirements = [*PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        requirements += extra
    for requirement in requirements:
        match = re.match(r"([\w-]+)>=([\d.]+)", requirement)
        assert match, requirement
        name, bound = match.groups()
        pinned = pins()[normal(name)]
        assert tuple(map(int, pinned.split(".")[:2])) >= tuple(map(int, f"{bound}.0".split(".")[:2])), requirement


def test_pins_are_exact_sorted_and_of_no_particular_build():
    names = list(pins())
    assert names == sorted(map(normal, names))
    assert not any("+" in version or "*" in version for version in pins().values())
    assert pins()["torch"] == "2.13.0"
    assert pins()["transformers"] == "5.19.0"
