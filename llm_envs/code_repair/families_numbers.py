"""Families over single integers: arithmetic, branches, divisibility."""

from __future__ import annotations

import math
from random import Random

from llm_envs.code_repair.inputs import integers
from llm_envs.code_repair.program import Program, family, nest


@family("scale_and_shift", theme="arithmetic")
def scale_and_shift(r: Random) -> Program:
    """times_3_plus_4, plus_4_times_3: two arithmetic steps in a given order."""
    a, b, sign = r.randint(2, 5), r.randint(1, 9), r.choice("+-")
    word, step = ("plus", b) if sign == "+" else ("minus", -b)
    if r.random() < 0.5:
        name, first, then = f"times_{a}_{word}_{b}", f"x * {a}", f"{sign} {b}"
        reference = lambda x: sum([x] * a) + step  # noqa: E731
    else:
        name, first, then = f"{word}_{b}_times_{a}", f"x {sign} {b}", f"* {a}"
        reference = lambda x: sum([x + step] * a)  # noqa: E731
    body = r.choice((f"return ({first}) {then}", f"n = {first}; return n {then}", f"x = {first}; return x {then}"))
    return Program(name, nest(f"def {name}(x):", body), reference, integers(r, -b))


@family("clamp", theme="branches")
def clamp(r: Random) -> Program:
    """clamp_2_9: the nearest value within bounds."""
    low, high = r.randint(0, 5), r.randint(7, 14)
    name = f"clamp_{low}_{high}"
    body = r.choice(
        (
            f"if x < {low}:\n    return {low}\nif x > {high}:\n    return {high}\nreturn x",
            f"if x > {high}:\n    x = {high}\nelif x < {low}:\n    x = {low}\nreturn x",
            f"return max({low}, min({high}, x))",
            f"if x < {low}:\n    return {low}\nreturn min(x, {high})",
        )
    )
    return Program(name, nest(f"def {name}(x):", body), lambda x: sorted((low, x, high))[1], integers(r, low, high))


@family("multiple_test", theme="divisibility")
def multiple_test(r: Random) -> Program:
    """is_multiple_of_3, is_no_multiple_of_3."""
    k, yes = r.randint(2, 9), r.random() < 0.6
    name = f"is_multiple_of_{k}" if yes else f"is_no_multiple_of_{k}"
    body = r.choice(
        (
            f"return x % {k} {'==' if yes else '!='} 0",
            f"if x % {k} == 0:\n    return {yes}\nreturn {not yes}",
            f"if x % {k} != 0:\n    return {not yes}\nreturn {yes}",
            f"return x // {k} * {k} {'==' if yes else '!='} x",
        )
    )
    inputs = integers(r, k, 2 * k, -k, low=-10)
    return Program(name, nest(f"def {name}(x):", body), lambda x: (x in range(-20 * k, 20 * k, k)) is yes, inputs)


@family("multiple_but_not", theme="divisibility", held_out=True)
def multiple_but_not(r: Random) -> Program:
    """multiple_of_3_not_7: divisible by one number and not by another."""
    a = r.randint(2, 4)
    b = r.choice([n for n in range(a + 1, 11) if n % a or n > 2 * a - 1])
    name = f"multiple_of_{a}_not_{b}"
    body = r.choice(
        (
            f"return x % {a} == 0 and x % {b} != 0",
            f"return x % {b} != 0 and x % {a} == 0",
            f"if x % {b} == 0:\n    return False\nreturn x % {a} == 0",
            f"if x % {a} != 0:\n    return False\nreturn x % {b} != 0",
        )
    )
    inputs = integers(r, a, b, a * b, 2 * a, low=0, high=40)
    return Program(name, nest(f"def {name}(x):", body), lambda x: not math.fmod(x, a) and math.fmod(x, b) > 0, inputs)


@family("sum_range", theme="arithmetic")
def sum_range(r: Random) -> Program:
    """sum_2_to_n, sum_2_below_n_step_3: the sum of an arithmetic progression."""
    a, closed = r.randint(0, 5), r.random() < 0.6
    step = r.randint(1, 3)
    name = f"sum_{a}_to_n" if closed else f"sum_{a}_below_n"
    name += f"_step_{step}" if step > 1 else ""
    end = "n + 1" if closed else "n"
    stop = "<=" if closed else "<"
    steps = f"range({a}, {end}, {step})" if step > 1 else f"range({a}, {end})"
    body = r.choice(
        (
            f"k = 0\nfor i in {steps}:\n    k += i\nreturn k",
            f"k = 0\ni = {a}\nwhile i {stop} n:\n    k += i\n    i += {step}\nreturn k",
            f"return sum({steps})",
        )
    )

    def reference(n: int) -> int:
        return sum(i for i in range(n + closed) if i >= a and (i - a) % step == 0)

    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, a, a + step, low=0, high=18))


@family("multiples_up_to", theme="counting")
def multiples_up_to(r: Random) -> Program:
    """count_multiples_of_3_to_n, sum_multiples_of_3_below_n."""
    k, counting = r.randint(2, 9), r.random() < 0.5
    closed = r.random() < 0.6
    what, gain = ("count", "1") if counting else ("sum", "i")
    name = f"{what}_multiples_of_{k}_{'to' if closed else 'below'}_n"
    end = "n + 1" if closed else "n"
    body = r.choice(
        (
            f"k = 0\nfor i in range(1, {end}):\n    if i % {k} == 0:\n        k += {gain}\nreturn k",
            f"k = 0\nfor i in range({k}, {end}, {k}):\n    k += {gain}\nreturn k",
            f"return sum([{gain} for i in range(1, {end}) if i % {k} == 0])",
        )
    )

    def reference(n: int) -> int:
        count = max(0, (n if closed else n - 1) // k)
        return count if counting else k * count * (count + 1) // 2

    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, k, 2 * k, low=0, high=24))


@family("divisors", theme="counting")
def divisors(r: Random) -> Program:
    """count_divisors_from_2, sum_proper_divisors_from_1: divisors of n that are not too small."""
    a, counting = r.randint(1, 6), r.random() < 0.5
    what, gain = ("count", "1") if counting else ("sum", "i")
    proper = r.random() < 0.4
    name = f"{what}_{'proper_' if proper else ''}divisors_from_{a}"
    end = "n" if proper else "n + 1"
    body = r.choice(
        (
            f"k = 0\nfor i in range({a}, {end}):\n    if n % i == 0:\n        k += {gain}\nreturn k",
            f"return sum([{gain} for i in range({a}, {end}) if n % i == 0])",
            f"k = 0\ni = {a}\nwhile i {'<' if proper else '<='} n:\n    if n % i == 0:\n        k += {gain}\n"
            "    i += 1\nreturn k",
        )
    )

    def reference(n: int) -> int:
        found = {i for p in range(1, n + 1) for i in (p, n // p) if n % p == 0 and i >= a} - ({n} if proper else set())
        return len(found) if counting else sum(found)

    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, a, 2 * a, 12, low=1, high=24))


@family("common_divisor", theme="divisibility")
def common_divisor(r: Random) -> Program:
    """gcd_with_12, lcm_with_12, is_coprime_with_12."""
    k = r.choice((4, 6, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 27, 28, 30))
    what = r.choice(("gcd", "lcm", "coprime"))
    name = f"{what}_with_{k}" if what != "coprime" else f"is_coprime_with_{k}"
    result = {"gcd": "x", "lcm": f"n * {k} // x", "coprime": "x == 1"}[what]
    reference = {
        "gcd": lambda n: math.gcd(n, k),
        "lcm": lambda n: math.lcm(n, k),
        "coprime": lambda n: not any(n % d == 0 and k % d == 0 for d in range(2, k + 1)),
    }[what]
    body = r.choice(
        (
            f"x, y = (n, {k})\nwhile y:\n    x, y = (y, x % y)\nreturn {result}",
            f"x = {k}\nwhile n % x or {k} % x:\n    x -= 1\nreturn {result}",
            f"x, y = (n, {k})\nwhile x != y:\n    if x > y:\n        x -= y\n    else:\n        y -= x\n"
            f"return {result}",
        )
    )
    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, k, 12, low=1, high=30))


@family("next_multiple", theme="searching")
def next_multiple(r: Random) -> Program:
    """round_up_to_5, next_multiple_of_5_down: the nearest multiple in one direction."""
    k, up = r.randint(2, 12), r.random() < 0.5
    strict = r.random() < 0.4
    sign, word = ("+", "up") if up else ("-", "down")
    name = f"round_{word}_to_{k}" if not strict else f"next_multiple_of_{k}_{word}"
    first = f"x {sign}= 1\n" if strict else ""
    body = r.choice(
        (
            f"{first}while x % {k} != 0:\n    x {sign}= 1\nreturn x",
            f"{first}while x % {k}:\n    x {sign}= 1\nreturn x",
            f"{first}return {f'(x + {k - 1})' if up else 'x'} // {k} * {k}",
        )
    )

    def reference(x: int) -> int:
        ladder = range(-9 * k, 30 * k, k)
        fits = [m for m in ladder if (m > x if up else m < x) or (m == x and not strict)]
        return min(fits) if up else max(fits)

    return Program(name, nest(f"def {name}(x):", body), reference, integers(r, k, 2 * k, 0))


@family("distance", theme="branches")
def distance(r: Random) -> Program:
    """distance_from_5, distance_from_5_capped_at_8."""
    k, cap = r.randint(1, 9), r.randint(3, 8)
    capped = r.random() < 0.6
    name = f"distance_from_{k}" + (f"_capped_at_{cap}" if capped else "")
    if capped:
        body = r.choice(
            (
                f"x = abs(x - {k})\nif x > {cap}:\n    return {cap}\nreturn x",
                f"return min(abs(x - {k}), {cap})",
                f"if x < {k}:\n    return min({k} - x, {cap})\nreturn min(x - {k}, {cap})",
            )
        )
    else:
        body = r.choice((f"if x > {k}:\n    return x - {k}\nreturn {k} - x", f"return max(x - {k}, {k} - x)"))

    def reference(x: int) -> int:
        gap = len(range(min(x, k), max(x, k)))
        return sorted((gap, cap))[0] if capped else gap

    return Program(name, nest(f"def {name}(x):", body), reference, integers(r, k, k + cap, k - cap))


@family("band", theme="branches")
def band(r: Random) -> Program:
    """band_3_9_up: 0, 1 or 2, by two thresholds (2, 1 or 0 for `down`)."""
    low, high = r.randint(0, 6), r.randint(8, 15)
    up = r.random() < 0.5
    a, b, c = (0, 1, 2) if up else (2, 1, 0)
    name = f"band_{low}_{high}_" + ("up" if up else "down")
    body = r.choice(
        (
            f"if x < {low}:\n    return {a}\nif x < {high}:\n    return {b}\nreturn {c}",
            f"if x >= {high}:\n    return {c}\nif x >= {low}:\n    return {b}\nreturn {a}",
            f"if x < {low}:\n    n = {a}\nelif x < {high}:\n    n = {b}\nelse:\n    n = {c}\nreturn n",
        )
    )
    reference = lambda x: (a, b, c)[sum(x >= edge for edge in (low, high))]  # noqa: E731
    return Program(name, nest(f"def {name}(x):", body), reference, integers(r, low, high))


@family("fizz", theme="branches")
def fizz(r: Random) -> Program:
    """fizz_3_buzz_5: words for divisibility, joined."""
    a, b = r.sample((2, 3, 4, 5, 7), 2)
    x, y = r.sample(("fizz", "buzz", "pop"), 2)
    name = f"{x}_{a}_{y}_{b}"
    body = r.choice(
        (
            f"k = ''\nif n % {a} == 0:\n    k += '{x}'\nif n % {b} == 0:\n    k += '{y}'\nreturn k",
            f"if n % {a * b // math.gcd(a, b)} == 0:\n    return '{x + y}'\nif n % {a} == 0:\n    return '{x}'\n"
            f"if n % {b} == 0:\n    return '{y}'\nreturn ''",
        )
    )
    reference = lambda n: "".join(word for k, word in ((a, x), (b, y)) if n in range(0, 99, k))  # noqa: E731
    return Program(name, nest(f"def {name}(n):", body), reference, integers(r, a, b, a * b, low=0, high=40))
