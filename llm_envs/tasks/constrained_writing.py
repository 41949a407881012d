"""Write a sentence, a short paragraph or a list under constraints; every constraint met earns a share of the score.

    Write one sentence.
    Use the words: clock, miner.
    Do not use: bucket, harbour.
    End with "!".
                                  -> The curious miner dropped a dusty clock near the mill!

Difficulty 1 has the form, one or two words to use and one constraint more; difficulty 2 has three words to use, words
and a frequent letter to avoid, and a narrow length. Gold answers come from a small grammar (`sentences`) and the
constraints are read off them, so all of them can be met together, by a sentence that need not be sensible.

Splits are disjoint by the hash of the constraints. `test` has forms of its own, which the other splits never use:
capitals, a given last word, two questions, lists in capitals.

Not covered: the verifier does not judge sense or grammar (see `verifiers/text/writing.py`), so a policy may learn to
write nonsense with the right words in it; put a judge of fluency beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple

from llm_envs.lazy import LazyExamples
from llm_envs.task import Task
from llm_envs.tasks.generated import SPLITS, Draft, check_options, generated_examples
from llm_envs.tasks.sentences import CONTENT_SLOTS, ITEMS, LEXICON, QUESTIONS, STATEMENTS, Phrase, capital, phrase
from verifiers import Example
from verifiers.text.writing import is_met, words_of

DIFFICULTIES: Mapping[int, str] = {1: "three or four constraints", 2: "six or more"}
MAX_NEW_TOKENS: Mapping[int, int] = {1: 144, 2: 224}
"""Longest gold answer plus a stop token, at one token per character."""

TEACHER: Mapping[str, float] = {"right": 0.5, "word": 0.3, "form": 0.2}
"""How often the teacher of the warm-up does what; see `demonstrate`."""

_FREQUENT = "etaoinsrhldcumfgypbwvk"
_COUNTS = {2: "two", 3: "three", 4: "four"}

Constraint = dict[str, Any]


class Form(NamedTuple):
    """A text that has a form, what asks for it, and the constraints that check it."""

    text: str
    content: list[str]
    request: list[str]
    constraints: list[Constraint]


def _sentences(patterns: tuple[str, ...], count: int, mark: str, rng: Random) -> Form:
    phrases = [phrase(pattern, rng) for pattern in rng.sample(patterns, count)]
    request = "Write one sentence." if count == 1 else f"Write {_COUNTS[count]} sentences."
    return Form(
        " ".join(f"{capital(text)}{mark}" for text, _ in phrases),
        _content(phrases),
        [request],
        [{"kind": "sentences", "count": count}],
    )


def _marked(patterns: tuple[str, ...], count: int, mark: str, rng: Random) -> Form:
    return _with(_sentences(patterns, count, mark, rng), f'End with "{mark}".', {"kind": "ends_with", "text": mark})


def _list(count: int, rng: Random) -> Form:
    phrases = [phrase(rng.choice(ITEMS), rng) for _ in range(count)]
    text = "\n".join(capital(text) for text, _ in phrases)
    request = f"Write a list of {_COUNTS[count]} things, one on each line."
    return Form(text, _content(phrases), [request], [{"kind": "lines", "count": count}])


def _content(phrases: list[Phrase]) -> list[str]:
    return list(dict.fromkeys(word for _, content in phrases for word in content))


def _with(form: Form, request: str, constraint: Constraint) -> Form:
    return form._replace(request=[*form.request, request], constraints=[*form.constraints, constraint])


def _lower(form: Form) -> Form:
    form = form._replace(text=form.text.lower())
    return _with(form, "Use small letters only.", {"kind": "case", "case": "lower"})


def _upper(form: Form) -> Form:
    form = form._replace(text=form.text.upper())
    return _with(form, "Use capital letters only.", {"kind": "case", "case": "upper"})


def _initial(form: Form) -> Form:
    first = form.text[0]
    return _with(form, f"Start with the letter {first}.", {"kind": "starts_with", "text": first})


def _last_word(form: Form) -> Form:
    ending = form.text.split()[-1]
    return _with(form, f'End with "{ending}".', {"kind": "ends_with", "text": ending})


FORMS: dict[str, Callable[[Random], Form]] = {
    "statement": lambda rng: _marked(STATEMENTS, 1, ".", rng),
    "shout": lambda rng: _marked(STATEMENTS, 1, "!", rng),
    "question": lambda rng: _marked(QUESTIONS, 1, "?", rng),
    "small_letters": lambda rng: _lower(_sentences(STATEMENTS, 1, ".", rng)),
    "initial": lambda rng: _initial(_sentences(STATEMENTS + QUESTIONS[:1], 1, rng.choice(".!"), rng)),
    "two_sentences": lambda rng: _sentences(STATEMENTS, 2, ".", rng),
    "three_sentences": lambda rng: _sentences(STATEMENTS, 3, ".", rng),
    "list": lambda rng: _list(rng.choice((2, 3, 4)), rng),
}
FORMS_TEST: dict[str, Callable[[Random], Form]] = {
    "capitals": lambda rng: _upper(_sentences(STATEMENTS, 1, ".", rng)),
    "last_word": lambda rng: _last_word(_sentences(STATEMENTS, 1, ".", rng)),
    "two_questions": lambda rng: _marked(QUESTIONS, 2, "?", rng),
    "list_in_capitals": lambda rng: _upper(_list(rng.choice((2, 3)), rng)),
}


def _use(form: Form, count: int, rng: Random) -> tuple[str, Constraint]:
    words = sorted(rng.sample(form.content, min(count, len(form.content))))
    return f"Use the word{'s' * (len(words) > 1)}: {', '.join(words)}.", {"kind": "contains", "words": words}


def _avoid(form: Form, count: int, rng: Random) -> tuple[str, Constraint]:
    written = set(words_of(form.text))
    absent = [word for slot in CONTENT_SLOTS for word in LEXICON[slot] if word not in written]
    words = sorted(rng.sample(absent, count))
    return f"Do not use: {', '.join(words)}.", {"kind": "avoids", "words": words}


def _avoid_letter(form: Form, rng: Random) -> tuple[str, Constraint] | None:
    """One of the two most frequent letters that the text happens to lack."""
    absent = [letter for letter in _FREQUENT if letter not in form.text.lower()][:2]
    if not absent:
        return None
    letter = rng.choice(absent)
    return f"Do not use the letter {letter}.", {"kind": "avoids_letters", "letters": letter}


def _length(form: Form, below: int, above: int) -> tuple[str, Constraint]:
    count = len(words_of(form.text))
    low, high = max(1, count - below), count + above
    return f"Write {low} to {high} words.", {"kind": "words", "min": low, "max": high}


def _characters(form: Form, rng: Random) -> tuple[str, Constraint]:
    most = len(form.text) + rng.randint(0, 9)
    return f"Write at most {most} characters.", {"kind": "characters", "max": most}


def _draw(kind: str, difficulty: int, rng: Random) -> Draft | None:
    form = {**FORMS, **FORMS_TEST}[kind](rng)
    if len(form.text) >= MAX_NEW_TOKENS[difficulty]:
        return None
    if difficulty == 1:
        more = [_use(form, rng.choice((1, 2)), rng)]
        more.append(rng.choice([_avoid(form, 2, rng), _length(form, rng.randint(2, 4), rng.randint(2, 4))]))
    else:
        letter = _avoid_letter(form, rng)
        if letter is None:
            return None
        more = [_use(form, 3, rng), _avoid(form, 3, rng), letter, _length(form, 1, 1), _characters(form, rng)]
    request = "\n".join([form.request[0], *(text for text, _ in more), *form.request[1:]])
    return Draft(
        content=request,
        prompt=request + "\n",
        hidden={"constraints": [*form.constraints, *(constraint for _, constraint in more)]},
        gold=form.text,
    )


@cache
def _problems(split: str, difficulty: int) -> LazyExamples:
    kinds = [kind for kind in FORMS if difficulty > 1 or kind != "three_sentences"]
    return generated_examples("ConstrainedWriting", split, difficulty, kinds, FORMS_TEST, _draw)


def problems(split: str, difficulty: int = 1) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object."""
    check_options(split, difficulty, DIFFICULTIES)
    return _problems(split, difficulty)


def _required(example: Example) -> list[str]:
    return next(c["words"] for c in example.hidden["constraints"] if c["kind"] == "contains")


def _replaced(text: str, word: str, by: str) -> str:
    """The text with a word replaced, in its case."""
    by = by.upper() if text.isupper() else by
    return re.sub(rf"\b{re.escape(word)}\b", by, text, flags=re.IGNORECASE).strip()


def wrong(example: Example) -> str:
    """The gold answer without one of the words it must use."""
    return _replaced(example.gold, _required(example)[0], "")


def demonstrate(example: Example, rng: Random) -> tuple[str, str]:
    """One demonstration of the imperfect teacher, and its label.

    * `right`: the gold answer;
    * `word`: the gold answer with another word in the place of one that must be used;
    * `form`: with another end mark or other capitals, or without its last sentence or line.

    Where no slip of form breaks a constraint, it is a `word`.
    """
    label = rng.choices(list(TEACHER), list(TEACHER.values()))[0]
    if label == "right":
        return example.gold, label
    if label == "form":
        slips = [text for text in _form_slips(example.gold) if not _passes(example, text)]
        if slips:
            return rng.choice(slips), label
    word = rng.choice(_required(example))
    slot = next(slot for slot in CONTENT_SLOTS if word in LEXICON[slot])
    return _replaced(example.gold, word, rng.choice([other for other in LEXICON[slot] if other != word])), "word"


def _form_slips(text: str) -> list[str]:
    if "\n" in text:
        return [text.rpartition("\n")[0], text.lower(), text.upper()]
    others, _, _ = text.rpartition(" " + re.split(r"(?<=[.!?]) ", text)[-1])
    slips = [text[:-1] + mark for mark in ".!?" if mark != text[-1]] + [text.lower(), capital(text.lower())]
    return [*slips, others] if others else slips


def _passes(example: Example, text: str) -> bool:
    return all(is_met(constraint, text) for constraint in example.hidden["constraints"])


def make_task(difficulty: int = 1) -> Task:
    """The task `ConstrainedWriting`: `difficulty` 1 (three or four constraints) or 2 (six or more)."""
    check_options("train", difficulty, DIFFICULTIES)
    return Task(
        name="ConstrainedWriting",
        problems=partial(problems, difficulty=difficulty),
        splits=SPLITS,
        verifier="constraints",
        wrong=wrong,
        demonstrate=lambda example, rng: demonstrate(example, rng)[0],
        max_new_tokens=MAX_NEW_TOKENS[difficulty],
        judge_unfinished=False,
    )
