"""Families that read structure in a string: parsing, words, runs, brackets."""

from __future__ import annotations

from itertools import accumulate, groupby
from random import Random

from llm_envs.code_repair.inputs import ORDERINGS, Inputs, words
from llm_envs.code_repair.program import Program, each, family, nest


def _sentences(r: Random, letters: str = "", longest: int = 4) -> Inputs:
    """Short lowercase words with single spaces between them."""
    pieces = [s for (s,) in words(r, letters, shortest=1, longest=longest)] + [
        s for (s,) in words(r, letters, 1, longest)
    ]
    return [("",)] + [(" ".join(r.choice(pieces) for _ in range(1 + i % 3)),) for i in range(20)]


@family("split_numbers", theme="parsing")
def split_numbers(r: Random) -> Program:
    """sum_split_on_comma_above_3, max_split_on_dash, last_split_on_plus."""
    sep, what = r.choice(",;-+ "), r.choice(("sum", "max", "count", "last"))
    word = {",": "comma", ";": "semicolon", "-": "dash", "+": "plus", " ": "space"}[sep]
    t = r.randint(2, 6)
    above = what in ("sum", "count") and r.random() < 0.7
    name = f"{what}_split_on_{word}" + (f"_above_{t}" if above else "")
    test = f" if int(c) > {t}" if above else ""
    gain = "1" if what == "count" else "int(c)"
    if what in ("sum", "count"):
        guarded = f"if int(c) > {t}: n += {gain}" if above else f"n += {gain}"
        body = r.choice(
            (
                f"n = 0\nfor c in s.split('{sep}'):\n    {guarded}\nreturn n",
                f"return sum([{gain} for c in s.split('{sep}'){test}])",
            )
        )
    elif what == "max":
        body = r.choice(
            (
                f"return max([int(c) for c in s.split('{sep}')])",
                f"n = 0\nfor c in s.split('{sep}'):\n    n = max(n, int(c))\nreturn n",
                f"n = 0\nfor c in s.split('{sep}'):\n    if int(c) > n:\n        n = int(c)\nreturn n",
            )
        )
    else:
        body = r.choice((f"return int(s.split('{sep}')[-1])", f"i = s.rfind('{sep}')\nreturn int(s[i + 1:])"))

    def reference(s: str) -> int:
        numbers = [int("".join(group)) for yes, group in groupby(s, str.isdigit) if yes]
        fits = [n for n in numbers if n > t or not above]
        return {"sum": sum(fits), "max": sorted(numbers)[-1], "count": len(fits), "last": numbers[-1]}[what]

    def number() -> str:
        return str(r.choice((t, t + 1, t - 1, r.randint(0, 20))))

    inputs = [
        (sep.join(number() for _ in range(length)),) for length in (1, 1, 2, 2, 3, 3, *(1 + i % 4 for i in range(12)))
    ]
    return Program(name, nest(f"def {name}(s):", body), reference, inputs)


@family("parse_number", theme="parsing")
def parse_number(r: Random) -> Program:
    """number_in_base_3_from_1: read digits, starting from a given value."""
    b, start = r.randint(2, 9), r.choice((0, 0, 1, 2))
    name = f"number_in_base_{b}" + (f"_from_{start}" if start else "")
    body = r.choice(
        (
            f"n = {start}\nfor c in s:\n    n = n * {b} + int(c)\nreturn n",
            f"n = {start}\nfor i in range(len(s)):\n    n = {b} * n + int(s[i])\nreturn n",
            f"if s == '':\n    return {start}\nreturn {name}(s[:-1]) * {b} + int(s[-1])",
        )
    )
    reference = lambda s: sum(int(c) * b**i for i, c in enumerate(s[::-1])) + start * b ** len(s)  # noqa: E731
    digits = "".join(map(str, range(b)))
    return Program(name, nest(f"def {name}(s):", body), reference, words(r, "1", longest=5, alphabet=digits))


@family("digits_in_text", theme="parsing")
def digits_in_text(r: Random) -> Program:
    """sum_text_digits_above_3, count_text_digits_above_3: other characters are skipped."""
    (word, op, holds), t = r.choice(ORDERINGS), r.randint(2, 7)
    summing = r.random() < 0.5
    name = f"{'sum' if summing else 'count'}_text_digits_{word}_{t}"
    gain = "int(c)" if summing else "1"
    test = f"c.isdigit() and int(c) {op} {t}"
    body = r.choice(
        (
            f"n = 0\nfor c in s:\n    if {test}:\n        n += {gain}\nreturn n",
            f"return sum([{gain} for c in s if {test}])",
            f"n = 0\nfor c in s:\n    if c.isdigit():\n        n += {gain} if int(c) {op} {t} else 0\nreturn n",
        )
    )

    def reference(s: str) -> int:
        values = [ord(c) - 48 for c in s if ord(c) < 58]
        return sum((x if summing else 1) for x in values if holds(x, t))

    return Program(
        name, nest(f"def {name}(s):", body), reference, words(r, f"{t}{t + 1}{t - 1}", longest=5, alphabet="abx019")
    )


@family("word_lengths", theme="strings")
def word_lengths(r: Random) -> Program:
    """count_words_above_3_long, words_above_3_long, letters_in_words_above_3_long."""
    (word, op, holds), k = r.choice(ORDERINGS), r.randint(1, 4)
    what = r.choice(("count", "words", "letters"))
    name = {"count": "count_words", "words": "words", "letters": "letters_in_words"}[what] + f"_{word}_{k}_long"
    test = f"len(x) {op} {k}"
    if what == "words":
        loop = f"out = []\nfor x in s.split():\n    if {test}:\n        out.append(x)\nreturn out"
        short = f"return [x for x in s.split() if {test}]"
    else:
        gain = "1" if what == "count" else "len(x)"
        loop = f"n = 0\nfor x in s.split():\n    if {test}:\n        n += {gain}\nreturn n"
        short = f"return sum([{gain} for x in s.split() if {test}])"

    def reference(s: str) -> object:
        kept = [x for x in s.split(" ") if x and holds(len(x), k)]
        return {"count": len(kept), "words": kept, "letters": len("".join(kept))}[what]

    inputs = _sentences(r, longest=min(6, k + 2))
    return Program(name, nest(f"def {name}(s):", r.choice((loop, short))), reference, inputs)


@family("words_by_letter", theme="strings")
def words_by_letter(r: Random) -> Program:
    """count_starting_with_a, words_ending_with_a."""
    a, start, what = r.choice("abcdxyz"), r.random() < 0.5, r.choice(("count", "words"))
    name = f"{what}_{'starting' if start else 'ending'}_with_{a}"
    has = r.choice((f"x[{0 if start else -1}] == '{a}'", f"x.{'startswith' if start else 'endswith'}('{a}')"))
    if what == "count":
        loop = f"n = 0\nfor x in s.split():\n    if {has}:\n        n += 1\nreturn n"
        short = f"return len([x for x in s.split() if {has}])"
    else:
        loop = f"out = []\nfor x in s.split():\n    if {has}:\n        out.append(x)\nreturn out"
        short = f"return [x for x in s.split() if {has}]"

    def reference(s: str) -> object:
        kept = [x for x in s.split(" ") if (x[:1] if start else x[-1:]) == a]
        return len(kept) if what == "count" else kept

    return Program(name, nest(f"def {name}(s):", r.choice((loop, short))), reference, _sentences(r, a, longest=3))


@family("join_words", theme="strings", held_out=True)
def join_words(r: Random) -> Program:
    """initials_2_joined_by_dash, reversed_joined_by_dot: change words, then join them."""
    sep, what = r.choice("-+._/"), r.choice(("initials", "reversed", "cut", "upper", "sorted"))
    k = r.randint(1, 3)
    words_for = {"-": "dash", "+": "plus", ".": "dot", "_": "underscore", "/": "slash"}
    name = f"{what}{f'_{k}' if what in ('cut', 'initials') else ''}_joined_by_{words_for[sep]}"
    item, order = {
        "initials": (f"x[:{k}]", "s.split()"),
        "cut": (f"x[{k}:]", "s.split()"),
        "reversed": ("x", "s.split()[::-1]"),
        "upper": ("x.upper()", "s.split()"),
        "sorted": ("x", "sorted(s.split())"),
    }[what]
    body = r.choice(
        (
            f"return '{sep}'.join([{item} for x in {order}])",
            f"out = []\nfor x in {order}:\n    out.append({item})\nreturn '{sep}'.join(out)",
            f"k = ''\nfor x in {order}:\n    k += '{sep}' + {item}\nreturn k[1:]",
        )
    )

    def reference(s: str) -> str:
        parts = [x for x in s.split(" ") if x]
        changed = {
            "initials": ["".join(list(x)[:k]) for x in parts],
            "cut": ["".join(list(x)[k:]) for x in parts],
            "reversed": list(reversed(parts)),
            "upper": ["".join(chr(ord(c) - 32) for c in x) for x in parts],
            "sorted": sorted(parts),
        }[what]
        return sep.join(changed)

    return Program(name, nest(f"def {name}(s):", body), reference, _sentences(r, longest=4))


@family("letter_runs", theme="counting")
def letter_runs(r: Random) -> Program:
    """longest_run_of_a, count_runs_of_a, final_run_of_a."""
    a, what = r.choice("abcxyz"), r.choice(("longest", "count", "last"))
    name = {"longest": "longest_run_of", "count": "count_runs_of", "last": "final_run_of"}[what] + f"_{a}"
    if what == "longest":
        body = r.choice(
            (
                f"n, k = (0, 0)\nfor c in s:\n    k = k + 1 if c == '{a}' else 0\n    n = max(n, k)\nreturn n",
                f"n = 0\nwhile '{a}' * (n + 1) in s:\n    n += 1\nreturn n",
                f"k = ''\nfor c in s:\n    k += c if c == '{a}' else ' '\nreturn max([len(x) for x in k.split(' ')])",
            )
        )
    elif what == "count":
        body = r.choice(
            (
                f"n, k = (0, '')\nfor c in s:\n    if c == '{a}' and k != '{a}':\n        n += 1\n    k = c\nreturn n",
                f"n = 0\nfor i in range(len(s)):\n    if s[i] == '{a}' and (i == 0 or s[i - 1] != '{a}'):\n"
                f"        n += 1\n"
                "return n",
            )
        )
    else:
        body = r.choice(
            (
                f"n = 0\nfor c in s[::-1]:\n    if c != '{a}':\n        return n\n    n += 1\nreturn n",
                f"n = 0\nwhile n < len(s) and s[-1 - n] == '{a}':\n    n += 1\nreturn n",
                f"return len(s) - len(s.rstrip('{a}'))",
            )
        )

    def reference(s: str) -> int:
        runs = [len(list(group)) for c, group in groupby(s) if c == a]
        return {"longest": max([0, *runs]), "count": len(runs), "last": runs[-1] if s[-1:] == a else 0}[what]

    return Program(
        name, nest(f"def {name}(s):", body), reference, words(r, a, alphabet=f"{a}bx") + words(r, a, alphabet=f"{a}bx")
    )


@family("bracket_depth", theme="parsing")
def bracket_depth(r: Random) -> Program:
    """final_round_depth_from_2, max_square_depth_from_0, min_curly_depth_from_1."""
    opening, closing, word = r.choice(
        (("(", ")", "round"), ("[", "]", "square"), ("<", ">", "angle"), ("{", "}", "curly"))
    )
    start, what = r.randint(0, 4), r.choice(("final", "max", "min"))
    name = f"{what}_{word}_depth_from_{start}"
    update = f"if c == '{opening}':\n        n += 1\n    elif c == '{closing}':\n        n -= 1"
    if what == "final":
        loop = f"n = {start}\nfor c in s:\n    {update}\nreturn n"
        other = f"return {start} + s.count('{opening}') - s.count('{closing}')"
    else:
        loop = (
            f"n = k = {start}\nfor c in s:\n    n += (c == '{opening}') - (c == '{closing}')\n"
            f"    k = {what}(k, n)\nreturn k"
        )
        other = (
            f"n = {start}\nout = [n]\nfor c in s:\n    n += 1 if c == '{opening}' else -1\n    out.append(n)\n"
            f"return {what}(out)"
        )

    def reference(s: str) -> int:
        depths = list(accumulate([{opening: 1, closing: -1}[c] for c in s], initial=start))
        return {"final": depths[-1], "max": sorted(depths)[-1], "min": sorted(depths)[0]}[what]

    inputs = words(r, longest=5, alphabet=opening + closing)
    return Program(name, nest(f"def {name}(s):", r.choice((loop, other))), reference, inputs)


@family("alphabet_position", theme="strings")
def alphabet_position(r: Random) -> Program:
    """sum_positions_from_1, list_positions_from_1, max_positions_from_1: `a` stands at that number."""
    k, what = r.randint(1, 9), r.choice(("sum", "list", "max"))
    name = f"{what}_positions_from_{k}"
    value = f"ord(c) - 97 + {k}"
    text = f"'abcdefghijklmnopqrstuvwxyz'.find(c) + {k}"
    value = r.choice((value, f"ord(c) - {97 - k}", text))
    if what == "list":
        loop = "out = []\n" + each(r, "c", "s", f"out.append({value})") + "\nreturn out"
        short = f"return [{value} for c in s]"
    else:
        step = f"n += {value}" if what == "sum" else f"n = max(n, {value})"
        loop = "n = 0\n" + each(r, "c", "s", step) + "\nreturn n"
        short = f"return sum([{value} for c in s])" if what == "sum" else f"return max([0] + [{value} for c in s])"

    def reference(s: str) -> object:
        places = [dict(zip("abcdefghijklmnopqrstuvwxyz", range(k, 99), strict=False))[c] for c in s]
        return {"sum": sum(places), "list": places, "max": max([0, *places])}[what]

    return Program(name, nest(f"def {name}(s):", r.choice((loop, short))), reference, words(r, longest=4))
