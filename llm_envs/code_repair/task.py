"""The task `CodeRepair`, put together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from llm_envs import validate
from llm_envs.code_repair.problems import SIZES, check_options, extract, max_new_tokens, problems, wrong
from llm_envs.code_repair.repairs import SPLITS
from llm_envs.code_repair.teacher import teacher_message
from llm_envs.task import Task


def make_task(
    difficulty: int = 1,
    *,
    programs: str = "functions",
    families: str = "all",
    answer_format: str = "edit",
    style: str = "compact",
    instruction: str = "",
    sizes: Mapping[str, int] | None = None,
) -> Task:
    """The task `CodeRepair`; the arguments are those of `problems`."""
    check_options(difficulty, programs, families, answer_format, style)
    validate.text("instruction", instruction)
    return Task(
        name="CodeRepair",
        problems=partial(
            problems,
            difficulty=difficulty,
            programs=programs,
            families=families,
            answer_format=answer_format,
            style=style,
            instruction=instruction,
            sizes=validate.sizes(sizes, SIZES),
        ),
        splits=SPLITS,
        verifier="function_tests",
        # A right answer takes milliseconds; loops that never end are common.
        verifier_options={"limits": {"cpu_s": 0.2}},
        demonstrate=lambda example, rng: teacher_message(example, rng)[0],
        extract=extract,
        wrong=wrong,
        max_new_tokens=max_new_tokens(answer_format, difficulty, programs),
        judge_unfinished=False,
    )
