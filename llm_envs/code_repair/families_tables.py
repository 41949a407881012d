"""Families over dicts, matrices and intervals."""

from __future__ import annotations

from collections import Counter
from random import Random

from llm_envs.code_repair.inputs import COMPARISONS, ORDERINGS, grids, lists, tables, words
from llm_envs.code_repair.program import Program, family, nest


@family("values_compared", theme="dicts")
def values_compared(r: Random) -> Program:
    """count_values_above_7, sum_values_above_7."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(1, 8)
    summing = r.random() < 0.5
    name = f"{'sum' if summing else 'count'}_values_{word}_{t}"
    gain, item = ("x", "d[k]") if summing else ("1", "1")
    body = r.choice(
        (
            f"n = 0\nfor x in d.values():\n    if x {op} {t}:\n        n += {gain}\nreturn n",
            f"n = 0\nfor k in d:\n    if d[k] {op} {t}:\n        n += {item}\nreturn n",
            f"return sum([{gain} for x in d.values() if x {op} {t}])",
        )
    )

    def reference(d: dict[str, int]) -> int:
        chosen = [pair[1] for pair in d.items() if holds(pair[1], t)]
        return sum(chosen) if summing else len(chosen)

    return Program(name, nest(f"def {name}(d):", body), reference, tables(r, t))


@family("keys_compared", theme="dicts")
def keys_compared(r: Random) -> Program:
    """keys_above_7, keys_above_7_falling: keys of the values that pass, sorted."""
    (word, op, holds), t = r.choice(ORDERINGS), r.randint(1, 8)
    down = r.random() < 0.4
    name = f"keys_{word}_{t}" + ("_falling" if down else "")
    tail = ", reverse=True" if down else ""
    body = r.choice(
        (
            f"return sorted([k for k in d if d[k] {op} {t}]{tail})",
            f"out = []\nfor k in sorted(d{tail}):\n    if d[k] {op} {t}:\n        out.append(k)\nreturn out",
            f"out = []\nfor k, x in d.items():\n    if x {op} {t}:\n        out.append(k)\nreturn sorted(out{tail})",
        )
    )

    def reference(d: dict[str, int]) -> list[str]:
        found = sorted(filter(lambda key: holds(d[key], t), d))
        return found[::-1] if down else found

    return Program(name, nest(f"def {name}(d):", body), reference, tables(r, t))


@family("lookup", theme="dicts")
def lookup(r: Random) -> Program:
    """a_plus_b_or_3: two entries, a default for missing ones."""
    (a, b), default = r.sample("abcde", 2), r.randint(0, 9)
    sign, word = r.choice((("+", "plus"), ("-", "minus")))
    name = f"{a}_{word}_{b}_or_{default}"
    body = r.choice(
        (
            f"return d.get('{a}', {default}) {sign} d.get('{b}', {default})",
            f"x, y = ({default}, {default})\nif '{a}' in d:\n    x = d['{a}']\nif '{b}' in d:\n    y = d['{b}']\n"
            f"return x {sign} y",
            f"x = d['{a}'] if '{a}' in d else {default}\ny = d['{b}'] if '{b}' in d else {default}\nreturn x {sign} y",
        )
    )

    def reference(d: dict[str, int]) -> int:
        x, y = ({a: default, b: default} | {key: d[key] for key in (a, b) if key in d}).values()
        return x + y if sign == "+" else -(y - x)

    inputs = [(dict(d) | {r.choice((a, b)): r.randint(1, 9)},) for (d,) in tables(r)]
    return Program(name, nest(f"def {name}(d):", body), reference, [({},), ({a: 3},), ({b: 4},), *inputs])


@family("change_values", theme="dicts")
def change_values(r: Random) -> Program:
    """values_above_3_plus_2: one arithmetic step on the larger values."""
    (sign, word), k, t = r.choice((("+", "plus"), ("-", "minus"), ("*", "times"))), r.randint(2, 5), r.randint(0, 5)
    name = f"values_above_{t}_{word}_{k}"
    body = r.choice(
        (
            f"return {{k: x {sign} {k} if x > {t} else x for k, x in d.items()}}",
            f"for k in d:\n    if d[k] > {t}:\n        d[k] {sign}= {k}\nreturn d",
            f"out = {{}}\nfor k, x in d.items():\n    out[k] = x {sign} {k} if x > {t} else x\nreturn out",
        )
    )

    def change(x: int) -> int:
        return {"+": x + k, "-": x + -k, "*": sum([x] * k)}[sign] if x > t else x

    reference = lambda d: dict(zip(d, map(change, d.values()), strict=True))  # noqa: E731
    return Program(name, nest(f"def {name}(d):", body), reference, tables(r, t))


@family("letter_counts", theme="counting")
def letter_counts(r: Random) -> Program:
    """letters_at_least_2_times (sorted), how_many_letters_exactly_1_times, counts_of_letters_at_most_2_times."""
    k, what = r.randint(1, 3), r.choice(("list", "count", "dict"))
    word, op = r.choice((("at_least", ">="), ("exactly", "=="), ("at_most", "<="), ("more_than", ">")))
    name = {"list": "letters", "count": "how_many_letters", "dict": "counts_of_letters"}[what] + f"_{word}_{k}_times"
    test = f"s.count(c) {op} {k}"
    body = {
        "list": (
            f"return [c for c in sorted(dict.fromkeys(s)) if {test}]",
            f"out = []\nfor c in sorted(s):\n    if {test} and c not in out:\n        out.append(c)\nreturn out",
            f"d = {{}}\nfor c in s:\n    d[c] = d.get(c, 0) + 1\nreturn sorted([c for c in d if d[c] {op} {k}])",
        ),
        "count": (
            f"return len([c for c in dict.fromkeys(s) if {test}])",
            f"d = {{}}\nfor c in s:\n    d[c] = d.get(c, 0) + 1\nreturn len([c for c in d if d[c] {op} {k}])",
            f"n = 0\nfor c in dict.fromkeys(s):\n    if {test}:\n        n += 1\nreturn n",
        ),
        "dict": (
            f"return {{c: s.count(c) for c in s if {test}}}",
            f"d = {{}}\nfor c in s:\n    if {test}:\n        d[c] = d.get(c, 0) + 1\nreturn d",
        ),
    }[what]
    holds = {">=": lambda n: n >= k, "==": lambda n: n == k, "<=": lambda n: n <= k, ">": lambda n: n > k}[op]

    def reference(s: str) -> object:
        kept = {c: n for c, n in Counter(s).items() if holds(n)}
        return {"list": sorted(kept), "count": len(kept), "dict": kept}[what]

    inputs = words(r, "abc", shortest=0, longest=7, alphabet="abcx")
    return Program(name, nest(f"def {name}(s):", r.choice(body)), reference, inputs)


@family("count_by_remainder", theme="counting")
def count_by_remainder(r: Random) -> Program:
    """counts_by_mod_3, sums_by_mod_3_from_1: one entry per remainder."""
    k, summing, start = r.randint(2, 5), r.random() < 0.5, r.choice((0, 0, 1, 2))
    name = f"{'sums' if summing else 'counts'}_by_mod_{k}" + (f"_from_{start}" if start else "")
    gain = "x" if summing else "1"
    body = r.choice(
        (
            f"out = [{start}] * {k}\nfor x in xs:\n    out[x % {k}] += {gain}\nreturn out",
            f"out = []\nfor i in range({k}):\n"
            f"    out.append({start} + sum([{gain} for x in xs if x % {k} == i]))\nreturn out",
            f"return [{start} + sum([{gain} for x in xs if x % {k} == i]) for i in range({k})]",
        )
    )

    def reference(xs: list[int]) -> list[int]:
        return [start + sum((x if summing else 1) for x in xs if x in range(i, 99, k)) for i in range(k)]

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, k, low=0, longest=5))


@family("column", theme="matrices")
def column(r: Random) -> Program:
    """list_of_column_1, sum_of_row_0, max_of_column_2, count_above_3_in_row_1."""
    k, what, row = r.randrange(3), r.choice(("list", "sum", "max", "count")), r.random() < 0.3
    t = r.randint(1, 8)
    name = {"list": "list_of", "sum": "sum_of", "max": "max_of", "count": f"count_above_{t}_in"}[what]
    name += f"_{'row' if row else 'column'}_{k}"
    line = f"xs[{k}]" if row else f"[x[{k}] for x in xs]"
    if what == "count":
        line = f"[x for x in xs[{k}] if x > {t}]" if row else f"[x[{k}] for x in xs if x[{k}] > {t}]"
    show = {"list": "{}", "sum": "sum({})", "max": "max({})", "count": "len({})"}[what]
    box, item = (f"xs[{k}]", "x") if row else ("xs", f"x[{k}]")
    counted = f"if {item} > {t}: n += 1"
    step = {"list": f"out.append({item})", "sum": f"n += {item}", "max": f"n = max(n, {item})", "count": counted}[what]
    start, end = ("out = []", "out") if what == "list" else ("n = 0", "n")
    body = r.choice(
        (
            f"return {show.format(line)}",
            f"{start}\nfor x in {box}:\n    {step}\nreturn {end}",
            f"xs = {line}\nreturn {show.format('xs')}",
        )
    )

    def reference(xs: list[list[int]]) -> object:
        values = list(xs[k]) if row else list(list(zip(*xs, strict=True))[k])
        above = sum(x > t for x in values)
        return {"list": values, "sum": sum(values), "max": sorted(values)[-1], "count": above}[what]

    inputs = [args for _ in range(3) for args in grids(r, t, width=k + 1) if len(args[0]) > k * row]
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("map_cells", theme="matrices")
def map_cells(r: Random) -> Program:
    """cells_plus_3, cells_over_3: one arithmetic step on every cell."""
    (sign, word), k = r.choice((("+", "plus"), ("-", "minus"), ("*", "times"), ("//", "over"))), r.randint(2, 9)
    name = f"cells_{word}_{k}"
    body = r.choice(
        (
            f"return [[x {sign} {k} for x in y] for y in xs]",
            f"out = []\nfor y in xs:\n    out.append([x {sign} {k} for x in y])\nreturn out",
            f"for y in xs:\n    for i in range(len(y)):\n        y[i] {sign}= {k}\nreturn xs",
        )
    )
    one = {"+": lambda x: k + x, "-": lambda x: -k + x, "*": lambda x: k * x, "//": lambda x: divmod(x, k)[0]}[sign]
    reference = lambda xs: [list(map(one, row)) for row in xs]  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, [([],), *grids(r, k)])


@family("count_cells", theme="matrices", held_out=True)
def count_cells(r: Random) -> Program:
    """count_cells_above_7."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(1, 8)
    name = f"count_cells_{word}_{t}"
    body = r.choice(
        (
            f"n = 0\nfor y in xs:\n    for x in y:\n        if x {op} {t}:\n            n += 1\nreturn n",
            f"return sum([len([x for x in y if x {op} {t}]) for y in xs])",
            f"n = 0\nfor y in xs:\n    n += len([x for x in y if x {op} {t}])\nreturn n",
        )
    )
    reference = lambda xs: sum(holds(x, t) for row in xs for x in row)  # noqa: E731
    return Program(name, nest(f"def {name}(xs):", body), reference, [([],), *grids(r, t)])


@family("diagonal", theme="matrices")
def diagonal(r: Random) -> Program:
    """sum_of_diagonal_plus_3, list_of_anti_diagonal_times_2."""
    start, anti, what = r.randint(0, 6), r.random() < 0.5, r.choice(("sum", "list"))
    k = r.randint(2, 5)
    name = f"{what}_of_{'anti_' if anti else ''}diagonal" + (f"_plus_{start}" if what == "sum" else f"_times_{k}")
    cell = "xs[i][-1 - i]" if anti else "xs[i][i]"
    sums = (
        f"n = {start}\nfor i in range(len(xs)):\n    n += {cell}\nreturn n",
        f"return {start} + sum([{cell} for i in range(len(xs))])",
        f"n = {start}\nfor i, x in enumerate(xs):\n    n += {cell.replace('xs[i]', 'x')}\nreturn n",
    )
    products = (
        f"return [{cell} * {k} for i in range(len(xs))]",
        f"out = []\nfor i in range(len(xs)):\n    out.append({k} * {cell})\nreturn out",
        f"return [{k} * {cell.replace('xs[i]', 'x')} for i, x in enumerate(xs)]",
    )
    body = r.choice(sums if what == "sum" else products)

    def reference(xs: list[list[int]]) -> object:
        size = len(xs)
        cells = [xs[i][j] for i in range(size) for j in range(size) if (i + j == size - 1 if anti else i == j)]
        return start + sum(cells) if what == "sum" else [sum([x] * k) for x in cells]

    sizes = (0, 1, 1, 2, 2, 2, 2, 2, 3, 2, 2, 3, 2, 2, 1, 2, 2)
    inputs = [([[r.randint(0, 9) for _ in range(size)] for _ in range(size)],) for size in sizes]
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)


@family("interval_overlap", theme="intervals")
def interval_overlap(r: Random) -> Program:
    """overlap_with_3_8 (length), touches_3_8, lies_inside_3_8, for an interval from x to y."""
    a, b = r.randint(0, 5), r.randint(7, 12)
    what = r.choice(("length", "test", "inside"))
    name = {"length": "overlap_with", "test": "touches", "inside": "lies_inside"}[what] + f"_{a}_{b}"
    body = {
        "length": (
            f"return max(0, min(y, {b}) - max(x, {a}))",
            f"x = max(x, {a})\ny = min(y, {b})\nif y < x:\n    return 0\nreturn y - x",
        ),
        "test": (f"return x <= {b} and y >= {a}", f"if y < {a} or x > {b}:\n    return False\nreturn True"),
        "inside": (f"return {a} <= x and y <= {b}", f"if x < {a} or y > {b}:\n    return False\nreturn True"),
    }[what]

    def reference(x: int, y: int) -> object:
        common = [n for n in range(x, y + 1) if a <= n <= b]
        if what == "length":
            return max(0, len(common) - 1)
        return bool(common) if what == "test" else len(common) == y + 1 - x

    edges = (a, b, a - 1, b + 1, a + 1, b - 1)
    pairs = [(a, b), (a - 1, a), (b, b + 1), (a - 1, b + 1), (a - 3, a - 1), (b + 1, b + 2), (a, a + 1), (b - 1, b)]
    pairs += [(min(p), max(p)) for p in ((r.choice(edges), r.randint(-3, 16)) for _ in range(20)) if p[0] != p[1]]
    return Program(name, nest(f"def {name}(x, y):", r.choice(body)), reference, pairs)


@family("points_inside", theme="intervals")
def points_inside(r: Random) -> Program:
    """count_in_closed_3_8, keep_in_half_open_3_8, drop_in_open_3_8 (half open: without the right end)."""
    a, b = r.randint(0, 4), r.randint(6, 10)
    left, right = r.choice(("<", "<=")), r.choice(("<", "<="))
    what = r.choice(("count", "keep", "drop"))
    kind = {("<", "<"): "open", ("<=", "<="): "closed", ("<=", "<"): "half_open", ("<", "<="): "left_open"}[left, right]
    name = f"{what}_in_{kind}_{a}_{b}"
    test = r.choice((f"{a} {left} x {right} {b}", f"x {left.replace('<', '>')} {a} and x {right} {b}"))
    test = f"not ({test})" if what == "drop" else test
    if what == "count":
        body = r.choice(
            (f"n = 0\nfor x in xs:\n    if {test}:\n        n += 1\nreturn n", f"return len([x for x in xs if {test}])")
        )
    else:
        loop = f"out = []\nfor x in xs:\n    if {test}:\n        out.append(x)\nreturn out"
        body = r.choice((loop, f"return [x for x in xs if {test}]"))
    allowed = range(a + (left == "<"), b + (right == "<="))

    def reference(xs: list[int]) -> object:
        kept = [x for x in xs if (x in allowed) == (what != "drop")]
        return len(kept) if what == "count" else kept

    return Program(name, nest(f"def {name}(xs):", body), reference, lists(r, a, b, low=0, high=11, longest=4))
