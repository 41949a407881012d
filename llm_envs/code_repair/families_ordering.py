"""Families over a list of integers that is sorted, gets sorted, or is searched in order."""

from __future__ import annotations

from random import Random

from llm_envs.code_repair.inputs import distinct_lists, lists
from llm_envs.code_repair.program import Program, each, family, nest


@family("insert_in_order", theme="sorting")
def insert_in_order(r: Random) -> Program:
    """insert_5_in_rising: keep a sorted list sorted."""
    k, rising = r.randint(0, 9), r.random() < 0.6
    name = f"insert_{k}_in_{'rising' if rising else 'falling'}"
    op, over = ("<", ">=") if rising else (">", "<=")
    body = r.choice(
        (
            f"i = 0\nwhile i < len(xs) and xs[i] {op} {k}:\n    i += 1\nreturn xs[:i] + [{k}] + xs[i:]",
            f"return [x for x in xs if x {op} {k}] + [{k}] + [x for x in xs if x {over} {k}]",
            f"xs.append({k})\n" + ("xs.sort()" if rising else "xs.sort(reverse=True)") + "\nreturn xs",
        )
    )
    inputs = [(sorted(xs, reverse=not rising),) for (xs,) in lists(r, k, longest=4, low=0)]
    reference = lambda xs: sorted([*xs, k], key=lambda x: x if rising else -x)  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("sort_by_key", theme="sorting")
def sort_by_key(r: Random) -> Program:
    """sort_by_distance_from_5, sort_by_mod_3_falling: ties keep their order."""
    what, k, down = r.choice(("distance", "mod")), r.randint(2, 9), r.random() < 0.4
    word, key = ("distance_from", f"abs(x - {k})") if what == "distance" else ("mod", f"x % {k}")
    name = f"sort_by_{word}_{k}" + ("_falling" if down else "")
    tail = ", reverse=True" if down else ""
    body = r.choice(
        (
            f"return sorted(xs, key=lambda x: {key}{tail})",
            f"xs.sort(key=lambda x: {key}{tail})\nreturn xs",
            f"out = sorted([({key}, x) for x in sorted(xs)], key=lambda x: x[0]{tail})\nreturn [x[1] for x in out]",
        )
    )
    # Sorted inputs with distinct values: every stable variant above then agrees on ties.
    inputs = distinct_lists(r, k, low=0, ordered=True)

    def reference(xs: list[int]) -> list[int]:
        keys = [max(x - k, k - x) if what == "distance" else x - x // k * k for x in xs]
        order = sorted(set(keys), reverse=down)
        return [x for key in order for x, own in zip(xs, keys, strict=True) if own == key]

    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("top_k", theme="sorting")
def top_k(r: Random) -> Program:
    """the_3_largest, sum_of_3_smallest, last_of_3_largest."""
    k, big, what = r.randint(1, 4), r.random() < 0.5, r.choice(("list", "sum", "edge"))
    name = {"list": "the", "sum": "sum_of", "edge": "last_of"}[what] + f"_{k}_{'largest' if big else 'smallest'}"
    show = {"list": "{}", "sum": "sum({})", "edge": "{}[-1]"}[what]
    ranked = "sorted(xs, reverse=True)" if big else "sorted(xs)"
    best = "max" if big else "min"
    body = r.choice(
        (
            f"return {show.format(f'{ranked}[:{k}]')}",
            f"xs = {ranked}\nreturn {show.format(f'xs[:{k}]')}",
            f"out = []\nfor i in range(min({k}, len(xs))):\n    x = {best}(xs)\n    xs.remove(x)\n    out.append(x)\n"
            f"return {show.format('out')}",
            f"xs.sort()\n{'xs.reverse()' if big else 'out = xs'}\nreturn {show.format(f'xs[:{k}]')}"
            if big
            else f"xs.sort()\nreturn {show.format(f'xs[:{k}]')}",
        )
    )

    def reference(xs: list[int]) -> object:
        chosen = sorted((-x if big else x) for x in xs)[:k]
        values = [-x if big else x for x in chosen]
        return {"list": values, "sum": sum(values), "edge": values[-1]}[what]

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, shortest=1, longest=5))


@family("next_free", theme="searching")
def next_free(r: Random) -> Program:
    """free_from_3_up, free_from_3_down_by_2: the first number of a progression that is not in the list."""
    k, up = r.randint(1, 9), r.random() < 0.6
    step = r.randint(1, 3)
    name = f"free_from_{k}_{'up' if up else 'down'}" + (f"_by_{step}" if step > 1 else "")
    sign = "+" if up else "-"
    body = r.choice(
        (
            f"n = {k}\nwhile n in xs:\n    n {sign}= {step}\nreturn n",
            f"n = {k}\nfor x in sorted(xs{'' if up else ', reverse=True'}):\n    if x == n:\n        n {sign}= {step}\n"
            "return n",
        )
    )
    ladder = range(k, k + 40 * step, step) if up else range(k, k - 40 * step, -step)
    inputs = [([],), ([k],), (list(ladder[:2]),), (list(ladder[1:3]),), (list(ladder[:3]),)]
    inputs += [([r.choice(ladder[:4]) if r.random() < 0.6 else r.randint(0, 9) for _ in xs],) for (xs,) in lists(r)]
    reference = lambda xs: min(set(ladder) - set(xs), key=lambda n: abs(n - k))  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("lower_bound", theme="searching")
def lower_bound(r: Random) -> Program:
    """bisect_below_7: how many elements of a sorted list lie below a constant."""
    t, strict = r.randint(0, 9), r.random() < 0.5
    op, word = ("<", "below") if strict else ("<=", "at_most")
    name = f"bisect_{word}_{t}"
    body = r.choice(
        (
            f"i, j = (0, len(xs))\nwhile i < j:\n    n = (i + j) // 2\n"
            f"    i, j = (n + 1, j) if xs[n] {op} {t} else (i, n)\nreturn i",
            f"i = 0\nwhile i < len(xs) and xs[i] {op} {t}:\n    i += 1\nreturn i",
            f"i = len(xs)\nwhile i > 0 and (not xs[i - 1] {op} {t}):\n    i -= 1\nreturn i",
        )
    )
    reference = lambda xs: len([x for x in xs if x < t + (not strict)])  # noqa: E731
    inputs = [(sorted(xs),) for (xs,) in lists(r, t, low=0, longest=5)]
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("partition", theme="sorting")
def partition(r: Random) -> Program:
    """below_5_first, from_5_first: both parts in their old order."""
    t, low_first = r.randint(1, 8), r.random() < 0.5
    name = f"{'below' if low_first else 'from'}_{t}_first"
    yes, no = ("<", ">=") if low_first else (">=", "<")
    body = r.choice(
        (
            f"return [x for x in xs if x {yes} {t}] + [x for x in xs if x {no} {t}]",
            "a, b = ([], [])\n" + each(r, "x", "xs", f"(a if x {yes} {t} else b).append(x)") + "\nreturn a + b",
            f"return sorted(xs, key=lambda x: x {no} {t})",
        )
    )
    reference = lambda xs: [x for turn in (low_first, not low_first) for x in xs if (x < t) is turn]  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, t, low=0, longest=5))
