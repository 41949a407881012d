"""Continue a text freely, scored by any verifier that reads a prompt and an answer.

    This is the story of an angry pilot who wrapped a clock, because
                 ->  it was a wonderful, good day of delight and laughter, and both friends smiled.

The default verifier, `word_list`, gives the share of different words from a list of positive ones: simple,
deterministic, and easy to please without writing well. The task is meant for verifiers of your own and learned ones:

    options = {"model": "name or folder of a checkpoint"}
    gymnasium.make("llm_envs/Continuation-v0", verifier="reward_model", verifier_options=options)

The prompts are neutral openings that break off where a whole clause may follow; difficulty 2 puts a sad sentence before
them, which a positive answer must turn round. Gold answers have the best score under the default verifier, and under no
other by promise. They fit every opening and none in particular.

Splits are disjoint by the hash of the prompt. `test` has openings of its own, which the other splits never use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from random import Random

from llm_envs.lazy import LazyExamples
from llm_envs.task import Task
from llm_envs.tasks.generated import SPLITS, Draft, check_options, generated_examples, listed
from llm_envs.tasks.sentences import LEXICON, capital, phrase
from verifiers import Example

DIFFICULTIES: Mapping[int, str] = {1: "neutral openings", 2: "sad openings"}
MAX_NEW_TOKENS = 128
"""Longest gold answer plus a stop token, at one token per character, and room to write differently."""

TEACHER: Mapping[str, float] = {"positive": 0.4, "mixed": 0.3, "neutral": 0.3}
"""How often the teacher of the warm-up does what; see `demonstrate`."""

OPENINGS = {
    "opened": "on {day} the {person} {past} the {look} {thing} {near} the {place} and",
    "walked": "{time}, the {mood} {person} walked from the {place} to the {place} and",
    "letter": "a letter for the {person} lay {near} the {place}, and it said that",
    "asked": "the {person} looked at the {look} {thing} and said that",
    "room": "{near} the {place} there was a room with a {look} {thing}, where",
    "bus": "the bus to the {place} stopped, the {mood} {person} got off, and",
    "story": "this is the story of a {mood} {person} who {past} a {thing}, because",
    "recipe": "the {mood} {person} put the {thing} on the table, read the page again, and",
    "radio": "the radio {near} the {place} said of the {mood} {person} that",
    "neighbours": "our neighbours, a {person} and a {person}, {past} a {look} {thing}, so",
    "morning": "the {place} was still dark when the {person} {past} the {thing}, but",
    "visit": "when I visited the {person} {near} the {place},",
    "shop": "the shop {near} the {place} sold one {look} {thing} a day, and",
    "photo": "in the photograph a {mood} {person} holds a {look} {thing}, and",
}
OPENINGS_TEST = {
    "phone": "the {person} {near} the {place} picked up the phone, and",
    "dream": "last night I dreamt of a {look} {thing} and a {mood} {person}, and",
    "review": "I have had this {look} {thing} from the {place} for a week, and",
    "unknown": "nobody knew the {mood} {person} {near} the {place}, until",
}
_SAD = (
    "It had rained for {days} days. {}",
    "Nobody had come for {days} days. {}",
    "After {days} days the money was gone. {}",
    "Everything had broken {days} days before. {}",
)

_LEXICON: Mapping[str, Sequence[str]] = {
    **LEXICON,
    "day": listed("Monday Tuesday Wednesday Thursday Friday"),
    "kind": listed(
        "calm caring charming cheerful clever friendly generous gentle glad happy helpful hopeful joyful kind lively "
        "patient peaceful playful pleased proud thankful wise"
    ),
    "good": listed(
        "bright charming cheerful delightful fine glorious good joyful lively lovely peaceful perfect pleasant sunny "
        "warm wonderful"
    ),
    "joy": listed("delight grace happiness harmony hope joy kindness laughter love peace pleasure warmth wonder"),
    "who": listed("everyone,the whole village,the children,all the guests,both friends,the old people", ","),
    "thing_done": listed("sat down,came closer,waited,began to talk,stood up,went on", ","),
}
POSITIVE = (
    " {who} felt {kind}, {kind} and {kind}, full of {joy} and {joy}.",
    " it was a {good}, {good} day of {joy} and {joy}, and {who} smiled.",
    " {good} music brought {joy} and {joy} to {who}, who laughed with {kind} faces.",
    " with {joy} and {joy} {who} enjoyed the {good} and {good} evening.",
)
MIXED = (
    " {who} {thing_done}, {kind} as ever, near the {look} {thing} of the {person}.",
    " {who} {thing_done} and talked about {joy} while the {person} {past} the {thing}.",
)
NEUTRAL = (
    " {who} {thing_done} while the {person} {past} the {look} {thing}.",
    " then the {person} {past} a {look} {thing} {near} the {place}.",
)


def _draw(kind: str, difficulty: int, rng: Random) -> Draft:
    prompt = capital(phrase({**OPENINGS, **OPENINGS_TEST}[kind], rng, _LEXICON).text)
    if difficulty == 2:
        prompt = rng.choice(_SAD).format(prompt, days=rng.randint(3, 30))
    gold = phrase(rng.choice(POSITIVE), rng, _LEXICON).text
    return Draft(content=prompt, prompt=prompt, hidden={}, gold=gold)


@cache
def _problems(split: str, difficulty: int) -> LazyExamples:
    return generated_examples("Continuation", split, difficulty, OPENINGS, OPENINGS_TEST, _draw)


def problems(split: str, difficulty: int = 1) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object."""
    check_options(split, difficulty, DIFFICULTIES)
    return _problems(split, difficulty)


def wrong(example: Example) -> str:
    """A continuation without a single positive word."""
    return phrase(NEUTRAL[0], Random(example.id), _LEXICON).text


def demonstrate(example: Example, rng: Random) -> tuple[str, str]:
    """One demonstration of a teacher who has no great aim to please, and its label.

    * `positive`: an answer of the best score under the default verifier, most often another than the gold one;
    * `mixed`: an answer with one positive word;
    * `neutral`: an answer with none.
    """
    label = rng.choices(list(TEACHER), list(TEACHER.values()))[0]
    patterns = {"positive": POSITIVE, "mixed": MIXED, "neutral": NEUTRAL}[label]
    return phrase(rng.choice(patterns), rng, _LEXICON).text, label


def make_task(difficulty: int = 1) -> Task:
    """The task `Continuation`: `difficulty` 1 (neutral openings) or 2 (sad openings)."""
    check_options("train", difficulty, DIFFICULTIES)
    return Task(
        name="Continuation",
        problems=partial(problems, difficulty=difficulty),
        splits=SPLITS,
        verifier="word_list",
        wrong=wrong,
        demonstrate=lambda example, rng: demonstrate(example, rng)[0],
        max_new_tokens=MAX_NEW_TOKENS,
        # A text that goes on until the budget ends is as good a continuation as one that stops.
        judge_unfinished=True,
    )
