"""The token level for many episodes at once: rows in NumPy, verdicts in parallel.

Shapes: B rows, L = `max_length` positions, V tokens in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from llm_envs import validate
from llm_envs.constraints import Constraint
from llm_envs.error import ClosedError, EpisodeError, OptionError, TokenError
from llm_envs.format_view import FormatView
from llm_envs.render import Block, Renderer
from llm_envs.share import SharedSpecMixin
from llm_envs.token_format import MessageFormat, Observation, TokenFormat, blocks
from llm_envs.token_rows import TokenRows
from llm_envs.vector_arguments import (
    masked_rows,
    parse_autoreset_mode,
    row_options,
    row_seeds,
    step_limit,
    turns_by_row,
)
from llm_envs.waiting import RowStep, Waiting, WaitingRows

VectorStep = tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
RowSteps = tuple[np.ndarray, Observation, np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]


class TokenVectorEnv(FormatView, SharedSpecMixin, VectorEnv[Observation, np.ndarray, np.ndarray]):
    """B episodes of `TokenEnv` as one vector environment.

    ## Description
    Each row is what a `TokenEnv` over the same text-level environment would be; the verdicts of rows that end together
    run in parallel. The spaces are `TokenEnv`'s, batched. `step` follows Gymnasium; infos have Gymnasium's vector
    format, except that dictionaries such as `verdict` stay whole, one per row, in an object array.

    ## Whole turns
    Engines that write whole turns use `send(rows, turns)`, which returns at once, and `recv()`, which returns rows
    whose result is there; `play(turns)` sends one turn per row and receives them all. A turn is a 1-D integer array
    that ends with a stop token or uses up `remaining`. A turn that does neither is a fragment: its tokens are appended
    and its result is an ordinary step. All three return what `step` would have returned for the last token of the turn.

    ## Episode end
    As in `TokenEnv`; with `max_episode_steps` a row is truncated after so many tokens, as by Gymnasium's `TimeLimit`.
    Rows are reset as `autoreset_mode` says. In `NEXT_STEP` mode the next action of an ended row is ignored; as a turn
    it must be one token long.

    ## Arguments
    `reset(options={"index": ...})` takes one index for all rows or a list of one per row; `options["reset_mask"]`, a
    bool array (B,), resets only those rows. A seed `s` gives row i the seed `s + i`; a list gives each its own.

    ## Attributes an agent may read
    As in `TokenEnv`, with `action_masks()` of shape (B, V), and `send`, `recv`, `play`.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
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
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Create the rows.

        Args:
            env_fns: one function per row that makes its text-level environment.
            tokenizer, max_new_tokens, max_length, message_format, stop_token_ids, strict, allowed_tokens,
                min_new_tokens, constraint: see `TokenEnv`.
            render_mode: `"ansi"` or `"rgb_array"`, for one text or picture per row.
            max_episode_steps: truncate an episode after so many tokens; None or -1 for never.
            autoreset_mode: `"NextStep"`, `"SameStep"` or `"Disabled"`.
        """
        if not isinstance(env_fns, Sequence) or not env_fns or not all(map(callable, env_fns)):
            raise OptionError(f"env_fns must be a list of functions, at least one, got {env_fns!r:.80}")
        self.envs = [env_fn() for env_fn in env_fns]
        self.format = TokenFormat(
            self.envs[0], tokenizer, max_new_tokens, max_length, message_format, stop_token_ids, strict,
            allowed_tokens, min_new_tokens, constraint,
        )  # fmt: skip
        self.num_envs = len(self.envs)
        self.render_mode = render_mode
        self._renderer = Renderer(render_mode, self.metadata["render_modes"])
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = self.format.action_space
        self.single_observation_space = self.format.observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._rows = TokenRows(self.format, self.num_envs, step_limit(max_episode_steps))
        self._waiting = WaitingRows(self.num_envs)

    # ---- what an agent may read ----

    def action_masks(self) -> np.ndarray:
        """Which tokens the policy may choose now, bool (B, V)."""
        return self._rows.masks()

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute by name, as `gymnasium.Env` offers it."""
        return getattr(self, name)

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether there is such an attribute, as `gymnasium.Env` offers it."""
        return hasattr(self, name)

    # ---- Gymnasium ----

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin episodes in all rows, or in those of `options["reset_mask"]`."""
        self._check_open("reset")
        options = validate.mapping("the options of reset", options, optional=True)
        rows = masked_rows(options.pop("reset_mask", None), self.num_envs)
        seeds, choices = row_seeds(seed, self.num_envs), row_options(options, self.num_envs)
        super().reset(seed=int(seed) if isinstance(seed, (int, np.integer)) else None)
        self._waiting.forget(rows)
        infos: dict[str, Any] = {}
        for row in rows:
            infos = self._add_info(infos, self._reset_row(row, seeds[row], choices[row]), row)
        return self._rows.observation(slice(None)), infos

    def step(self, actions: np.ndarray) -> VectorStep:
        """Append one token to every row; waits for the verdicts of the rows whose turn it ends.

        Should a verifier (or anything else) raise for one row, the results of the others can still be had from `recv`.
        """
        self._check_open("step")
        actions = validate.integer_array("actions", actions)
        if len(actions) != self.num_envs:
            raise TokenError(f"actions must have the shape ({self.num_envs},), got {actions.shape}")
        resetting = self._check_ready(range(self.num_envs))
        live = np.flatnonzero(~self._rows.ended)
        busy = self._rows.append(live, actions[live]).tolist()
        for row in resetting:
            self._waiting.add(row, reset=True)
        for row in busy:
            self._submit(row)
        return self._settle(sorted(resetting + busy))

    def render(self) -> tuple[Any, ...] | None:
        """The episode of every row."""
        if self.render_mode is None:
            return None
        return tuple(self._renderer.render(self._blocks(row)) for row in range(self.num_envs))

    def _blocks(self, row: int) -> list[Block]:
        prefix, turn = (self.decode(ids.tolist()) for ids in (self._rows.prefix(row), self._rows.turn(row)))
        return blocks(self.envs[row], prefix, turn)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the rows, once what they are doing is done."""
        self._waiting.close()
        for env in self.envs:
            env.close()

    # ---- whole turns ----

    def send(self, rows: Iterable[int], turns: Sequence[Any]) -> None:
        """Hand one turn to each of `rows`; returns at once, while verdicts run in the background.

        Args:
            rows: row indices, each at most once, none with a turn that was sent but not received.
            turns: 1-D integer arrays, as described on the class. Nothing is sent unless all of them are valid.
        """
        self._check_open("send")
        sent = turns_by_row(rows, turns)
        resetting = self._check_ready(list(sent))
        checked = {row: self._rows.check_turn(row, turn, ignored=row in resetting) for row, turn in sent.items()}
        for row, turn in checked.items():
            if row in resetting:
                self._waiting.add(row, reset=True)
                continue
            self._rows.append_turn(row, turn)
            self._submit(row)

    def recv(self) -> RowSteps:
        """Wait until at least one turn that was sent has its result, and return all that have.

        Returns:
            rows (n,), their observations with n rows, rewards (n,), terminated (n,), truncated (n,) and a list of n
            infos.
        """
        self._check_open("recv")
        rows = self._waiting.first()
        results = self._waiting.take(rows, self._result)
        rewards, terminated, truncated = (np.array(column) for column in list(zip(*results, strict=True))[:3])
        infos = [info for *_, info in results]
        return np.array(rows), self._rows.observation(rows), rewards, terminated, truncated, infos

    def play(self, turns: Sequence[Any]) -> VectorStep:
        """Send one turn per row and receive them all; returns what `step` would have for each turn's last token."""
        self.send(range(self.num_envs), turns)
        return self._settle(list(range(self.num_envs)))

    # ---- rows ----

    def _submit(self, row: int) -> None:
        """After tokens were appended: let the text level answer if they ended the turn."""
        turn, remaining = self._rows.turn(row), int(self._rows.remaining()[row])
        allowed = bool(self.format.masks.allowed(row, turn[:-1])[turn[-1]])
        stop_reason = self.format.stop_reason(int(turn[-1]), allowed, remaining)
        if stop_reason is None:
            self._waiting.add(row)
            return
        self._rows.ended[row] = True  # stays so if the verifier raises
        try:
            finished = self.format.turn(self.envs[row], turn, stop_reason)
        except Exception as error:  # raised when the results are asked for, so that the other rows get theirs
            self._waiting.fail(row, error)
        else:
            self._waiting.play(row, self.envs[row], finished)

    def _settle(self, rows: list[int]) -> VectorStep:
        """Wait for all of `rows` and return a step of the whole vector, in which the others only gained a token."""
        self._waiting.finish(rows)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: dict[str, Any] = {}
        for row, result in zip(rows, self._waiting.take(rows, self._result), strict=True):
            rewards[row], terminated[row], truncated[row], info = result
            infos = self._add_info(infos, info, row)
        return self._rows.observation(slice(None)), rewards, terminated, truncated, infos

    def _result(self, row: int, waiting: Waiting) -> RowStep:
        if waiting.reset:
            return 0.0, False, False, self._reset_row(row)
        reward, terminated, truncated, info = 0.0, False, False, {}
        answer = None if waiting.future is None else waiting.future.result()
        if waiting.turn is not None and answer is not None:
            prefix, remaining = self._rows.prefix(row), int(self._rows.remaining()[row])
            end = self.format.finish_turn(self.envs[row], waiting.turn, answer, prefix, remaining)
            self._rows.insert(row, end.inserted)
            reward, terminated, truncated, info = end.reward, end.terminated, end.truncated, end.info
        truncated = truncated or bool(self._rows.out_of_time()[row])
        self._rows.ended[row] = terminated or truncated
        if self._rows.ended[row] and self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = {key: value[0] for key, value in self._rows.observation([row]).items()}
            info = {"final_obs": final, "final_info": info, **self._reset_row(row)}
        return reward, terminated, truncated, info

    def _reset_row(self, row: int, seed: int | None = None, options: dict[str, Any] | None = None) -> dict[str, Any]:
        self._rows.ended[row] = True  # stays so if the prompt does not fit
        text, info = self.envs[row].reset(seed=seed, options=options)
        self._rows.begin(row, self.format.prompt_ids(self.envs[row], text))
        return info

    def _check_open(self, called: str) -> None:
        if self.closed:
            raise ClosedError(f"TokenVectorEnv.{called} called after close; make a new environment")

    def _check_ready(self, rows: Sequence[int]) -> list[int]:
        """Raise unless every row can take a token; returns those whose token will be ignored since they reset first."""
        for row in rows:
            self._rows.check_begun(row)
            if row in self._waiting:
                raise EpisodeError(f"row {row} has a turn that was sent but not received; call recv first")
        ended = [row for row in rows if self._rows.ended[row]]
        if ended and self.autoreset_mode is not AutoresetMode.NEXT_STEP:
            raise EpisodeError(
                f"the episodes of rows {ended} have ended; with autoreset_mode={self.autoreset_mode.value!r} reset "
                "them with options={'reset_mask': ...}"
            )
        return ended

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        """As in Gymnasium, except that dictionaries stay whole: merged, a verdict's floats would be cast to int."""
        merged = {}
        for key, value in env_info.items():
            if isinstance(value, dict) and key not in ("final_obs", "final_info"):
                vector_infos.setdefault(key, np.full(self.num_envs, None, dtype=object))[env_num] = value
                vector_infos.setdefault(f"_{key}", np.zeros(self.num_envs, dtype=np.bool_))[env_num] = True
            else:
                merged[key] = value
        return super()._add_info(vector_infos, merged, env_num)
