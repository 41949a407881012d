"""Tasks of the package reasoning-gym (extra `reasoning-gym`): about a hundred generators, with scorers of their own.

    register_task("ChainSum", "llm_envs.sources.reasoning_gym:make_task", dataset="chain_sum")
    gym.make("llm_envs/ChainSum-v0", config={"max_terms": 3})

A problem is item 0 of the dataset seeded by its index. reasoning-gym itself seeds item i of a dataset with seed + i, so
datasets of neighbouring seeds hold the same items; here a hash of the question decides to which split a problem goes.

The scorer runs in a helper process under limits, which builds the item again, so that nothing needs to be written down.
Scorers that hand the answer to `eval` or to SymPy's parser (which does) would let a policy run code as you, and are
refused: countdown, puzzle24, n_queens, string_insertion, spiral_matrix, binary_matrix, polynomial_multiplication and
the integrals; codeio runs programs of a data file. The refusal reads the source of the dataset's module.

Datasets whose items change with PYTHONHASHSEED (`_UNSTABLE`) are refused, too.

Not covered: `composite` datasets and curricula; datasets that know no gold answer have "" for gold.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

from llm_envs import validate
from llm_envs.build_task import build_task
from llm_envs.error import OptionError, unknown
from llm_envs.sources.procedural import SIZES, ProceduralProblems
from llm_envs.task import Task, content_hash
from verifiers import Answer, CallDied, CallTimeout, Example, TrustedProcess, Verdict, Verifier, VerifierError

_EVALUATES = re.compile(r"\b(eval|exec|parse_expr|sympify)\(")
_READ = frozenset({"basic_arithmetic", "bitwise_arithmetic", "number_sorting", "propositional_logic"})
"""Modules that match and were read (version 0.1.25): they evaluate the problem or have a parser of their own."""
_UNSTABLE = frozenset({"isomorphic_strings", "knight_swap", "list_functions", "ransom_note", "word_ladder"})
"""Found (version 0.1.25) by building every dataset in two processes; `check_task` finds others."""


def make_task(
    dataset: str,
    config: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] = SIZES,
    instruction: str = "",
    max_new_tokens: int = 256,
) -> Task:
    """A task over one dataset.

    Args:
        dataset: its name, such as "chain_sum".
        config: keyword arguments of the dataset, without `seed` and `size`.
        sizes: examples per split: train, validation, test.
        instruction: put after every question.
        max_new_tokens: tokens the policy may write.
    """
    options = validate.mapping("config", {} if config is None else config)
    _check(validate.text("dataset", dataset), options)

    def generate(rng: Random) -> dict[str, Any]:
        index = rng.getrandbits(31)
        item = _item(dataset, options, index)
        answer = item["answer"]
        return {
            "prompt": f"{item['question']}\n{instruction}",
            "hidden": {"dataset": dataset, "config": options, "index": index, "question": item["question"]},
            "gold": answer if isinstance(answer, str) else "",
            "metadata": {"dataset": dataset, "content_hash": content_hash(item["question"])},
        }

    return build_task(
        "".join(word.capitalize() for word in dataset.split("_")),
        ProceduralProblems(generate, sizes),
        verifier=f"{__name__}:ReasoningGymScorer",
        max_new_tokens=max_new_tokens,
    )


class ReasoningGymScorer(Verifier):
    """Scores as the dataset does, from 0 to 1; passed at 1; kinds passed, partial, wrong, timeout, died.

        example.hidden = {"dataset": "chain_sum", "config": {}, "index": 7, "question": "..."}

    Args:
        cpu_s: CPU time of one scoring, with building the item, whole seconds.
        memory_mb: memory of one scoring, MiB.
    """

    def __init__(self, cpu_s: float = 10.0, memory_mb: int = 1024) -> None:
        self._process = TrustedProcess(
            f"{__name__}:score", cpu_s=cpu_s, memory_mb=memory_mb, warm_up=f"{__name__}:_library"
        )

    def configuration(self) -> dict[str, Any]:
        """The limits, and the version of what decides."""
        from importlib.metadata import version

        return {**self._process.limits, "reasoning_gym": version("reasoning_gym")}

    def validate(self, example: Example) -> None:
        """Check the fields of `example.hidden`; raises `VerifierError`."""
        types = {"dataset": str, "config": dict, "index": int, "question": str}
        for field, kind in types.items():
            value = example.hidden.get(field)
            if not isinstance(value, kind):
                expected = f"hidden[{field!r}] must be of type {kind.__name__}, got {value!r:.80}"
                raise VerifierError(f"example {example.id!r}: {expected}")
        try:
            _check(example.hidden["dataset"], example.hidden["config"])
        except OptionError as error:
            raise VerifierError(f"example {example.id!r}: {error}") from error

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Score one answer; raises `VerifierError` for malformed hidden data, or if the item is another by now."""
        began = time.perf_counter()
        self.validate(example)
        try:
            reply = self._process.call({**example.hidden, "answer": answer.text})
        except (CallTimeout, CallDied) as error:
            kind = "timeout" if isinstance(error, CallTimeout) else "died"
            return Verdict(0.0, False, kind, feedback=str(error), seconds=time.perf_counter() - began)
        if "complaint" in reply:
            raise VerifierError(f"example {example.id!r}: {reply['complaint']}")
        score = float(reply["score"])
        kind = "passed" if score >= 1 else "partial" if score > 0 else "wrong"
        return Verdict(score, score >= 1, kind, seconds=time.perf_counter() - began)

    def close(self) -> None:
        """End the helper process; judging again starts a new one."""
        self._process.close()


def score(payload: dict[str, Any]) -> dict[str, Any]:
    """In the helper: build the item again and have its dataset score the answer."""
    items = _dataset(payload["dataset"], payload["config"], payload["index"])
    item = items[0]
    if item["question"] != payload["question"]:
        return {"complaint": f"{payload['dataset']} gives another question for index {payload['index']} here"}
    try:
        return {"score": items.score_answer(payload["answer"], item)}
    except Exception as error:  # what a scorer cannot read is a wrong answer
        print(f"{payload['dataset']}: {type(error).__name__}: {error}", file=sys.stderr)
        return {"score": 0.0}


def _library() -> Any:
    try:
        import reasoning_gym
    except ImportError as error:
        raise ImportError("this task needs the package reasoning-gym: pip install 'llm-envs[reasoning-gym]'") from error
    return reasoning_gym


def _dataset(name: str, config: Mapping[str, Any], index: int) -> Any:
    return _library().create_dataset(name, seed=index, size=1, **config)


def _item(name: str, config: Mapping[str, Any], index: int) -> dict[str, Any]:
    return _dataset(name, config, index)[0]


def _check(name: str, config: Mapping[str, Any]) -> None:
    """Raise `OptionError` for a dataset that does not exist, must not be used, or does not take this configuration."""
    try:
        text = json.dumps(config, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"config must be made of plain values, got {config!r:.80}: {error}") from error
    _check_once(name, text)


@cache
def _check_once(name: str, config: str) -> None:
    _library()
    from reasoning_gym.factory import DATASETS

    if name not in DATASETS:
        raise OptionError(unknown("dataset of reasoning-gym", name, sorted(DATASETS)))
    if name == "composite":
        raise OptionError("the dataset 'composite' of reasoning-gym is not supported; register its parts one by one")
    if name not in _READ and _EVALUATES.search(inspect.getsource(sys.modules[DATASETS[name][0].__module__])):
        raise OptionError(
            f"the scorer of {name!r} may evaluate what the policy writes as Python, so it is refused; "
            "use a verifier of your own over its questions"
        )
    if name in _UNSTABLE:
        raise OptionError(f"the items of {name!r} are others in every process (they depend on PYTHONHASHSEED)")
    options = json.loads(config)
    if {"seed", "size"} & set(options):
        raise OptionError(f"config must leave out seed and size, which are set for each example; got {options}")
    try:
        _dataset(name, options, 0)
    except (TypeError, ValueError, AssertionError) as error:
        raise OptionError(f"{name!r} of reasoning-gym does not take config={options}: {error}") from error
