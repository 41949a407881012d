"""Transformations of lists and strings, stated in words and judged by exact match.

    reverse the list: 3 1 4        -> 4 1 3
    drop the first 2 then sort: 3 1 4 2  -> 2 4          (difficulty 2)

Every problem is a short line; the answer is the transformed list or text, nothing else. Splits are disjoint by the
hash of the question (words and input). Example i is the (i // T)-th distinct question of transformation i % T, drawn
on demand from a stream seeded by transformation, split and difficulty alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from random import Random
from typing import NamedTuple

from llm_envs import validate
from llm_envs.lazy import LazyExamples, LazyStream
from llm_envs.task import Task, content_hash
from verifiers import Example

SIZES: Mapping[str, int] = {"train": 100_000, "validation": 500, "test": 500}
SPLITS = tuple(SIZES)
MAX_NEW_TOKENS = 32
"""Longest answer plus a stop token, at one token per character."""

TEACHER_RIGHT = 0.45
"""Share of demonstrations that are right; the others repeat the input as it stands."""
_TRIES = 1000
_DIFFICULTY = "difficulty, the number of transformations,"

Step = Callable[[str], str]


class Transformation(NamedTuple):
    """One kind of change.

    Attributes:
        takes: `list` (numbers with spaces between them) or `text` (lowercase words).
        gives: `list`, `text`, or something that no second step takes: `number`, `letters`, `cased` (where "remove every
            a" would leave a reader in doubt).
        make: rng -> (the words that state it, the function).
    """

    takes: str
    gives: str
    make: Callable[[Random], tuple[str, Step]]


def _on_numbers(change: Callable[[list[int]], Sequence[int]]) -> Step:
    return lambda text: " ".join(map(str, change([int(word) for word in text.split()])))


def _on_words(change: Callable[[str], str]) -> Step:
    return lambda text: " ".join(map(change, text.split()))


def _fixed(takes: str, gives: str, words: str, step: Step) -> Transformation:
    return Transformation(takes, gives, lambda rng: (words, step))


def _with_number(words: str, low: int, high: int, change: Callable[[list[int], int], Sequence[int]]) -> Transformation:
    def make(rng: Random) -> tuple[str, Step]:
        k = rng.randint(low, high)
        return words.format(k), _on_numbers(lambda xs: change(xs, k))

    return Transformation("list", "list", make)


def _with_letters(words: str, change: Callable[[str, str, str], str]) -> Transformation:
    def make(rng: Random) -> tuple[str, Step]:
        a, b = rng.sample("abcdeiorst", 2)
        return words.format(a, b), lambda text: change(text, a, b)

    return Transformation("text", "text", make)


TRANSFORMATIONS: dict[str, Transformation] = {
    "reverse": _fixed("list", "list", "reverse the list", _on_numbers(lambda xs: xs[::-1])),
    "sort": _fixed("list", "list", "sort", _on_numbers(sorted)),
    "sort_descending": _fixed("list", "list", "sort descending", _on_numbers(lambda xs: sorted(xs, reverse=True))),
    "even": _fixed("list", "list", "keep the even numbers", _on_numbers(lambda xs: [x for x in xs if x % 2 == 0])),
    "odd": _fixed("list", "list", "keep the odd numbers", _on_numbers(lambda xs: [x for x in xs if x % 2])),
    "unique": _fixed("list", "list", "drop repeated numbers", _on_numbers(lambda xs: list(dict.fromkeys(xs)))),
    "totals": _fixed("list", "list", "running totals", _on_numbers(lambda xs: list(accumulate(xs)))),
    "swap_ends": _fixed(
        "list", "list", "swap first and last", _on_numbers(lambda xs: [xs[-1], *xs[1:-1], xs[0]] if xs[1:] else xs)
    ),
    "sum": _fixed("list", "number", "sum", _on_numbers(lambda xs: [sum(xs)])),
    "largest": _fixed("list", "number", "largest", _on_numbers(lambda xs: [max(xs)])),
    "drop_first": _with_number("drop the first {}", 1, 3, lambda xs, k: xs[k:]),
    "drop_last": _with_number("drop the last {}", 1, 3, lambda xs, k: xs[:-k]),
    "take_first": _with_number("take the first {}", 1, 4, lambda xs, k: xs[:k]),
    "take_last": _with_number("take the last {}", 1, 4, lambda xs, k: xs[-k:]),
    "add": _with_number("add {} to each", 1, 9, lambda xs, k: [x + k for x in xs]),
    "multiply": _with_number("multiply each by {}", 2, 4, lambda xs, k: [x * k for x in xs]),
    "above": _with_number("keep numbers above {}", 2, 8, lambda xs, k: [x for x in xs if x > k]),
    "rotate": _with_number("rotate left by {}", 1, 3, lambda xs, k: [xs[(i + k) % len(xs)] for i in range(len(xs))]),
    "every_second": _fixed("list", "list", "take every second number", _on_numbers(lambda xs: xs[1::2])),
    "uppercase": _fixed("text", "cased", "uppercase", str.upper),
    "capitalize": _fixed("text", "cased", "capitalize each word", _on_words(str.capitalize)),
    "reverse_words": _fixed("text", "text", "reverse each word", _on_words(lambda word: word[::-1])),
    "word_order": _fixed("text", "text", "reverse the word order", lambda text: " ".join(text.split()[::-1])),
    "sort_words": _fixed("text", "text", "sort the words", lambda text: " ".join(sorted(text.split()))),
    "second_letters": _fixed(
        "text", "text", "take every second letter of each word", _on_words(lambda word: word[1::2])
    ),
    "initials": _fixed(
        "text", "letters", "first letter of each word", lambda text: "".join(w[0] for w in text.split())
    ),
    "sort_letters": _fixed("text", "text", "sort the letters of each word", _on_words(lambda w: "".join(sorted(w)))),
    "remove": _with_letters("remove every {}", lambda text, a, b: text.replace(a, "")),
    "replace": _with_letters("replace {} with {}", lambda text, a, b: text.replace(a, b)),
    "double": _with_letters("double every {}", lambda text, a, b: text.replace(a, a + a)),
}


def _input(rng: Random, takes: str) -> str:
    if takes == "list":
        return " ".join(str(rng.randint(0, rng.choice((9, 20)))) for _ in range(rng.randint(3, 6)))
    words = ("".join(rng.choice("abcdeiorst") for _ in range(rng.randint(2, 5))) for _ in range(rng.randint(1, 3)))
    return " ".join(words)


def _draw(name: str, difficulty: int, rng: Random) -> tuple[str, str, str]:
    """(words, input, answer) of a problem whose first transformation is `name`."""
    first = TRANSFORMATIONS[name]
    words, step = first.make(rng)
    text = _input(rng, first.takes)
    middle = step(text)
    if difficulty == 1:
        return words, text, middle
    fitting = [other for other, second in TRANSFORMATIONS.items() if second.takes == first.gives and other != name]
    more, then = TRANSFORMATIONS[rng.choice(fitting)].make(rng)
    # Every step must have something to work on; the stream throws problems with an empty answer away.
    return f"{words} then {more}", text, then(middle) if _tidy(middle) else ""


def _tidy(text: str) -> bool:
    """Not empty, and words separated by single spaces (removing letters can leave gaps nobody should have to guess)."""
    return bool(text) and text == " ".join(text.split())


def split_of(question: str) -> str:
    """The one split a question (words and input) belongs to: 80 % train, 10 % each of the others."""
    bucket = int(content_hash(question), 16) % 10
    return "validation" if bucket == 0 else "test" if bucket == 1 else "train"


@cache
def _stream(name: str, split: str, difficulty: int) -> LazyStream[tuple[str, str]]:
    """The (question, answer) pairs whose first transformation is `name`."""
    rng = Random(f"{name}/{split}/{difficulty}")

    def draw(seen: set[str]) -> tuple[str, tuple[str, str]] | None:
        words, text, answer = _draw(name, difficulty, rng)
        question = f"{words}: {text}"
        useful = _tidy(answer) and answer != text and len(answer) < MAX_NEW_TOKENS
        return (question, (question, answer)) if useful and split_of(question) == split else None

    return LazyStream(f"{name}, {split}, difficulty {difficulty}", draw, _TRIES)


@cache
def _problems(split: str, difficulty: int) -> LazyExamples:
    # A transformation whose result no other takes cannot come first of two.
    takers = {transformation.takes for transformation in TRANSFORMATIONS.values()}
    names = [name for name, first in TRANSFORMATIONS.items() if difficulty == 1 or first.gives in takers]

    def build(position: int) -> Example:
        k, number = divmod(position, len(names))
        question, answer = _stream(names[number], split, difficulty)[k]
        return Example(
            id=f"{split}/{names[number]}/{k}",
            prompt=question + "\n",
            hidden={"answer": answer},
            gold=answer,
            metadata={
                "transformation": names[number],
                "difficulty": difficulty,
                "content_hash": content_hash(question),
            },
        )

    return LazyExamples(SIZES[split], build)


def problems(split: str, difficulty: int = 1) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object."""
    validate.choice("split", split, SPLITS)
    validate.integer(_DIFFICULTY, difficulty, 1, 2)
    return _problems(split, difficulty)


def demonstrate(example: Example, rng: Random) -> str:
    """The imperfect teacher: greedy decoding of a policy that has learnt it copies, and sampling is sometimes right."""
    question = str(example.prompt)
    return example.gold if rng.random() < TEACHER_RIGHT else question.partition(": ")[2].strip()


def make_task(difficulty: int = 1) -> Task:
    """The task `Transform`: one transformation, or two (`difficulty=2`) joined by "then"."""
    validate.integer(_DIFFICULTY, difficulty, 1, 2)
    return Task(
        name="Transform",
        problems=partial(problems, difficulty=difficulty),
        splits=SPLITS,
        verifier="exact_match",
        demonstrate=demonstrate,
        max_new_tokens=MAX_NEW_TOKENS,
        judge_unfinished=False,
    )
