"""Problems that a function of yours draws, as many as you say.

    def generate(rng):
        a, b = rng.randint(0, 999), rng.randint(0, 999)
        return {"prompt": f"{a} + {b} = ", "answer": str(a + b)}

    register_task("Sum", problems=ProceduralProblems(generate), verifier="exact_match")

Example i of a split is the first draw of a generator seeded by split and i whose content belongs to the split. So any
example can be built without the others, which makes a split of a billion as cheap as one of a hundred, and splits are
disjoint by content, not by seed: a hash of the content decides which split a problem belongs to, whatever drew it.

Not covered: within a split an example can come twice, the sooner the fewer problems there are to draw. Examples are
kept once built. `llm_envs.tasks.generated` is for tasks whose test split has kinds of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from llm_envs.error import OptionError, ProblemFileError
from llm_envs.lazy import LazyExamples
from llm_envs.records import RecordReader
from llm_envs.splits import content_of, split_of
from verifiers import Example

SIZES: Mapping[str, int] = {"train": 100_000, "validation": 500, "test": 500}

_TRIES = 10_000


class ProceduralProblems:
    """Examples drawn by `generate`, for `register_task(problems=...)`.

    Args:
        generate: rng -> a record, an Example, or None when this draw came to nothing; draws from `rng` alone. A record
            or Example with `metadata["content_hash"]` says itself what makes it a problem of its own.
        sizes: split -> number of examples.
        seed: another seed gives other examples of the same splits.
    """

    def __init__(self, generate: Callable[[Random], Any], sizes: Mapping[str, int] = SIZES, seed: int = 0) -> None:
        if not callable(generate):
            raise OptionError(f"generate must be a function of a random.Random, got {generate!r:.80}")
        if not isinstance(sizes, Mapping) or not sizes:
            raise OptionError(f"sizes must be a dict split -> number of examples, got {sizes!r:.80}")
        for split, size in sizes.items():
            if type(size) is not int or size < 1:
                raise OptionError(f"sizes must be positive integers, got {size!r:.80} for {split!r}")
        self.generate, self.sizes, self.seed = generate, dict(sizes), seed

    def examples(self, split: str, reader: RecordReader, shares: Mapping[str, float]) -> LazyExamples:
        """The examples of a split; `shares` says how large a part of all problems belongs to each split."""

        def build(index: int) -> Example:
            rng = Random(f"{self.seed}/{split}/{index}")
            id = f"{split}/{index}"
            for _ in range(_TRIES):
                record = self.generate(rng)
                if record is None:
                    continue
                example = reader.read(f"a problem that generate drew for {id}", id, record)
                if split_of(content_of(example), shares) == split:
                    return Example(id, example.prompt, example.hidden, example.gold, example.metadata)
            raise ProblemFileError(
                f"generate drew no problem of split {split!r} in {_TRIES} tries; it can draw too few to be split"
            )

        return LazyExamples(self.sizes[split], build)
