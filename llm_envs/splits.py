"""Problems dealt out to splits that share no content.

Content is what makes an example a problem of its own: `metadata["content_hash"]` or `metadata["original_hash"]` where
a task says so (all mutants of one program), else the prompt and the hidden data together.

* A source that is not split yet is dealt out by a hash of the content: 80 % train, 10 % validation, 10 % test, unless
  `splits={"train": 0.9, "test": 0.1}` says otherwise. An example stays where it is when others are added.
* Splits that a person made are taken as they are, and refused when they share content. Of a sequence of one's own that
  a function gives for a split, the first thousand examples are compared.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llm_envs.error import OptionError, ProblemFileError, unknown
from llm_envs.lazy import LazyExamples
from llm_envs.records import Located, RecordReader, Records
from llm_envs.sources import EXPECTED, read_source
from llm_envs.task import content_hash
from verifiers import Example
from verifiers.fingerprint import canonical

COMPARED = 1000
"""How many examples of a split are read to compare it with others, where reading all may build them one by one."""

_MOST = 1e15  # of a share, so that positions between shares stay exact enough

SHARES: Mapping[str, float] = {"train": 0.8, "validation": 0.1, "test": 0.1}


def content_of(example: Example) -> str:
    """Hash of what makes an example a problem of its own; raises `ProblemFileError` where hidden data are not plain."""
    given = example.metadata.get("content_hash") or example.metadata.get("original_hash")
    if given:
        return str(given)
    try:
        return content_hash(canonical([example.prompt, example.hidden]))
    except RecursionError:
        raise ProblemFileError(f"example {example.id!r}: the prompt or hidden data are nested too deeply") from None
    except TypeError as error:
        raise ProblemFileError(
            f"example {example.id!r}: the prompt and hidden data must be plain values (dict, list, text, numbers), "
            f"and {error}; or give metadata['content_hash']"
        ) from error


def split_of(content: str, shares: Mapping[str, float]) -> str:
    """The one split a content belongs to."""
    position = int(content_hash(content), 16) / 16**16 * sum(shares.values())
    for split, share in shares.items():
        position -= share
        if position < 0:
            return split
    return list(shares)[-1]  # rounding


class SplitProblems:
    """`Task.problems` over what a person gave: reads it when first asked, and refuses splits that share content."""

    def __init__(self, problems: Any, reader: RecordReader, splits: Mapping[str, float] | Sequence[str] | None) -> None:
        self._problems, self._reader = problems, reader
        self._lock = threading.RLock()  # a split may be made from another one
        self._known: dict[str, Sequence[Example]] = {}
        self._shares: Mapping[str, float] = SHARES
        if isinstance(problems, Mapping) or self._asks_for_splits:
            self.splits = self._given_splits(splits)
        else:
            self._shares = _shares(splits)
            self.splits = tuple(self._shares)
        sizes = getattr(problems, "sizes", None)
        if sizes is not None and set(sizes) != set(self.splits):
            raise OptionError(
                f"the sizes of ProceduralProblems are those of {', '.join(sizes)}, and the splits are "
                f"{', '.join(self.splits)}; give splits={{name: share}} with the same names"
            )

    @property
    def _asks_for_splits(self) -> bool:
        """Whether the problems are a function of the split; a sequence of somebody's own may be callable, too."""
        return callable(self._problems) and not isinstance(self._problems, Sequence) and not self._sized

    @property
    def _sized(self) -> bool:
        return hasattr(self._problems, "sizes")

    def __call__(self, split: str) -> Sequence[Example]:
        """The examples of a split, cached."""
        if split not in self.splits:
            raise OptionError(unknown("split", split, self.splits))
        with self._lock:
            if split not in self._known:
                self._read(split)
            return self._known[split]

    def _given_splits(self, splits: Mapping[str, float] | Sequence[str] | None) -> tuple[str, ...]:
        if not isinstance(self._problems, Mapping):
            return tuple(SHARES if splits is None else _names(splits))
        if splits is not None:
            raise OptionError(f"problems is a dict, whose keys are the splits; leave splits={splits!r} out")
        return tuple(_names(list(self._problems)))

    def _read(self, split: str) -> None:
        if self._sized:
            self._known[split] = self._problems.examples(split, self._reader, self._shares)
        elif isinstance(self._problems, Mapping):
            # All at once, so that splits that overlap are found whichever is asked for.
            self._keep({name: self._records(self._problems[name], name) for name in self.splits})
        elif self._asks_for_splits:
            examples = self._problems(split)
            if isinstance(examples, (list, tuple, str)) or not isinstance(examples, Sequence):
                self._keep({split: self._records(examples, split)})
            else:
                self._keep({split: self._on_demand(examples, split)})
        else:
            self._keep(self._dealt_out())

    def _records(self, source: Any, split: str) -> Records:
        form = "problems[{!r}]" if isinstance(self._problems, Mapping) else "problems({!r})"
        located = read_source(source, form.format(split))
        return self._reader.read_all(Located(place, f"{split}/{id}", record) for place, id, record in located)

    def _on_demand(self, examples: Sequence[Any], split: str) -> Sequence[Example]:
        """A sequence of somebody's own, which may build what it holds when it is read: not all of it is read here."""

        def build(index: int) -> Example:
            return self._reader.read(f"problems({split!r})[{index}]", f"{split}/{index}", examples[index])

        if not len(examples):
            return examples
        build(0)
        return examples if isinstance(examples[0], Example) else LazyExamples(len(examples), build)

    def _dealt_out(self) -> dict[str, Records]:
        records = self._reader.read_all(read_source(self._problems, "problems"))
        rows: dict[str, list[int]] = {split: [] for split in self.splits}
        for row, example in enumerate(records):
            rows[split_of(content_of(example), self._shares)].append(row)
        for split, chosen in rows.items():
            if not chosen:
                raise ProblemFileError(
                    f"{len(records)} examples are too few to be split by content: {split!r} would be empty; give more, "
                    "or problems={'train': ..., 'test': ...}, or one split with splits={'train': 1}"
                )
        return {
            split: Records([records[row] for row in chosen], [records.places[row] for row in chosen])
            for split, chosen in rows.items()
        }

    def _keep(self, splits: Mapping[str, Sequence[Example]]) -> None:
        """Remember splits, unless one shares content or an id with another; of what is not read yet, see `COMPARED`."""
        everything = {**self._known, **splits}
        located = {split: list(_compared(split, examples, len(everything))) for split, examples in everything.items()}
        for what, key in (("the content", content_of), ("the id", _id)):
            first: dict[str, tuple[str, str]] = {}
            for split, examples in located.items():
                for place, example in examples:
                    other, at = first.setdefault(key(example), (split, place))
                    if other != split:
                        raise ProblemFileError(
                            f"splits {other!r} and {split!r} must be disjoint, but {place} has {what} of {at} "
                            f"(example {example.id!r})"
                        )
        self._known = everything


def _compared(split: str, examples: Sequence[Example], splits: int) -> Iterator[tuple[str, Example]]:
    """The examples of a split that are compared with those of other splits, and their places."""
    if isinstance(examples, Records):
        yield from zip(examples.places, examples, strict=True)
    elif splits > 1:  # a split alone has nothing to be compared with, and building examples takes time
        for index in range(min(len(examples), COMPARED)):
            yield f"problems({split!r})[{index}]", examples[index]


def _id(example: Example) -> str:
    return example.id


def _names(splits: Iterable[Any]) -> list[str]:
    names = [splits] if isinstance(splits, str) else list(splits)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise OptionError(f"splits must have names, such as 'train' and 'test'; got {names!r}. {EXPECTED}")
    return names


def _shares(splits: Mapping[str, float] | Sequence[str] | None) -> dict[str, float]:
    """Split name -> share, for problems that are not split yet."""
    if splits is None:
        return dict(SHARES)
    if isinstance(splits, Mapping) and splits and all(_is_share(share) for share in splits.values()):
        return dict(zip(_names(splits), splits.values(), strict=True))
    raise OptionError(
        "problems are not split yet, so splits must give each split's share, a positive, finite number, such as "
        f"{{'train': 0.9, 'test': 0.1}}; got {splits!r:.200}"
    )


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= _MOST
