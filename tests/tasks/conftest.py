"""The tasks whose examples a program writes, at every difficulty."""

import pytest

from llm_envs.tasks import arithmetic, constrained_writing, continuation, extraction

MODULES = (arithmetic, constrained_writing, continuation, extraction)


@pytest.fixture(
    params=[(module, difficulty) for module in MODULES for difficulty in module.DIFFICULTIES],
    ids=lambda pair: f"{pair[0].__name__.rpartition('.')[2]}-{pair[1]}",
)
def level(request):
    """(module, difficulty)."""
    return request.param
