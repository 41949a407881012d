"""What a person reads of a run: the progress line and the final table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from agents.evaluate import Evaluation, wilson_interval

if TYPE_CHECKING:
    from agents.on_policy import OnPolicyAgent


class Progress:
    """A live line in a terminal, one line per evaluation elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, Any] = {}
        self._last = time.perf_counter()

    def warm_up(self, step: int, loss: float, steps: int) -> None:
        """One supervised step."""
        self._show("warm-up", step + 1, steps, f"loss {loss:.3f}")

    def iteration(self, agent: OnPolicyAgent, metrics: dict[str, float], total: int) -> None:
        """One iteration."""
        note = (
            f"iteration {agent.iteration}  pass {metrics['objective/pass_rate']:.2f}  "
            f"score {metrics['objective/scores']:.2f}  KL {metrics['objective/kl']:.2f}"
        )
        if "ppo/val/var_explained" in metrics:
            note += f"  explained variance {metrics['ppo/val/var_explained']:.2f}"
        if "eval/greedy" in metrics:
            note += f"  held-out greedy {metrics['eval/greedy']:.2f} sampled {metrics['eval/sampled']:.2f}"
        self._show(agent.name.upper(), agent.num_timesteps, total, note, always="eval/greedy" in metrics)

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
