"""Families over a list of integers, element by element: counting, filtering, mapping, searching."""

from __future__ import annotations

from random import Random

from llm_envs.code_repair.inputs import COMPARISONS, ORDERINGS, lists
from llm_envs.code_repair.program import Program, each, family, nest


@family("count_compared", theme="counting")
def count_compared(r: Random) -> Program:
    """count_above_7: how many elements pass a comparison."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(0, 9)
    name = f"count_{word}_{t}"
    loop = "n = 0\n" + each(r, "x", "xs", f"if x {op} {t}: n += 1") + "\nreturn n"
    body = r.choice((loop, loop, f"return len([x for x in xs if x {op} {t}])"))
    return Program(name, nest(f"def {name}(xs):", body), lambda xs: [holds(x, t) for x in xs].count(True), lists(r, t))


@family("sum_compared", theme="arithmetic")
def sum_compared(r: Random) -> Program:
    """sum_above_7: the sum of the elements that pass a comparison."""
    (word, op, holds), t = r.choice(ORDERINGS), r.randint(0, 9)
    name = f"sum_{word}_{t}"
    loop = "n = 0\n" + each(r, "x", "xs", f"if x {op} {t}: n += x") + "\nreturn n"
    body = r.choice((loop, loop, f"return sum([x for x in xs if x {op} {t}])"))
    return Program(name, nest(f"def {name}(xs):", body), lambda xs: sum(x * holds(x, t) for x in xs), lists(r, t))


@family("keep_compared", theme="lists")
def keep_compared(r: Random) -> Program:
    """keep_above_7: the elements that pass a comparison."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(0, 9)
    name = f"keep_{word}_{t}"
    loop = "out = []\n" + each(r, "x", "xs", f"if x {op} {t}: out.append(x)") + "\nreturn out"
    body = r.choice((loop, loop, f"return [x for x in xs if x {op} {t}]"))
    return Program(
        name, nest(f"def {name}(xs):", body), lambda xs: list(filter(lambda x: holds(x, t), xs)), lists(r, t)
    )


@family("map_each", theme="lists")
def map_each(r: Random) -> Program:
    """each_plus_3: one arithmetic step on every element."""
    (sign, word), k = r.choice((("+", "plus"), ("-", "minus"), ("*", "times"))), r.randint(2, 9)
    name = f"each_{word}_{k}"
    one = {"+": lambda x: k + x, "-": lambda x: -(k - x), "*": lambda x: sum([x] * k)}[sign]
    loop = "out = []\n" + each(r, "x", "xs", f"out.append(x {sign} {k})") + "\nreturn out"
    body = r.choice((loop, loop, f"return [x {sign} {k} for x in xs]", f"return list(map(lambda x: x {sign} {k}, xs))"))
    return Program(name, nest(f"def {name}(xs):", body), lambda xs: list(map(one, xs)), lists(r))


@family("ends", theme="lists")
def ends(r: Random) -> Program:
    """take_first_2, drop_last_3_sorted: one end of a list, perhaps reversed or sorted."""
    verb, side, k = r.choice(("take", "drop")), r.choice(("first", "last")), r.randint(1, 4)
    name = f"{verb}_{side}_{k}"
    take, first = verb == "take", side == "first"
    if take == first:  # what stays is at the front
        edge = f"{k}" if first else f"len(xs) - {k}"
        cut = f"[:{k}]" if first else f"[:-{k}]"
        test = f"i < {edge}"
    else:
        edge = f"{k}" if first else f"len(xs) - {k}"
        cut = f"[{k}:]" if first else f"[-{k}:]"
        test = f"i >= {edge}"
    doubled = r.choice(("", "", "reversed", "sorted"))
    name += f"_{doubled}" if doubled else ""
    show = {"": "{}", "reversed": "{}[::-1]", "sorted": "sorted({})"}[doubled]
    body = r.choice(
        (
            f"return {show.format('xs' + cut)}",
            f"out = xs{cut}\nreturn {show.format('out')}",
            f"out = []\nfor i in range(len(xs)):\n    if {test}:\n        out.append(xs[i])\n"
            f"return {show.format('out')}",
            f"out = []\nfor i, x in enumerate(xs):\n    if {test}:\n        out.append(x)\nreturn {show.format('out')}",
        )
    )

    def reference(xs: list[int]) -> list[int]:
        front = range(k) if first else range(len(xs) - k)
        kept = [xs[i] for i in range(len(xs)) if (i in front) == (take == first)]
        return {"": kept, "reversed": list(reversed(kept)), "sorted": sorted(kept)}[doubled]

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r))


@family("every_kth", theme="lists")
def every_kth(r: Random) -> Program:
    """every_3_from_1, sum_every_3_from_1: elements at regular positions."""
    k = r.randint(2, 4)
    start = r.randrange(k)
    gain = r.choice(("list", "sum", "count", "max"))
    name = {"list": "every", "sum": "sum_every", "count": "count_every", "max": "max_every"}[gain]
    name += f"_{k}_from_{start}"
    kept = r.choice(
        (
            f"xs[{start}::{k}]",
            f"[xs[i] for i in range({start}, len(xs), {k})]",
            f"[x for i, x in enumerate(xs) if i % {k} == {start}]",
        )
    )
    show = {"list": "{}", "sum": "sum({})", "count": "len({})", "max": "max({}, default=0)"}[gain].format(kept)
    loop = {"list": "out.append(xs[i])", "sum": "n += xs[i]", "count": "n += 1", "max": "n = max(n, xs[i])"}[gain]
    box, empty = ("out", "[]") if gain == "list" else ("n", "0")
    low = 1 if gain == "max" else -3
    body = r.choice(
        (f"return {show}", f"{box} = {empty}\nfor i in range({start}, len(xs), {k}):\n    {loop}\nreturn {box}")
    )

    def reference(xs: list[int]) -> object:
        chosen = [xs[i] for i in range(len(xs)) if i in range(start, 99, k)]
        return {"list": chosen, "sum": sum(chosen), "count": len(chosen), "max": max([0, *chosen])}[gain]

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, low=low))


@family("first_compared", theme="searching")
def first_compared(r: Random) -> Program:
    """first_above_7, index_of_first_above_7: -1 (or 0) where there is none."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(0, 9)
    index, default = r.random() < 0.5, r.choice((-1, 0))
    name = f"{'index_of_' if index else ''}first_{word}_{t}"
    name += "_or_0" if default == 0 else ""
    loop = (
        f"for i in range(len(xs)):\n    if xs[i] {op} {t}:\n        return {'i' if index else 'xs[i]'}\n"
        f"return {default}"
    )
    other = (
        f"for i, x in enumerate(xs):\n    if x {op} {t}:\n        return i\nreturn {default}"
        if index
        else f"for x in xs:\n    if x {op} {t}:\n        return x\nreturn {default}"
    )

    def reference(xs: list[int]) -> int:
        found = [(i if index else x) for i, x in enumerate(xs) if holds(x, t)]
        return (found + [default])[0]

    return Program(name, nest(f"def {name}(xs):", r.choice((loop, other))), reference, lists(r, t, longest=5))


@family("last_compared", theme="searching", held_out=True)
def last_compared(r: Random) -> Program:
    """last_above_7: -1 where there is none."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(0, 9)
    name = f"last_{word}_{t}"
    body = r.choice(
        (
            "n = -1\n" + each(r, "x", "xs", f"if x {op} {t}: n = x") + "\nreturn n",
            f"for x in xs[::-1]:\n    if x {op} {t}:\n        return x\nreturn -1",
            f"for i in range(len(xs) - 1, -1, -1):\n    if xs[i] {op} {t}:\n        return xs[i]\nreturn -1",
        )
    )
    return Program(
        name, nest(f"def {name}(xs):", body), lambda xs: ([-1] + [x for x in xs if holds(x, t)])[-1], lists(r, t)
    )


@family("any_all", theme="searching")
def any_all(r: Random) -> Program:
    """any_above_7, all_above_7, none_above_7."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(0, 9)
    what = r.choice(("any", "all", "none"))
    name = f"{what}_{word}_{t}"
    stop = f"not x {op} {t}" if what == "all" else f"x {op} {t}"
    hit = what == "any"
    loop = f"for x in xs:\n    if {stop}:\n        return {hit}\nreturn {not hit}"
    call = f"{'all' if what == 'all' else 'any'}([x {op} {t} for x in xs])"
    body = r.choice((loop, loop, f"return {'not ' if what == 'none' else ''}{call}"))

    def reference(xs: list[int]) -> bool:
        count = len([x for x in xs if holds(x, t)])
        return {"any": count > 0, "all": count == len(xs), "none": count == 0}[what]

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, t, longest=4))


@family("best_within", theme="searching")
def best_within(r: Random) -> Program:
    """largest_below_7_or_minus_5: the best element that passes a comparison, or a default."""
    t, biggest = r.randint(2, 8), r.random() < 0.5
    word, op, better, low = ("largest_below", "<", ">", -4) if biggest else ("smallest_above", ">", "<", -3)
    default = -5 if biggest else 20
    name = f"{word}_{t}_or_{'minus_5' if biggest else 20}"
    best = "max" if biggest else "min"
    body = r.choice(
        (
            f"n = {default}\n" + each(r, "x", "xs", f"if x {op} {t} and x {better} n: n = x") + "\nreturn n",
            f"n = {default}\n" + each(r, "x", "xs", f"if x {op} {t}: n = {best}(n, x)") + "\nreturn n",
            f"return {best}([x for x in xs if x {op} {t}], default={default})",
        )
    )

    def reference(xs: list[int]) -> int:
        fits = sorted(x for x in xs if (x < t if biggest else x > t))
        return (fits[-1] if biggest else fits[0]) if fits else default

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, t, low=low))


@family("extreme_with_limit", theme="searching")
def extreme_with_limit(r: Random) -> Program:
    """max_with_7: the maximum of the list and a constant."""
    t, biggest = r.randint(0, 9), r.random() < 0.5
    word, better, call = ("max", ">", "max") if biggest else ("min", "<", "min")
    name = f"{word}_with_{t}"
    body = r.choice(
        (
            f"n = {t}\n" + each(r, "x", "xs", f"if x {better} n: n = x") + "\nreturn n",
            f"n = {t}\n" + each(r, "x", "xs", f"n = {call}(n, x)") + "\nreturn n",
            f"return {call}(xs + [{t}])",
            f"return {call}({call}(xs, default={t}), {t})",
        )
    )
    reference = lambda xs: sorted([*xs, t])[-1 if biggest else 0]  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, t))


@family("replace_value", theme="lists")
def replace_value(r: Random) -> Program:
    """replace_3_with_7."""
    a, b = r.sample(range(10), 2)
    name = f"replace_{a}_with_{b}"
    body = r.choice(
        (
            f"return [{b} if x == {a} else x for x in xs]",
            f"out = []\nfor x in xs:\n    if x == {a}:\n        x = {b}\n    out.append(x)\nreturn out",
            f"for i in range(len(xs)):\n    if xs[i] == {a}:\n        xs[i] = {b}\nreturn xs",
            f"out = []\nfor x in xs:\n    if x == {a}:\n        out.append({b})\n    else:\n        out.append(x)\n"
            "return out",
        )
    )
    return Program(name, nest(f"def {name}(xs):", body), lambda xs: [{a: b}.get(x, x) for x in xs], lists(r, a, low=0))
