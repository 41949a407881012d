"""A tokenizer's view of a text-level environment: the rules that `TokenEnv` and `TokenVectorEnv` share.

Shapes: V tokens in the vocabulary, L = `max_length` positions in the prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from llm_envs import validate
from llm_envs.constraints import Constraint, as_constraint
from llm_envs.error import OptionError, TokenError
from llm_envs.masks import TurnMasks
from llm_envs.render import Block
from llm_envs.text_env import Message, StopReason, TextEnv
from llm_envs.tokenizer import as_tokenizer, unused_token_ids

MessageFormat = Literal["plain", "chat"]
Observation = dict[str, np.ndarray]
TextStep = tuple[str, Any, bool, bool, dict[str, Any]]

_FOREIGN_NEW_TOKENS = 256
_NO_TOKENS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Turn:
    """A finished turn as text, and whether that text would have been encoded to other ids."""

    message: Message
    reencoding_differs: bool


@dataclass(frozen=True)
class TurnEnd:
    """What the end of a turn did to the episode; `inserted` are the tokens the environment appends to the prefix."""

    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    inserted: np.ndarray


class TokenFormat:
    """Budgets, message format, stop tokens and masks; holds no state of an episode.

    Arguments are those of `TokenEnv`.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        tokenizer: Any = None,
        max_new_tokens: int | None = None,
        max_length: int = 1024,
        message_format: MessageFormat = "plain",
        stop_token_ids: Sequence[int] | None = None,
        strict: bool = False,
        allowed_tokens: Sequence[int] | None = None,
        min_new_tokens: int = 0,
        constraint: str | Constraint | None = None,
    ) -> None:
        if not isinstance(env, gym.Env):
            raise OptionError(f"the token level needs a Gymnasium environment, got {env!r:.80}")
        if not text_spaces(env):
            raise OptionError(
                "the token level needs an environment with Text observations and Text actions, "
                f"got {env.observation_space} and {env.action_space}"
            )
        self.message_format = validate.choice("message_format", message_format, get_args(MessageFormat))
        self.tokenizer = as_tokenizer(tokenizer)
        self.strict = validate.flag("strict", strict)
        self.max_length = validate.positive("max_length", max_length)
        self.num_examples = _num_examples(env)
        budget = _budget(env) if max_new_tokens is None else max_new_tokens
        self.max_new_tokens = validate.positive("max_new_tokens", budget)
        self._set_special_tokens(stop_token_ids)
        self._set_masks(allowed_tokens, min_new_tokens, constraint)
        self.action_space = Discrete(self.vocab_size)
        space: Any = Dict(  # which Gymnasium types as a space of dictionaries of spaces
            tokens=Box(0, self.vocab_size - 1, (self.max_length,), np.int64),
            length=Box(0, self.max_length, (1,), np.int64),
            remaining=Box(0, self.max_new_tokens, (1,), np.int64),
        )
        self.observation_space: gym.Space[Observation] = space
        if message_format == "chat" and tool_schemas(env) is not None:
            self._check_later_turns(env)

    def _set_special_tokens(self, stop_token_ids: Sequence[int] | None) -> None:
        self.vocab_size = validate.positive("vocab_size of the tokenizer", self.tokenizer.vocab_size)
        self.unused_token_ids = unused_token_ids(self.tokenizer)
        self.eos_token_id = self._special("eos_token_id")
        if stop_token_ids is None:
            if self.eos_token_id is None:
                raise OptionError("the tokenizer has no end-of-sequence token; give stop_token_ids=[...]")
            stop_token_ids = [self.eos_token_id]
        self.stop_token_ids = self._ids("stop_token_ids", stop_token_ids)
        pad = self._special("pad_token_id")
        self.pad_token_id = self.stop_token_ids[0] if pad is None else pad

    def _special(self, name: str) -> int | None:
        token = getattr(self.tokenizer, name)
        return None if token is None else validate.integer(f"{name} of the tokenizer", token, 0, self.vocab_size - 1)

    def _set_masks(
        self, allowed_tokens: Sequence[int] | None, min_new_tokens: int, constraint: str | Constraint | None
    ) -> None:
        vocabulary = np.full(self.vocab_size, allowed_tokens is None)
        if allowed_tokens is not None:
            vocabulary[list(self._ids("allowed_tokens", allowed_tokens))] = True
        vocabulary[self.pad_token_id] &= self.pad_token_id == self.eos_token_id
        vocabulary[list(self.unused_token_ids)] = False
        vocabulary[list(self.stop_token_ids)] = True
        fewest = validate.integer("min_new_tokens", min_new_tokens, 0)
        if fewest >= self.max_new_tokens:
            raise OptionError(f"min_new_tokens must be less than max_new_tokens={self.max_new_tokens}, got {fewest}")
        self.masks = TurnMasks(self.tokenizer, self.stop_token_ids, vocabulary, fewest, as_constraint(constraint))

    def _ids(self, name: str, ids: Sequence[int]) -> tuple[int, ...]:
        """The value of an option that lists tokens."""
        listed = validate.ids(name, ids, self.vocab_size)
        if not listed:
            raise OptionError(f"{name} must hold at least one id, got {ids!r}")
        for token in listed:
            if token in self.unused_token_ids:
                raise OptionError(f"{name} holds {token}, an id for which the tokenizer has no token")
        return tuple(listed)

    def _encoded(self, ids: Any) -> np.ndarray:
        """Ids that a tokenizer made of text, which it may do wrongly: a person can bring one of their own."""
        array = np.asarray(ids)
        if array.ndim != 1 or len(array) and not np.issubdtype(array.dtype, np.integer):
            raise OptionError(f"the tokenizer must give a list of integers for a text, got {ids!r:.80}")
        for token in array[(array < 0) | (array >= self.vocab_size)][:1]:
            raise OptionError(f"the tokenizer gives the id {token} for a text, and its vocab_size is {self.vocab_size}")
        return array.astype(np.int64)

    def _check_later_turns(self, env: gym.Env[Any, Any]) -> None:
        """Raise `OptionError` now for a chat template that cannot say what a tool returned, or leaves it out."""
        short, long = (self._later_turn_ids(env, said, self.stop_token_ids[0]) for said in ("?", "? ? ?"))
        if np.array_equal(short, long):
            raise OptionError("the chat template leaves out messages of the role 'tool', and this task has tools")

    def prompt_ids(self, env: gym.Env[Any, Any], observation: str) -> np.ndarray:
        """Ids of the prompt of the episode that `env` has just begun; it must leave room for the whole budget."""
        messages = conversation(env, observation)
        if self.message_format == "chat":
            ids = self._encoded(self.tokenizer.chat(messages, tools=tool_schemas(env)))
        else:
            ids = self._encoded(self.tokenizer.encode("\n\n".join(message["content"] for message in messages)))
        if len(ids) + self.max_new_tokens > self.max_length:
            raise OptionError(
                f"the prompt is {len(ids)} tokens long and max_new_tokens={self.max_new_tokens} more may be written, "
                f"which is over max_length={self.max_length}; give max_length={len(ids) + self.max_new_tokens} or more"
            )
        if not len(ids):
            raise OptionError("the prompt is empty, so the policy has nothing to start from")
        return ids

    def token_array(self, what: str, tokens: Any) -> np.ndarray:
        """Tokens of a policy as an array (n,); raises `TokenError` for what is none."""
        array = validate.integer_array(what, tokens)
        self.check_all(array)
        return array

    def check_all(self, tokens: np.ndarray) -> None:
        """Raise if there is one that is no action."""
        for token in tokens[(tokens < 0) | (tokens >= self.vocab_size)][:1]:
            self.check_range(int(token))

    def check_range(self, token: int) -> None:
        """Raise for a token that is no action."""
        if not 0 <= token < self.vocab_size:
            raise TokenError(f"token {token} is out of range: the tokenizer has ids from 0 to {self.vocab_size - 1}")

    def refuse_if_strict(self, token: int) -> None:
        """Raise under `strict` for a token that is masked."""
        if self.strict:
            raise TokenError(f"token {token} is masked (see action_masks) and strict=True")

    def stop_reason(self, token: int, allowed: bool, remaining: int) -> StopReason | None:
        """Why the turn ends with this token, or None when it goes on; `remaining` is what is left after it."""
        if not allowed:
            return "invalid_action"
        if self.masks.stops[token]:
            return "stop"
        return "length" if remaining == 0 else None

    def turn(self, env: gym.Env[Any, Any], written: np.ndarray, stop_reason: StopReason) -> Turn:
        """Decode a finished turn, its stop or masked token left out."""
        kept = (written if stop_reason == "length" else written[:-1]).tolist()
        message = Message(self.tokenizer.decode(kept), stop_reason)
        differs = list(self.tokenizer.encode(message)) != kept
        if env.action_space.contains(message):
            return Turn(message, differs)
        if self.strict:
            raise TokenError(f"the message {str(message)!r} is outside {env.action_space} and strict=True")
        return Turn(Message(message, "invalid_action"), differs)

    def finish_turn(
        self, env: gym.Env[Any, Any], turn: Turn, result: TextStep, prefix: np.ndarray, remaining: int
    ) -> TurnEnd:
        """Turn the text-level step into what the token level returns.

        Args:
            env: the text-level environment.
            turn: the turn, whose message was handed to the environment.
            result: what `play_message` returned for it.
            prefix: all tokens up to the turn's last.
            remaining: tokens the policy may still write in this episode.
        """
        observation, reward, terminated, truncated, info = result
        info, inserted = dict(info), _NO_TOKENS
        reason = turn.message.stop_reason
        if not (terminated or truncated):
            ids = self._later_turn_ids(env, observation, int(prefix[-1]))
            if remaining > 0 and len(prefix) + len(ids) < self.max_length:
                inserted = ids
            elif isinstance(env.unwrapped, TextEnv):  # what the policy has done so far is judged
                _, reward, terminated, truncated, info = env.step(Message("", "length"))
            else:
                terminated, reason = True, "length"
        info["reencoding_differs"] = turn.reencoding_differs
        if terminated or truncated:
            info.setdefault("stop_reason", reason)
        return TurnEnd(float(reward), bool(terminated), bool(truncated), info, inserted)

    def _later_turn_ids(self, env: gym.Env[Any, Any], observation: str, last_token: int) -> np.ndarray:
        """Ids of what the environment says in the middle of an episode, up to where the policy writes again."""
        if self.message_format == "chat":
            role = "user" if tool_schemas(env) is None else "tool"
            return self._encoded(self.tokenizer.chat_later({"role": role, "content": observation}, last_token))
        return self._encoded(self.tokenizer.encode(observation))


def text_spaces(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment is at the text level: strings in, strings out."""
    return isinstance(env.observation_space, gym.spaces.Text) and isinstance(env.action_space, gym.spaces.Text)


def conversation(env: gym.Env[Any, Any], observation: str) -> Sequence[Mapping[str, str]]:
    """The messages the policy answers to: a `TextEnv`'s own, or a foreign environment's observation as the user's."""
    if isinstance(env.unwrapped, TextEnv):
        return env.unwrapped.messages
    return [{"role": "user", "content": observation}]


def play_message(env: gym.Env[Any, Any], message: Message) -> TextStep:
    """Hand a message to the text-level environment; the one part of the token level that runs in a thread.

    A `TextEnv` scores invalid actions itself; an environment of someone else's cannot know of them and is not asked.
    """
    if message.stop_reason == "invalid_action" and not isinstance(env.unwrapped, TextEnv):
        return "", 0.0, True, False, {}
    return env.step(message)


def blocks(env: gym.Env[Any, Any], prefix: str, turn: str) -> list[Block]:
    """What rendering shows of a token-level episode: the conversation, and the turn that is being written.

    An environment of someone else's has no conversation that we could read; its prefix is shown as it is.
    """
    if not isinstance(env.unwrapped, TextEnv):
        return [Block("text", prefix)]
    shown = env.unwrapped.blocks()
    unfinished = turn and shown and shown[-1].role not in ("assistant", "verdict")
    return [*shown, Block("assistant", turn)] if unfinished else shown


def tool_schemas(env: gym.Env[Any, Any]) -> list[dict[str, Any]] | None:
    """Schemas of the tools that an environment of ours offers in this episode; None for one without tools."""
    return env.unwrapped.tool_schemas if isinstance(env.unwrapped, TextEnv) else None


def _num_examples(env: gym.Env[Any, Any]) -> int | None:
    return env.get_wrapper_attr("num_examples") if env.has_wrapper_attr("num_examples") else None


def _budget(env: gym.Env[Any, Any]) -> int:
    return env.unwrapped.task.max_new_tokens if isinstance(env.unwrapped, TextEnv) else _FOREIGN_NEW_TOKENS
