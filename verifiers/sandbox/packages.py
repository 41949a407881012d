"""Third-party packages that submissions may import: found in the judge's environment, shown to the sandbox one by one.

`("numpy", "numpy.random")` names what is imported before the first execution, so that no execution pays for it; a
package's other modules can be imported, too. Inside, a folder at the end of `sys.path` holds what `find_packages`
returns: every named package, what its distribution installed beside it ("pytest" needs `_pytest` and `py`), and the
shared libraries of its wheel. Nothing else of the environment is visible: dependencies must be named as well.

Not covered: namespace packages (folders without `__init__.py`); the metadata of distributions, so that a package that
asks `importlib.metadata` for its own version cannot be imported.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import sys
from pathlib import Path


@functools.cache
def find_packages(names: tuple[str, ...]) -> tuple[Path, ...]:
    """Folders and files that must be visible for `import name` to work, for each of the names.

    Raises:
        ValueError: a name is no package or module of this environment.
    """
    paths: dict[Path, None] = {}
    for name in names:
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            continue  # visible already
        found = _find(top)
        if found is None:
            raise ValueError(f"packages: {name!r} is not the import name of a package that is installed here")
        paths[found] = None
        for distribution, installed in _distributions().items():
            if top not in installed:
                continue
            libraries = found.parent / f"{distribution.replace('-', '_')}.libs"
            beside = [_find(other) for other in sorted(installed)]
            paths |= dict.fromkeys(path for path in (*beside, libraries) if path is not None and path.exists())
    return tuple(paths)


def _find(top: str) -> Path | None:
    """Folder or file of a top-level package; importing nothing."""
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


@functools.cache
def _distributions() -> dict[str, set[str]]:
    """Top-level import names by the distribution that installed them."""
    found: dict[str, set[str]] = {}
    for top, distributions in importlib.metadata.packages_distributions().items():
        for distribution in distributions:
            found.setdefault(distribution, set()).add(top)
    return found
