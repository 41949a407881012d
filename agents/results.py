"""Evaluating any agent: every answer is a line of a file as soon as it is judged, and the summary is made of the lines.

An evaluation that was interrupted goes on where it stopped: an answer in the file is not asked for again, and one that
failed (an endpoint that was down, a judge that broke) is.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from agents.base import Agent, AgentError, EnvSource, Episode
from agents.evaluate import interval, passes
from agents.files import write_text
from agents.jsonable import jsonable
from agents.statistics import pass_at_k


@dataclass(frozen=True)
class Result:
    """One judged answer."""

    index: int
    """The problem, by its place in the split."""
    sample: int
    """Which of the answers to it, from 0."""
    example_id: str = ""
    family: str = ""
    """What the example's metadata calls its family, task or kind; empty when it says nothing."""
    score: float = 0.0
    passed: bool | None = None
    """None without a verdict."""
    kind: str = ""
    """Kind of the verdict."""
    judges: dict[str, bool | None] = field(default_factory=dict)
    """Other verifiers of the same answer -> passed; None where one broke."""
    failed: str = ""
    """What broke outside the agent; such an answer has no verdict and counts nowhere."""

    @classmethod
    def of(cls, index: int, sample: int, episode: Episode) -> Result:
        """What one episode came to."""
        info = episode.info
        metadata = info.get("metadata") or {}
        families = (metadata[name] for name in ("family", "task", "kind") if metadata.get(name))
        judges = {
            name: None if verdict is None else bool(verdict["passed"])
            for name, verdict in info.get("extra_verdicts", {}).items()
        }
        verdict = info.get("verdict")
        return cls(
            index, sample, str(info.get("example_id", index)), str(next(families, "")), episode.score,
            None if verdict is None else passes(info), str((verdict or {}).get("kind", "none")), judges, episode.failed,
        )  # fmt: skip


def evaluate_agent(
    agent: Agent,
    env: EnvSource,
    indices: Sequence[int],
    path: Path,
    *,
    k: int = 1,
    env_options: Mapping[str, Any] | None = None,
    deterministic: bool = False,
    seed: int = 0,
    rows: int = 16,
    which: Mapping[str, Any] | None = None,
) -> list[Result]:
    """Have the agent answer each problem `k` times, unless the file says it did.

    Args:
        agent: any.
        env: as of `Agent.play`, as are `env_options`, `deterministic`, `seed` and `rows`.
        indices: problems.
        path: JSON lines, one per answer; its first line says what is evaluated.
        k: answers to each.
        env_options: keyword arguments of `gymnasium.make`.
        deterministic: greedy answers.
        seed: of draws.
        rows: episodes at once.
        which: what else tells this agent from others of its name: its weights, its options.

    Raises:
        AgentError: the file is of another evaluation.
    """
    header = jsonable(
        {
            "agent": agent.name, "env": env, "env_options": env_options or {},
            "deterministic": deterministic, "seed": seed, "which": which or {},
        },
        called,
    )  # fmt: skip
    done = read_results(path, header)
    with path.open("a") as file:
        for sample in range(k):
            missing = [index for index in indices if (index, sample) not in done]
            if not missing:
                continue
            for episode in agent.play(
                env, missing, env_options=env_options, deterministic=deterministic, seed=seed, sample=sample, rows=rows
            ):
                result = Result.of(missing[episode.number], sample, episode)
                file.write(json.dumps(jsonable(asdict(result))) + "\n")
                file.flush()
                done[result.index, result.sample] = result
    wanted = [(i, sample) for i in indices for sample in range(k)]
    return [done[key] for key in wanted]


def read_results(path: Path, header: dict[str, Any]) -> dict[tuple[int, int], Result]:
    """(problem, sample) -> answer, of a file of the same evaluation; a new file gets its header.

    A line that was cut off when the process died is removed.
    """
    first = json.dumps(header) + "\n"
    text = path.read_text() if path.exists() else ""
    if first.startswith(text) and text != first:  # nothing yet, or the header was cut off
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first)
        return {}
    lines = text.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    try:
        found, *records = [json.loads(line) for line in whole]
        results = {(record["index"], record["sample"]): Result(**undefined(record)) for record in records}
    except (ValueError, TypeError, KeyError) as error:
        raise AgentError(f"{path} does not hold results of an evaluation: {error}") from error
    if not isinstance(found, dict):
        raise AgentError(f"{path} does not hold results of an evaluation")
    if found != header:
        differing = sorted(name for name in header if header[name] != found.get(name))
        raise AgentError(f"{path} holds another evaluation (its {', '.join(differing)} differ); give another file")
    if len(whole) < len(lines):
        write_text(path, "".join(whole))
    return {key: result for key, result in results.items() if not result.failed}


def undefined(record: dict[str, Any]) -> dict[str, Any]:
    """A line whose score was NaN, which JSON does not have, as it was."""
    return record | {"score": float("nan") if record["score"] is None else record["score"]}


def called(value: Any) -> str:
    """What another process calls the same function, class or kind of object; a path is itself."""
    if isinstance(value, Path):
        return str(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


@dataclass(frozen=True)
class Summary:
    """What a number of answers comes to; rates with 95% bootstrap intervals over problems."""

    problems: int
    """Problems with at least one verdict."""
    answers: int
    """Answers with a verdict."""
    failed: int
    """Answers without one, because something outside the agent broke."""
    score: float
    """Mean score of an answer."""
    pass_at: dict[int, tuple[float, float, float]]
    """k -> (unbiased pass@k, low, high), for every k that each problem has answers enough for; none at all where the
    environment gives no verdicts. An episode that was cut off before its verdict did not pass."""
    judges: dict[str, float]
    """Other verifiers -> share of answers that pass; what they broke on is left out."""
    kinds: dict[str, int]
    """Kind of verdict -> answers."""


def summarise(results: Iterable[Result], ks: Sequence[int]) -> Summary:
    """Rates and intervals of these answers."""
    results = list(results)
    judged = [result for result in results if not result.failed]
    by_problem: dict[int, list[bool]] = defaultdict(list)
    for result in judged:
        by_problem[result.index].append(bool(result.passed))
    verdicts = any(result.passed is not None for result in judged)
    n = np.array([len(passed) for passed in by_problem.values()], dtype=int)
    c = np.array([sum(passed) for passed in by_problem.values()], dtype=int)
    pass_at = {}
    for k in ks:
        if verdicts and n.min() >= k:
            rates = pass_at_k(n, c, k)
            pass_at[k] = (float(rates.mean()), *interval(rates))
    names = dict.fromkeys(name for result in judged for name in result.judges)
    opinions = {
        name: [result.judges[name] for result in judged if result.judges.get(name) is not None] for name in names
    }
    return Summary(
        problems=len(n),
        answers=len(judged),
        failed=len(results) - len(judged),
        score=float(np.mean([result.score for result in judged])) if judged else float("nan"),
        pass_at=pass_at,
        judges={
            name: sum(map(bool, passed)) / len(passed) if passed else float("nan") for name, passed in opinions.items()
        },
        kinds=dict(Counter(result.kind for result in judged).most_common()),
    )


def by_family(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Family -> its answers with a verdict, in the order of the alphabet; what failed may not know its family."""
    families: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if not result.failed:
            families[result.family].append(result)
    return dict(sorted(families.items()))


def summary_table(title: str, groups: Mapping[str, Summary], judge: str) -> Table:
    """One line per group; `judge` names the verifier whose verdict was the reward."""
    first = next(iter(groups.values()))
    table = Table(title=title, title_justify="left")
    columns = [
        "",
        "problems",
        "answers",
        "failed",
        "score",
        *(f"pass@{k} ({judge})" for k in first.pass_at),
        *map(escape, first.judges),
    ]
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for name, group in groups.items():
        rates = [
            "{:.3f} [{:.2f}, {:.2f}]".format(*group.pass_at[k]) if k in group.pass_at else "" for k in first.pass_at
        ]
        others = [f"{group.judges.get(judge, float('nan')):.3f}" for judge in first.judges]
        table.add_row(
            escape(name),
            str(group.problems),
            str(group.answers),
            str(group.failed),
            f"{group.score:.3f}",
            *rates,
            *others,
        )
    return table
