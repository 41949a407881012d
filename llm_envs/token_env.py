"""The token level: one step is one token, the state is the token prefix."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from llm_envs.constraints import Constraint
from llm_envs.error import ClosedError, EpisodeError, TokenError
from llm_envs.format_view import FormatView
from llm_envs.render import RENDER_MODES, Block, Renderer
from llm_envs.share import SharedSpecMixin
from llm_envs.token_format import MessageFormat, Observation, TokenFormat, blocks, play_message


class TokenEnv(FormatView, SharedSpecMixin, gym.Env[Observation, np.int64]):
    """A tokenizer's view of a text-level environment.

    ## Description
    The policy writes its message token by token. A stop token ends the turn: the written ids, without the stop token,
    are decoded and handed to the text level, whose reward is the reward of that last token. Ids the policy chose are
    never encoded again. Should the text level go on, its new observation is appended to the prefix.

    ## Action space
    `Discrete(V)`, V = `len(tokenizer)`. A masked token ends the episode with score 0; one out of range is an error.
    Masked are padding (unless it is also a stop token) and what `allowed_tokens`, `min_new_tokens` and `constraint`
    leave out. Should they leave nothing, a stop token is allowed.

    ## Observation space
    | key | space | meaning |
    |---|---|---|
    | `tokens` | Box int64 (max_length,) | prompt, what the policy wrote, what the environment added; then padding |
    | `length` | Box int64 (1,) | how many of them are real |
    | `remaining` | Box int64 (1,) | how many tokens the policy may still write |

    ## Rewards
    0 for every token but the last of a turn, which gets the text level's reward.

    ## Episode end
    `terminated` with `info["stop_reason"]` `"stop"` (a stop token), `"length"` (the budget is used up: what was written
    is judged, unless the task says that unfinished answers do not count) or `"invalid_action"`. `truncated` only from
    outside. The rest of `info` is the text level's, and at the end of every turn `reencoding_differs`: whether encoding
    the decoded turn would have given other ids. It changes nothing; ids are never encoded again.

    ## Arguments
    `reset(options=...)` is handed to the text level.

    ## Attributes an agent may read (through `get_wrapper_attr`)
    `eos_token_id`, `pad_token_id`, `stop_token_ids`, `max_length`, `num_examples`, `action_masks()`,
    `next_token_mask(prefixes)`, `decode(ids)`.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}

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
        render_mode: str | None = None,
    ) -> None:
        """Create the environment.

        Args:
            env: a text-level environment, ours or any other whose spaces are `Text`.
            tokenizer: anything `as_tokenizer` accepts; None is the byte tokenizer.
            max_new_tokens: tokens the policy may write in an episode, stop token included; None takes the task's.
            max_length: tokens in the observation; the prompt and `max_new_tokens` must fit.
            message_format: `"plain"` encodes the text of the prompt as it is, `"chat"` uses the chat template.
            stop_token_ids: ids that end a turn; None means the end-of-sequence token.
            strict: raise on a masked token instead of ending the episode.
            allowed_tokens: ids the policy may write, beside the stop tokens; None for all.
            min_new_tokens: tokens in a turn before a stop token is allowed.
            constraint: what a turn must look like: `"regex:..."`, `"json_schema:..."` or a `Constraint`.
            render_mode: see `llm_envs.render`.
        """
        self.env = env
        self.format = TokenFormat(
            env, tokenizer, max_new_tokens, max_length, message_format, stop_token_ids, strict,
            allowed_tokens, min_new_tokens, constraint,
        )  # fmt: skip
        self.action_space = self.format.action_space
        self.observation_space = self.format.observation_space
        self.render_mode = render_mode
        self._renderer = Renderer(render_mode)
        self._tokens = np.full(self.max_length, self.pad_token_id, dtype=np.int64)
        self._length = 0
        self._budget = 0
        self._turn_start = 0
        self._ended = True
        self._closed = False

    def action_masks(self) -> np.ndarray:
        """Which tokens the policy may choose now, bool (V,)."""
        return self.format.masks.allowed(0, self._turn()).copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode of the text level; its prompt is the first prefix."""
        self._check_open("reset")
        super().reset(seed=seed)
        text, info = self.env.reset(seed=seed, options=options)
        prompt = self.format.prompt_ids(self.env, text)
        self._tokens[:] = self.pad_token_id
        self._length = 0
        self._append(prompt)
        self._budget = self.format.max_new_tokens
        self._ended = False
        self._renderer.begin(self._blocks)
        return self._observation(), info

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Append one token; at the end of a turn, let the text level answer."""
        self._check_open("step")
        if self._ended:
            raise EpisodeError("TokenEnv.step called before reset or after the episode ended; call reset first")
        token = _as_token(action)
        self.format.check_range(token)
        masks = self.format.masks
        allowed = masks.vocabulary[token] if masks.fixed else masks.allowed(0, self._turn())[token]
        if not allowed:
            self.format.refuse_if_strict(token)
        self._tokens[self._length] = token
        self._length += 1
        self._budget -= 1
        stop_reason = self.format.stop_reason(token, allowed, self._remaining())
        if stop_reason is None:
            return self._observation(), 0.0, False, False, {}
        self._ended = True  # stays so if the verifier raises
        turn = self.format.turn(self.env, self._tokens[self._turn_start : self._length], stop_reason)
        result = play_message(self.env, turn.message)
        end = self.format.finish_turn(self.env, turn, result, self._tokens[: self._length], self._remaining())
        self._append(end.inserted)
        self._ended = end.terminated or end.truncated
        self._renderer.go_on(self._blocks)
        return self._observation(), end.reward, end.terminated, end.truncated, end.info

    def render(self) -> Any:
        """The episode so far; see `llm_envs.render`."""
        return self._renderer.render(self._blocks())

    def close(self) -> None:
        """Close the text level; may be called twice. Nothing but rendering is possible afterwards."""
        self._closed = True
        self.env.close()

    def _check_open(self, called: str) -> None:
        if self._closed:
            raise ClosedError(f"TokenEnv.{called} called after close; make a new environment")

    def _append(self, ids: np.ndarray) -> None:
        """Append tokens that the policy did not choose; its next turn starts after them."""
        self._tokens[self._length : self._length + len(ids)] = ids
        self._length += len(ids)
        self._turn_start = self._length

    def _turn(self) -> np.ndarray:
        """What the policy wrote since its turn began; nothing once the episode has ended."""
        return self._tokens[self._turn_start : self._turn_start if self._ended else self._length]

    def _blocks(self) -> list[Block]:
        prefix, turn = self._tokens[: self._length], self._tokens[self._turn_start : self._length]
        return blocks(self.env, self.decode(prefix.tolist()), self.decode(turn.tolist()))

    def _remaining(self) -> int:
        return min(self._budget, self.max_length - self._length)

    def _observation(self) -> Observation:
        return {
            "tokens": self._tokens.copy(),
            "length": np.array([self._length], dtype=np.int64),
            "remaining": np.array([self._remaining()], dtype=np.int64),
        }


def _as_token(action: Any) -> int:
    try:
        if isinstance(action, bool):
            raise TypeError
        return operator.index(action)
    except TypeError:
        raise TokenError(f"an action must be one token id (an integer), got {action!r:.80}") from None
