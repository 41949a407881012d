"""Registers the small tasks, so that every test over the registry covers them, too."""

import small_tasks  # noqa: F401 - puts the module where the reference below finds it

import llm_envs

llm_envs.register_task("Reverse", "small_tasks:make_task")
