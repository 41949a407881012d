"""Families over a list of integers where position or order matters: windows, pairs, runs, rotation."""

from __future__ import annotations

from itertools import accumulate, combinations, groupby
from random import Random

from llm_envs.code_repair.inputs import COMPARISONS, lists
from llm_envs.code_repair.program import Program, family, nest


@family("running_total", theme="lists")
def running_total(r: Random) -> Program:
    """running_sum_from_3: the totals after each element."""
    start, what = r.randint(0, 9), r.choice(("sum", "max", "min"))
    name = f"running_{what}_from_{start}"
    step = {"sum": "n += x", "max": "n = max(n, x)", "min": "n = min(n, x)"}[what]
    tail = "\n    out.append(n)\nreturn out"
    body = r.choice(
        (
            f"n = {start}\nout = []\nfor x in xs:\n    {step}" + tail,
            f"out = []\nn = {start}\nfor i in range(len(xs)):\n"
            f"    {step.replace('x)', 'xs[i])').replace('= x', '= xs[i]')}" + tail,
        )
    )
    fold = {"sum": lambda a, b: a + b, "max": lambda a, b: sorted((a, b))[1], "min": lambda a, b: sorted((a, b))[0]}[
        what
    ]
    reference = lambda xs: list(accumulate(xs, fold, initial=start))[1:]  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, start, longest=4))


@family("adjacent_gaps", theme="two_pointers")
def adjacent_gaps(r: Random) -> Program:
    """count_rises_above_3, count_gaps_above_3: differences of neighbours, signed or absolute."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(1, 6)
    absolute = r.random() < 0.4
    name = f"count_{'gaps' if absolute else 'rises'}_{word}_{t}"
    gap = "abs(xs[i + 1] - xs[i])" if absolute else "xs[i + 1] - xs[i]"
    pair = "abs(x - y)" if absolute else "x - y"
    body = r.choice(
        (
            f"n = 0\nfor i in range(len(xs) - 1):\n    if {gap} {op} {t}:\n        n += 1\nreturn n",
            f"n = 0\nfor y, x in zip(xs, xs[1:]):\n    if {pair} {op} {t}:\n        n += 1\nreturn n",
            f"return sum([1 for y, x in zip(xs, xs[1:]) if {pair} {op} {t}])",
        )
    )

    def reference(xs: list[int]) -> int:
        gaps = [xs[i] - xs[i - 1] for i in range(1, len(xs))]
        return [holds(max(gap, -gap) if absolute else gap, t) for gap in gaps].count(True)

    inputs = []
    for (xs,) in lists(r, longest=5):
        walk = list(accumulate([r.choice((t, t + 1, t - 1, -t, r.randint(-5, 5))) for _ in xs]))
        inputs.append((walk,))
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("pairs_with_sum", theme="two_pointers")
def pairs_with_sum(r: Random) -> Program:
    """count_pairs_sum_10, has_pair_sum_10: over all pairs of positions."""
    t, counting = r.randint(3, 14), r.random() < 0.5
    name = f"{'count_pairs' if counting else 'has_pair'}_sum_{t}"
    hit, start, end = ("n += 1", "n = 0\n", "n") if counting else ("return True", "", "False")
    body = r.choice(
        (
            f"{start}for i in range(len(xs)):\n    for j in range(i + 1, len(xs)):\n"
            f"        if xs[i] + xs[j] == {t}:\n            {hit}\nreturn {end}",
            f"{start}for i in range(len(xs)):\n    for j in range(i):\n"
            f"        if xs[i] + xs[j] == {t}:\n            {hit}\nreturn {end}",
            f"{start}for i in range(len(xs)):\n    for x in xs[i + 1:]:\n"
            f"        if xs[i] + x == {t}:\n            {hit}\nreturn {end}",
        )
    )

    def reference(xs: list[int]) -> object:
        found = sum(a + b == t for a, b in combinations(xs, 2))
        return found if counting else found > 0

    inputs = [
        ([x if r.random() < 0.6 else t - r.choice(xs) for x in xs] if len(xs) > 1 else xs,)
        for (xs,) in lists(r, t // 2, low=0, longest=4)
    ]
    return Program(
        name, nest(f"def {name}(xs):", body), reference, [*inputs, ([t // 2],), ([t - t // 2, t // 2],)][::-1]
    )


@family("mirror_pairs", theme="two_pointers", held_out=True)
def mirror_pairs(r: Random) -> Program:
    """count_mirror_sums_above_10: sums of first and last, second and last but one, ..."""
    t, (word, op, holds) = r.randint(4, 14), r.choice(COMPARISONS)
    name = f"count_mirror_sums_{word}_{t}"
    body = r.choice(
        (
            f"i, j, n = (0, len(xs) - 1, 0)\nwhile i < j:\n    if xs[i] + xs[j] {op} {t}:\n        n += 1\n"
            "    i, j = (i + 1, j - 1)\nreturn n",
            f"n = 0\nfor i in range(len(xs) // 2):\n    if xs[i] + xs[-1 - i] {op} {t}:\n        n += 1\nreturn n",
        )
    )

    def reference(xs: list[int]) -> int:
        half = len(xs) // 2
        return sum(holds(a + b, t) for a, b in zip(xs[:half], reversed(xs), strict=False))

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, t // 2, t - t // 2, low=0, longest=5))


@family("rotate", theme="lists")
def rotate(r: Random) -> Program:
    """rotate_left_2, rotate_right_2_reversed."""
    k, left, reverse = r.randint(1, 5), r.random() < 0.5, r.random() < 0.3
    name = f"rotate_{'left' if left else 'right'}_{k}" + ("_reversed" if reverse else "")
    end = "[::-1]" if reverse else ""
    step = "xs = xs[1:] + xs[:1]" if left else "xs = xs[-1:] + xs[:-1]"
    sign = "+" if left else "-"
    body = r.choice(
        (
            f"i = {k if left else f'-{k}'} % len(xs)\n"
            + (f"return (xs[i:] + xs[:i]){end}" if reverse else "return xs[i:] + xs[:i]"),
            f"for i in range({k}):\n    {step}\nreturn xs{end}",
            f"out = [xs[(i {sign} {k}) % len(xs)] for i in range(len(xs))]\nreturn out{end}",
        )
    )

    def reference(xs: list[int]) -> list[int]:
        out = list(xs)
        for _ in range(k):
            out.insert(len(out) if left else 0, out.pop(0 if left else -1))
        return out[::-1] if reverse else out

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, shortest=1, longest=5, low=0))


@family("at_most_k_of_each", theme="counting")
def at_most_k_of_each(r: Random) -> Program:
    """first_2_of_each_above_3: at most k copies of every value above a limit."""
    k, t = r.randint(1, 3), r.randint(0, 6)
    name = f"first_{k}_of_each_above_{t}"
    body = r.choice(
        (
            f"out = []\nfor x in xs:\n    if x > {t} and out.count(x) < {k}:\n        out.append(x)\nreturn out",
            f"return [x for i, x in enumerate(xs) if x > {t} and xs[:i].count(x) < {k}]",
            f"out = []\nfor i in range(len(xs)):\n    if xs[i] > {t} and xs[:i].count(xs[i]) < {k}:\n"
            "        out.append(xs[i])\nreturn out",
        )
    )

    def reference(xs: list[int]) -> list[int]:
        left = dict.fromkeys(xs, k)
        kept = []
        for x in xs:
            left[x] -= 1
            kept += [x] * (left[x] >= 0 and x > t)
        return kept

    inputs = [([r.choice((t, t + 1, t + 1, t + 2)) for _ in xs],) for (xs,) in lists(r, longest=6)]
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("longest_run", theme="counting", held_out=True)
def longest_run(r: Random) -> Program:
    """longest_run_above_7: the length of the longest stretch that passes a comparison."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(1, 8)
    name = f"longest_run_{word}_{t}"
    body = r.choice(
        (
            f"n = i = 0\nfor x in xs:\n    i = i + 1 if x {op} {t} else 0\n    n = max(n, i)\nreturn n",
            f"n, i = (0, 0)\nfor x in xs:\n    i += 1\n    if not x {op} {t}:\n        i = 0\n"
            f"    n = max(n, i)\nreturn n",
        )
    )
    reference = lambda xs: max([0, *(len(list(run)) for yes, run in groupby(xs, lambda x: holds(x, t)) if yes)])  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, t, low=0))


@family("weighted_sum", theme="arithmetic")
def weighted_sum(r: Random) -> Program:
    """weigh_even_2_odd_3: a weight for even and one for odd positions."""
    a, b = r.sample((1, 2, 3, 4, 5, -1), 2)
    name = f"weigh_even_{a}_odd_{b}".replace("-", "minus_")
    body = r.choice(
        (
            f"n = 0\nfor i, x in enumerate(xs):\n    if i % 2 == 0:\n        n += {a} * x\n    else:\n"
            f"        n += {b} * x\n"
            "return n",
            f"n = 0\nfor i in range(len(xs)):\n    n += xs[i] * ({a} if i % 2 == 0 else {b})\nreturn n",
            f"return {a} * sum(xs[::2]) + {b} * sum(xs[1::2])",
        )
    )
    reference = lambda xs: sum(x * (a, b)[i & 1] for i, x in enumerate(xs))  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, longest=4))


@family("windows", theme="lists")
def windows(r: Random) -> Program:
    """window_sums_of_2, chunk_maxima_of_3: overlapping or consecutive pieces."""
    k, what = r.randint(2, 4), r.choice(("sums", "maxima", "minima", "lists"))
    chunked = r.random() < 0.5
    show = {"sums": "sum({})", "maxima": "max({})", "minima": "min({})", "lists": "{}"}[what].format(f"xs[i:i + {k}]")
    name = f"{'chunk' if chunked else 'window'}_{what}_of_{k}"
    steps = f"range(0, len(xs), {k})" if chunked else f"range(len(xs) - {k - 1})"
    more = "i < len(xs)" if chunked else f"i + {k} <= len(xs)"
    step = k if chunked else 1
    body = r.choice(
        (
            f"return [{show} for i in {steps}]",
            f"out = []\nfor i in {steps}:\n    out.append({show})\nreturn out",
            f"out, i = ([], 0)\nwhile {more}:\n    out.append({show})\n    i += {step}\nreturn out",
        )
    )

    def reference(xs: list[int]) -> list:
        starts = [i for i in range(len(xs)) if (i % k == 0 if chunked else i + k <= len(xs))]
        parts = [[xs[j] for j in range(i, min(i + k, len(xs)))] for i in starts]
        return [{"sums": sum(p), "maxima": sorted(p)[-1], "minima": sorted(p)[0], "lists": p}[what] for p in parts]

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, low=0, longest=6))
