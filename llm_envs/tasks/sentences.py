"""Plain English sentences from a small grammar, and the words that went into them.

Patterns have slots in braces; the same slot twice is filled with different words. All sentences are in the past tense
and grammatical; they need not make much sense together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from llm_envs.tasks.generated import listed

VERBS = {
    "carry": "carried",
    "find": "found",
    "repair": "repaired",
    "paint": "painted",
    "sell": "sold",
    "buy": "bought",
    "hide": "hid",
    "drop": "dropped",
    "clean": "cleaned",
    "move": "moved",
    "lift": "lifted",
    "borrow": "borrowed",
    "wrap": "wrapped",
    "draw": "drew",
    "want": "wanted",
    "forget": "forgot",
}
"""Base form -> past tense; all of them take any thing as an object."""

LEXICON: Mapping[str, Sequence[str]] = {
    "person": listed(
        "baker farmer teacher sailor painter gardener doctor driver tailor pilot miner nurse librarian carpenter "
        "student traveller neighbour clerk singer guard cook hunter actor"
    ),
    "mood": listed(
        "old young tall quiet tired busy careful curious polite shy strong sleepy stubborn hungry serious angry"
    ),
    "thing": listed(
        "lamp basket ladder clock bucket kettle blanket mirror drum wheel chair table map bottle rope hammer candle "
        "violin suitcase box coat plate flag bell"
    ),
    "look": listed(
        "red blue green wooden heavy broken empty rusty yellow round wide narrow shiny dusty plain black new"
    ),
    "past": tuple(VERBS.values()),
    "base": tuple(VERBS),
    "place": listed(
        "kitchen barn river bridge road harbour hill lake garden school market station forest mill church tower field"
    ),
    "near": listed("near,behind,beside,close to,not far from", ","),
    "time": listed("in the morning,before noon,after supper,at midnight,on Sunday,last night,in winter,at dawn", ","),
    "how": listed("slowly quietly quickly carefully suddenly silently"),
}

CONTENT_SLOTS = ("person", "mood", "thing", "look", "past", "place", "how")
"""Slots whose words a person would call the content of a sentence; every filling is one word."""

STATEMENTS = (
    "the {mood} {person} {past} a {look} {thing} {near} the {place}",
    "{time}, the {person} {past} the {thing} {near} the {place}",
    "the {person} {how} {past} the {look} {thing} {time}",
    "a {mood} {person} and a {mood} {person} {past} the {thing} {near} the {place}",
    "the {thing} {near} the {place} was {look} and {look}",
    "{near} the {place}, the {person} {past} a {look} {thing} {time}",
    "nobody {past} the {look} {thing}, because the {person} was {mood}",
    "when the {person} {past} the {thing}, the {person} was {mood}",
    "every {person} {near} the {place} {past} a {look} {thing}",
    "our {mood} {person} {past} my {thing} and your {look} {thing}",
    "this {thing} was too {look} for the {mood} {person} {near} the {place}",
)
QUESTIONS = (
    "did the {mood} {person} {base} the {look} {thing} {near} the {place}",
    "why did the {person} {base} a {look} {thing} {time}",
    "who {past} the {look} {thing} {near} the {place}",
    "where did the {mood} {person} {base} my {thing}",
    "was the {thing} {near} the {place} {look} or {look}",
)
ITEMS = (
    "a {look} {thing}",
    "the {look} {thing} of the {person}",
    "the {thing} {near} the {place}",
    "one {look} and {look} {thing}",
)

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")


class Phrase(NamedTuple):
    """A filled pattern, without a capital letter or an end mark, and its content words in order."""

    text: str
    content: list[str]


def phrase(pattern: str, rng: Random, lexicon: Mapping[str, Sequence[str]] = LEXICON) -> Phrase:
    """Fill a pattern; equal slots get different words."""
    used: list[str] = []
    content: list[str] = []

    def fill(match: re.Match[str]) -> str:
        word = rng.choice([word for word in lexicon[match[1]] if word not in used])
        used.append(word)
        if match[1] in CONTENT_SLOTS:
            content.append(word)
        return word

    return Phrase(fix_articles(_SLOT.sub(fill, pattern)), content)


def fix_articles(text: str) -> str:
    """Turn "a" into "an" before a vowel.

    >>> fix_articles("a old lamp")
    'an old lamp'
    """
    return _ARTICLE.sub(r"\1n ", text)


def capital(text: str) -> str:
    """The text with its first letter as a capital, the rest as it is."""
    return text[:1].upper() + text[1:]
