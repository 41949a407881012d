"""What a person reads of a run: the progress line, the final table and the acceptance record."""

from __future__ import annotations

import hashlib
import itertools
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from agents.evaluate import Evaluation, wilson_interval
from agents.run import RunFolder, jsonable, peak_memory, versions, weight_fingerprint

if TYPE_CHECKING:
    from agents.ppo.agent import PPO


class Progress:
    """A live line in a terminal, one line per evaluation elsewhere; every number goes to the run folder."""

    def __init__(self, console: Console, run: RunFolder) -> None:
        self.console, self.run = console, run
        self.history: list[dict[str, float]] = []
        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, Any] = {}
        self._last = time.perf_counter()

    def warm_up(self, step: int, loss: float, steps: int) -> None:
        """One supervised step."""
        self._show("warm-up", step + 1, steps, f"loss {loss:.3f}")

    def iteration(self, agent: PPO, metrics: dict[str, float], total: int) -> None:
        """One PPO iteration."""
        self.history.append(metrics)
        self.run.log(metrics, agent.iteration)
        note = (
            f"iteration {agent.iteration}  pass {metrics['objective/pass_rate']:.2f}  "
            f"score {metrics['objective/scores']:.2f}  KL {metrics['objective/kl']:.2f}  "
            f"explained variance {metrics['ppo/val/var_explained']:.2f}"
        )
        if "eval/greedy" in metrics:
            note += f"  held-out greedy {metrics['eval/greedy']:.2f} sampled {metrics['eval/sampled']:.2f}"
        self._show("PPO", agent.num_timesteps, total, note, always="eval/greedy" in metrics)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._bar.stop()

    def _show(self, name: str, done: int, total: int, note: str, always: bool = False) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=total, note=note)
            self._bar.start()
        self._bar.update(self._tasks[name], completed=done, note=note)
        due = always or done >= total or time.perf_counter() - self._last > 30
        if due and not self.console.is_terminal:
            self.console.print(f"{name} {min(done, total)}/{total}: {note}", soft_wrap=True, highlight=False)
            self._last = time.perf_counter()


def result_table(before: dict[str, Evaluation], after: dict[str, Evaluation]) -> Table:
    """Pass rates before and after with 95% intervals."""
    table = Table(title="pass@1 with 95% intervals")
    for column in ("split", "problems", "decoding", "warmed up", "after PPO", "KL to reference"):
        table.add_column(column, justify="left" if column in ("split", "decoding") else "right")
    for split, end in after.items():
        for decoding in ("greedy", "sampled"):
            cells = []
            for evaluation in (before[split], end):
                rate = getattr(evaluation, decoding)
                low, high = wilson_interval(rate, evaluation.episodes)
                cells.append(f"{rate:.3f} [{low:.2f}, {high:.2f}]")
            kl = f"{end.kl:.2f}" if decoding == "sampled" else ""
            table.add_row(split, str(end.episodes), decoding, *cells, kl)
    return table


def split_identity(examples: Any, limit: int) -> dict[str, Any]:
    """What identifies a split: its size, and a hash over all of its first `limit` examples."""
    digest = hashlib.sha256()
    n = 0
    for example in itertools.islice(examples, limit):
        digest.update(repr((example.id, example.prompt, example.hidden, example.gold)).encode())
        n += 1
    return {"size": len(examples), "hashed": n, "sha256": digest.hexdigest()}


def acceptance_record(
    agent: PPO,
    settings: Any,
    task: Any,
    before: dict[str, Evaluation],
    after: dict[str, Evaluation],
    history: list[dict[str, float]],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """The chapter's acceptance record: what was trained, on what, at which cost, and what an independent look found."""
    last = history[-1] if history else {}

    def group(*prefixes: str) -> dict[str, float]:
        return {name: value for name, value in last.items() if name.startswith(prefixes)}

    return {
        "versions": versions(),
        "settings": jsonable(settings),
        "splits": {split: split_identity(task.problems(split), 500) for split in task.splits},
        "weights": {
            "reference": weight_fingerprint(agent.reference.model),
            "policy": weight_fingerprint(agent.policy.model),
            "updates": agent.engine.weight_version,
        },
        "sampling": agent.sampling,
        "ratio_denominator": "recomputed" if agent.config.recompute_logprobs else "stored at sampling",
        "iterations": agent.iteration,
        "tokens": {"sampled": agent.num_timesteps, "episodes": agent.num_episodes},
        "reward_components": group("objective/", "components/"),
        "advantages": group("ppo/advantages"),
        "values_against_returns": group("ppo/val", "ppo/returns"),
        "update": group("policy/", "loss/", "val/", "grad_norm/"),
        "logprob_mismatch": {
            "last": group("mismatch/"),
            "worst": max((m["mismatch/max"] for m in history), default=None),
        },
        "held_out": {
            "before": dict(before),
            "after": dict(after),
        },
        "seconds": {**seconds, **{name: sum(m.get(f"seconds/{name}", 0.0) for m in history) for name in PHASES}},
        "peak_memory": peak_memory(agent.policy.device),
    }


PHASES = ("generation", "verification", "scoring", "update")
