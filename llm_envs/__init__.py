"""Text and code tasks as Gymnasium environments, at the level of messages and at the level of tokens.

Importing this package registers the built-in tasks and does nothing else.
"""

try:
    from verifiers import Answer, Example, Verdict, Verifier, VerifierError
except ImportError as error:
    raise ImportError(
        "llm_envs needs the package `verifiers` that comes with it, but another distribution of that name is installed "
        "or none is; install llm-envs in a fresh virtual environment"
    ) from error

from llm_envs.error import EpisodeError, LLMEnvsError, OptionError, ProblemFileError, TokenError
from llm_envs.problems import load_jsonl
from llm_envs.registration import register_task
from llm_envs.spaces import UnicodeText
from llm_envs.task import AnswerFormatError, Task
from llm_envs.text_env import Message, TextEnv
from llm_envs.token_env import TokenEnv
from llm_envs.tokenizer import ByteTokenizer, as_tokenizer
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
    "Task",
    "load_jsonl",
    "register_task",
    # environments
    "Message",
    "TextEnv",
    "TokenEnv",
    "TokenVectorEnv",
    "UnicodeText",
    # tokenizers
    "ByteTokenizer",
    "as_tokenizer",
    # errors
    "EpisodeError",
    "LLMEnvsError",
    "OptionError",
    "ProblemFileError",
    "TokenError",
]

register_task("CodeRepair", "llm_envs.code_repair:make_task")
register_task("Transform", "llm_envs.transform:make_task")
