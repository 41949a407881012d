"""The acceptance record of a run: what was trained, on what, at which cost, and what an independent look found.

The chapter's list (section 3.9) as a JSON document that `SCHEMA` describes; `validate_record` refuses anything else.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.evaluate import Evaluation
from agents.jsonable import jsonable
from agents.perturbation import Sensitivity
from agents.run import peak_memory, versions

if TYPE_CHECKING:
    from agents.on_policy import OnPolicyAgent

PHASES = ("generation", "verification", "scoring", "update")


def acceptance_record(
    agent: OnPolicyAgent,
    settings: Any,
    task: Any,
    before: Mapping[str, Evaluation],
    after: Mapping[str, Evaluation],
    history: list[dict[str, float]],
    seconds: Mapping[str, float],
    sensitivity: Sequence[Sensitivity | Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Everything the chapter asks for, as plain JSON.

    Args:
        agent: after training.
        settings: what the run was started with.
        task: has `splits` and `problems(split)`.
        before: split -> held-out evaluation before training,
        after: and after it.
        history: metrics of every iteration.
        seconds: of the parts that no iteration measures.
        sensitivity: of the last batch's advantages, see `agents.perturbation`.
    """
    last = history[-1] if history else {}

    def group(*prefixes: str) -> dict[str, float]:
        return {name: value for name, value in last.items() if name.startswith(prefixes)}

    record = {
        "agent": agent.name,
        "versions": versions(),
        "settings": settings,
        "splits": {split: split_identity(task.problems(split), 500) for split in task.splits},
        "weights": {
            "reference": agent.reference.fingerprint(),
            "policy": agent.policy.fingerprint(),
            "updates": agent.engine.weight_version,
        },
        "sampling": agent.sampling,
        "ratio_denominator": agent.ratio_denominator,
        "iterations": agent.iteration,
        "tokens": {"sampled": agent.num_timesteps, "episodes": agent.num_episodes},
        "reward_components": group("objective/", "components/"),
        "reward_sensitivity": sensitivity or [],
        "advantages": group("ppo/advantages"),
        "values_against_returns": group("ppo/val", "ppo/returns"),
        "update": group("policy/", "loss/", "val/", "grad_norm/"),
        "logprob_mismatch": {
            "last": group("mismatch/"),
            "worst": max((m["mismatch/max"] for m in history if "mismatch/max" in m), default=None),
        },
        "held_out": {"before": dict(before), "after": dict(after)},
        "seconds": {**seconds, **{name: sum(m.get(f"seconds/{name}", 0.0) for m in history) for name in PHASES}},
        "peak_memory": peak_memory(agent.policy.device),
    }
    plain = jsonable(record)
    validate_record(plain)
    return plain


def split_identity(examples: Any, limit: int) -> dict[str, Any]:
    """What identifies a split: its size, and a hash over all of its first `limit` examples."""
    digest = hashlib.sha256()
    n = 0
    for example in itertools.islice(examples, limit):
        digest.update(repr((example.id, example.prompt, example.hidden, example.gold)).encode())
        n += 1
    return {"size": len(examples), "hashed": n, "sha256": digest.hexdigest()}


def validate_record(record: Any) -> None:
    """Raises ValueError, naming the entry, when a record is not what `SCHEMA` says."""
    import jsonschema  # where it is needed: it costs a tenth of a second

    error = next(iter(jsonschema.Draft202012Validator(SCHEMA).iter_errors(record)), None)
    if error is not None:
        where = "/".join(map(str, error.absolute_path)) or "the record"
        raise ValueError(f"record.json: {where}: {error.message}")


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _map(values: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


TEXT, HASH = {"type": "string"}, {"type": "string", "pattern": "^[0-9a-f]{16,64}$"}
COUNT, RATE = {"type": "integer", "minimum": 0}, {"type": "number", "minimum": 0, "maximum": 1}
NUMBER: dict[str, Any] = {"type": ["number", "null"]}  # null is undefined (NaN), for instance the variance of nothing
NUMBERS = _map(NUMBER)
EVALUATION = _object(
    greedy=RATE | NUMBER, sampled=RATE | NUMBER, greedy_score=NUMBER, sampled_score=NUMBER, episodes=COUNT,
    unscored=COUNT, samples=COUNT, pass_at=_map(RATE), judges=_map(NUMBERS),
    intervals=_map({"type": "array", "items": RATE, "minItems": 2, "maxItems": 2}),
    kl=NUMBER, kl_min=NUMBER, kl_max=NUMBER, length=NUMBER, kinds=_map(COUNT),
)  # fmt: skip
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(
        agent=TEXT,
        versions=_map(TEXT),
        settings={"type": "object"},
        splits=_map(_object(size=COUNT, hashed=COUNT, sha256=HASH)),
        weights=_object(reference=HASH, policy=HASH, updates=COUNT),
        sampling=_object(temperature=NUMBER, top_k=COUNT, top_p=RATE, min_p=RATE, greedy={"type": "boolean"}),
        ratio_denominator=TEXT,
        iterations=COUNT,
        tokens=_object(sampled=COUNT, episodes=COUNT),
        reward_components=NUMBERS,
        reward_sensitivity={
            "type": "array", "items": _object(component=TEXT, scale=NUMBER, change=NUMBER, correlation=NUMBER)
        },
        advantages=NUMBERS,
        values_against_returns=NUMBERS,
        update=NUMBERS,
        logprob_mismatch=_object(last=NUMBERS, worst=NUMBER),
        held_out=_object(before=_map(EVALUATION), after=_map(EVALUATION)),
        seconds=_map(NUMBER),
        peak_memory=_map(COUNT),
    ),
}  # fmt: skip
"""JSON schema of `record.json`."""
