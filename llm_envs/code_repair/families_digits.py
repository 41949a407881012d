"""Families over single integers: digits, repeated steps, recursion."""

from __future__ import annotations

import operator
from random import Random

from llm_envs.code_repair.inputs import COMPARISONS, Inputs, integers
from llm_envs.code_repair.program import Program, family, nest


def _numbers(r: Random, digit: int) -> Inputs:
    """Numbers of one to four digits, `digit` and its neighbours frequent."""
    near = [d for d in (digit, digit, digit - 1, digit + 1) if 0 <= d <= 9]
    found = [(0,), (digit,), (near[-1],), (10 * digit + near[-1],), (digit * 11,)]
    for length in (1, 2, 2, 2, 3, 3, 2, 3, 2, 3, 4, 3, 2, 4, 1):
        found.append(
            (int("".join(str(r.choice(near) if r.random() < 0.6 else r.randrange(10)) for _ in range(length))),)
        )
    return found


@family("digits_compared", theme="digits")
def digits_compared(r: Random) -> Program:
    """count_digits_above_5, sum_digits_above_5."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(1, 8)
    counting = r.random() < 0.5
    name = f"{'count' if counting else 'sum'}_digits_{word}_{t}"
    gain = "1" if counting else "n % 10"
    text_gain = "1" if counting else "int(c)"
    body = r.choice(
        (
            f"k = 0\nwhile n > 0:\n    if n % 10 {op} {t}:\n        k += {gain}\n    n //= 10\nreturn k",
            f"k = 0\nfor c in str(n):\n    if int(c) {op} {t}:\n        k += {text_gain}\nreturn k",
            f"return sum([{text_gain} for c in str(n) if int(c) {op} {t}])",
        )
    )

    def reference(n: int) -> int:
        total, places = 0, 0
        while n or not places:
            n, digit = divmod(n, 10)
            places += 1
            total += holds(digit, t) * (1 if counting else digit)
        return total

    # The arithmetic loop sees no digit in 0, the textual one sees one: leave 0 out.
    inputs = [args for args in _numbers(r, t) if args[0] > 0]
    return Program(name, nest(f"def {name}(n):", body), reference, inputs)


@family("drop_digit", theme="digits", held_out=True)
def drop_digit(r: Random) -> Program:
    """drop_digit_3, keep_only_digit_3: the number that the other digits form, 0 without any."""
    d, keep = r.randint(1, 9), r.random() < 0.4
    name = f"{'keep_only' if keep else 'drop'}_digit_{d}"
    test, op = ("!=", "==") if keep else ("==", "!=")
    body = r.choice(
        (
            f"k = 0\nfor c in str(n):\n    if c {op} '{d}':\n        k = k * 10 + int(c)\nreturn k",
            f"k = ''\nfor c in str(n):\n    if int(c) {op} {d}:\n        k += c\nreturn int('0' + k)",
            f"if n == 0:\n    return 0\nif n % 10 {test} {d}:\n    return {name}(n // 10)\n"
            f"return {name}(n // 10) * 10 + n % 10",
        )
    )

    def reference(n: int) -> int:
        kept = str(n).count(str(d)) * str(d) if keep else str(n).replace(str(d), "")
        return int(kept or "0")

    return Program(name, nest(f"def {name}(n):", body), reference, _numbers(r, d))


@family("digits_in_base", theme="digits")
def digits_in_base(r: Random) -> Program:
    """digit_sum_base_3_plus_1, count_digits_base_3, digits_base_3 (lowest first)."""
    b, what = r.randint(2, 9), r.choice(("sum", "count", "list"))
    zero = r.randint(0, 2)
    name = {"sum": "digit_sum", "count": "count_digits", "list": "digits"}[what] + f"_base_{b}"
    name += f"_plus_{zero}" if zero and what != "list" else ""
    if what == "list":
        body = r.choice(
            (
                f"out = []\nwhile n > 0:\n    out.append(n % {b})\n    n //= {b}\nreturn out",
                f"out = []\nwhile n > 0:\n    n, x = divmod(n, {b})\n    out.append(x)\nreturn out",
                f"if n == 0:\n    return []\nreturn [n % {b}] + {name}(n // {b})",
            )
        )
    else:
        gain = f"n % {b}" if what == "sum" else "1"
        body = r.choice(
            (
                f"k = {zero}\nwhile n > 0:\n    k += {gain}\n    n //= {b}\nreturn k",
                f"if n == 0:\n    return {zero}\nreturn {gain} + {name}(n // {b})",
            )
        )

    def reference(n: int) -> object:
        places = [n // b**i % b for i in range(9) if b**i <= n]
        return places if what == "list" else zero + (sum(places) if what == "sum" else len(places))

    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, b, b * b, low=0, high=40))


@family("repeat_step", theme="recursion")
def repeat_step(r: Random) -> Program:
    """add_3_n_times_to_5."""
    sign, word, step = r.choice(
        (("+", "add", operator.add), ("-", "subtract", operator.sub), ("*", "times", operator.mul))
    )
    k, start = r.randint(2, 5), r.randint(1, 9)
    name = f"{word}_{k}_n_times_to_{start}"
    body = r.choice(
        (
            f"x = {start}\nfor i in range(n):\n    x {sign}= {k}\nreturn x",
            f"x = {start}\nwhile n > 0:\n    x {sign}= {k}\n    n -= 1\nreturn x",
            f"if n == 0:\n    return {start}\nreturn {name}(n - 1) {sign} {k}",
        )
    )

    def reference(n: int) -> int:
        return start * k**n if step is operator.mul else step(start, k * n)

    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, 0, 3, low=0, high=18))


@family("two_step_recurrence", theme="recursion")
def two_step_recurrence(r: Random) -> Program:
    """times_2_plus_3_n_times_to_1."""
    a, b, start = r.randint(2, 3), r.randint(1, 9), r.randint(0, 5)
    name = f"times_{a}_plus_{b}_n_times_to_{start}"
    body = r.choice(
        (
            f"x = {start}\nfor i in range(n):\n    x = x * {a} + {b}\nreturn x",
            f"if n == 0:\n    return {start}\nreturn {a} * {name}(n - 1) + {b}",
            f"x = {start}\nwhile n > 0:\n    x = {b} + {a} * x\n    n -= 1\nreturn x",
        )
    )
    reference = lambda n: start * a**n + b * (a**n - 1) // (a - 1)  # noqa: E731
    return Program(name, nest(f"def {name}(n):", body), reference, [(n,) for n in r.sample(range(13), 13)])


@family("fibonacci_like", theme="recursion")
def fibonacci_like(r: Random) -> Program:
    """fibonacci_from_2_5: every number is the sum of the two before."""
    a, b = r.randint(0, 6), r.randint(1, 7)
    name = f"fibonacci_from_{a}_{b}"
    body = r.choice(
        (
            f"x, y = ({a}, {b})\nfor i in range(n):\n    x, y = (y, x + y)\nreturn x",
            f"if n == 0:\n    return {a}\nif n == 1:\n    return {b}\nreturn {name}(n - 1) + {name}(n - 2)",
            f"out = [{a}, {b}]\nwhile len(out) <= n:\n    out.append(out[-1] + out[-2])\nreturn out[n]",
        )
    )

    def reference(n: int) -> int:
        plain = [1, 0, *(0 for _ in range(n))]
        for i in range(2, n + 1):
            plain[i] = plain[i - 1] + plain[i - 2]
        shifted = [0, 1, *(0 for _ in range(n))]
        for i in range(2, n + 1):
            shifted[i] = shifted[i - 1] + shifted[i - 2]
        return a * plain[n] + b * shifted[n]

    return Program(name, nest(f"def {name}(n):", body), reference, [(n,) for n in r.sample(range(12), 12)])


@family("steps_until", theme="counting")
def steps_until(r: Random) -> Program:
    """divisions_by_2_until_below_5, subtractions_of_3_until_below_5: how many steps it takes."""
    halving = r.random() < 0.5
    k, t = r.randint(2, 4), r.randint(2, 9)
    if halving:
        name = f"divisions_by_{k}_until_below_{t}"
        test, step, back = f"n >= {t}", f"n //= {k}", f"n < {t}"
        change = f"n // {k}"
    else:
        name = f"subtractions_of_{k}_until_below_{t}"
        test, step, back = f"n >= {t}", f"n -= {k}", f"n < {t}"
        change = f"n - {k}"
    body = r.choice(
        (
            f"i = 0\nwhile {test}:\n    {step}\n    i += 1\nreturn i",
            f"if {back}:\n    return 0\nreturn 1 + {name}({change})",
        )
    )

    def reference(n: int) -> int:
        if halving:
            return next(i for i in range(9) if n < t * k**i)
        return len(range(t, n + 1, k))

    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, t, t + k, t * k, low=0, high=36))


@family("sum_down", theme="recursion", held_out=True)
def sum_down(r: Random) -> Program:
    """sum_down_by_3_to_1_from_2: n + (n - 3) + ... while above 1, plus 2."""
    k, floor, base = r.randint(1, 5), r.randint(0, 3), r.randint(0, 4)
    name = f"sum_down_by_{k}_to_{floor}" + (f"_from_{base}" if base else "")
    body = r.choice(
        (
            f"if n <= {floor}:\n    return {base}\nreturn n + {name}(n - {k})",
            f"x = {base}\nwhile n > {floor}:\n    x += n\n    n -= {k}\nreturn x",
        )
    )
    reference = lambda n: base + sum(range(n, floor, -k))  # noqa: E731
    name_inputs = integers(r, floor, floor + k, low=0, high=19)
    return Program(name, nest(f"def {name}(n):", body), reference, name_inputs)


@family("nested_lists", theme="recursion")
def nested_lists(r: Random) -> Program:
    """count_nested_above_5, sum_nested_above_5: over all depths."""
    (word, op, holds), t = r.choice(COMPARISONS), r.randint(1, 8)
    counting = r.random() < 0.5
    name = f"{'count' if counting else 'sum'}_nested_{word}_{t}"
    gain = "1" if counting else "x"
    body = (
        f"n = 0\nfor x in xs:\n    if isinstance(x, list):\n        n += {name}(x)\n"
        f"    elif x {op} {t}:\n        n += {gain}\nreturn n"
    )

    def reference(xs: list) -> int:
        flat = [int(word) for word in str(xs).replace("[", " ").replace("]", " ").replace(",", " ").split()]
        return sum((1 if counting else x) for x in flat if holds(x, t))

    def item(deep: int) -> object:
        if deep and r.random() < 0.35:
            return [item(deep - 1) for _ in range(r.randint(0, 2))]
        return r.choice((t, t + 1, t - 1, r.randint(0, 9)))

    inputs = [([item(2) for _ in range(length)],) for length in (0, 1, 1, 1, *(r.randint(1, 4) for _ in range(16)))]
    return Program(name, nest(f"def {name}(xs):", body), reference, inputs)
