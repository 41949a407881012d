"""Families of small classes that count: counters, accounts, moving windows, limits."""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from random import Random
from typing import Any

from llm_envs.code_repair.program import CLASS_FAMILIES, Program, class_source, family
from llm_envs.code_repair.scripts import nothing, scripts


@family("class_counter", theme="counting", registry=CLASS_FAMILIES)
def class_counter(r: Random) -> Program:
    """CounterTo7Wraps, CounterTo7Stops: counts up by a step, from 0 to a limit."""
    top, step, wraps = r.randint(5, 9), r.randint(1, 3), r.random() < 0.5
    name = f"CounterTo{top}By{step}{'Wraps' if wraps else 'Stops'}"
    up = {
        True: (
            f"self.n += {step}\nif self.n > {top}:\n    self.n -= {top + 1}\n    self.k += 1\nreturn self.n",
            f"self.n = self.n + {step}\nif self.n >= {top + 1}:\n    self.k += 1\nself.n = self.n % {top + 1}\n"
            "return self.n",
        ),
        False: (
            f"if self.n + {step} > {top}:\n    self.k += 1\nself.n = min(self.n + {step}, {top})\nreturn self.n",
            f"self.n += {step}\nif self.n > {top}:\n    self.n = {top}\n    self.k += 1\nreturn self.n",
        ),
    }[wraps]
    down = r.choice(
        (
            "self.n = max(0, self.n - 1)\nreturn self.n",
            "if self.n > 0:\n    self.n -= 1\nreturn self.n",
            "if self.n == 0:\n    return 0\nself.n -= 1\nreturn self.n",
        )
    )
    methods = {
        "__init__(self, n)": "self.n = n\nself.k = 0",
        "up(self)": r.choice(up),
        "down(self)": down,
        "overflows(self)": "return self.k",
    }

    init = lambda r: (r.choice((0, 1, top - 3, top - 2, top - 1, top)),)  # noqa: E731
    drawn = {"up": nothing, "down": nothing, "overflows": nothing}
    return Program(name, class_source(name, methods), _counter_oracle(step, top, wraps), scripts(r, init, drawn, 3, 8))


def _counter_oracle(step: int, top: int, wraps: bool) -> type[Any]:
    class Oracle:
        def __init__(self, n: int) -> None:
            self.at, self.over = n, 0

        def up(self) -> int:
            for _ in range(step):
                if self.at != top:
                    self.at += 1
                    continue
                self.over, self.at = self.over + 1, 0 if wraps else top
                if not wraps:
                    break
            return self.at

        def down(self) -> int:
            self.at -= self.at != 0
            return self.at

        def overflows(self) -> int:
            return self.over

    return Oracle


@family("class_account", theme="arithmetic", registry=CLASS_FAMILIES)
def class_account(r: Random) -> Program:
    """AccountFee2Overdraft10: what withdrawing costs and how far it may go."""
    fee, limit = r.randint(1, 3), r.choice((0, 0, 5, 10))
    name = f"AccountFee{fee}" + (f"Overdraft{limit}" if limit else "")
    floor = f"-{limit}" if limit else "0"
    withdraw = r.choice(
        (
            f"if self.n - x - {fee} < {floor}:\n    return False\nself.n -= x + {fee}\nself.k += 1\nreturn True",
            f"n = self.n - x - {fee}\nif n >= {floor}:\n    self.n = n\n    self.k += 1\n    return True\nreturn False",
            f"if x + {fee} > self.n + {limit}:\n    return False\nself.n -= x + {fee}\nself.k += 1\nreturn True",
        )
    )
    deposit = r.choice(
        (
            "if x > 0:\n    self.n += x\nreturn self.n",
            "if x <= 0:\n    return self.n\nself.n = self.n + x\nreturn self.n",
        )
    )
    paid = r.random() < 0.5
    methods = {
        "__init__(self)": "self.n = 0\nself.k = 0",
        "deposit(self, x)": deposit,
        "withdraw(self, x)": withdraw,
        "balance(self)": "return self.n",
        f"{'fees_paid' if paid else 'withdrawals'}(self)": f"return self.k * {fee}" if paid else "return self.k",
    }

    drawn: dict[str, Any] = {
        "deposit": lambda r: (r.choice((-1, 0, 4, 5, 8, 10)),),
        "withdraw": lambda r: (r.choice((1, 2, 3, 4 - fee, 5 - fee, 8 - fee, 5 + limit - fee)),),
        "balance": nothing,
        "fees_paid" if paid else "withdrawals": nothing,
    }
    return Program(name, class_source(name, methods), _account_oracle(limit, fee), scripts(r, nothing, drawn, 3, 7))


def _account_oracle(limit: int, fee: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.booked: list[int] = []

        def deposit(self, x: int) -> int:
            self.booked.append(max(x, 0))
            return self.balance()

        def withdraw(self, x: int) -> bool:
            self.booked.append(-(x + fee))
            if self.balance() + limit < 0:
                self.booked.pop()
                return False
            return True

        def balance(self) -> int:
            return sum(self.booked)

        def withdrawals(self) -> int:
            return sum(x < 0 for x in self.booked)

        def fees_paid(self) -> int:
            return sum(fee for x in self.booked if x < 0)

    return Oracle


@family("class_window", theme="sequences", registry=CLASS_FAMILIES)
def class_window(r: Random) -> Program:
    """Last3Numbers: what the last k numbers are, on the whole."""
    k, what = r.randint(2, 4), r.choice(("mean", "spread", "largest"))
    t = r.randint(4, 6)
    name = f"Last{k}Numbers"
    add = r.choice(
        (
            f"self.xs.append(x)\nif len(self.xs) > {k}:\n    self.xs.pop(0)",
            f"self.xs = self.xs[-{k - 1}:] + [x]",
            f"if len(self.xs) == {k}:\n    self.xs = self.xs[1:]\nself.xs.append(x)",
        )
    )
    show = {"mean": "sum(self.xs) // len(self.xs)", "spread": "max(self.xs) - min(self.xs)", "largest": "max(self.xs)"}
    asked = r.choice(
        (
            f"if not self.xs:\n    return 0\nreturn {show[what]}",
            f"return {show[what]} if len(self.xs) > 0 else 0",
        )
    )
    above = r.choice(
        (
            f"n = 0\nfor x in self.xs:\n    if x > {t}:\n        n += 1\nreturn n",
            f"return len([x for x in self.xs if x > {t}])",
        )
    )
    rising = r.choice(
        (
            "return all([self.xs[i] < self.xs[i + 1] for i in range(len(self.xs) - 1)])",
            "for i in range(1, len(self.xs)):\n    if self.xs[i - 1] >= self.xs[i]:\n        return False\nreturn True",
        )
    )
    methods = {"__init__(self)": "self.xs = []", "add(self, x)": add, f"{what}(self)": asked}
    methods |= {f"above_{t}(self)": above, "rising(self)": rising}

    drawn = {"add": lambda r: (r.choice((t - 1, t, t + 1, t + 3, 1)),), what: nothing, f"above_{t}": nothing}
    drawn["rising"] = nothing
    return Program(name, class_source(name, methods), _window_oracle(k, t), scripts(r, nothing, drawn, 3, 7))


def _window_oracle(k: int, t: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.seen: deque[int] = deque(maxlen=k)

        def add(self, x: int) -> None:
            self.seen.append(x)

        def rising(self) -> bool:
            return list(self.seen) == sorted(set(self.seen))

        def mean(self) -> int:
            return sum(self.seen) // max(1, len(self.seen))

        def spread(self) -> int:
            return self.largest() - sorted([*self.seen, self.largest()])[0]

        def largest(self) -> int:
            return sorted(self.seen or [0])[-1]

    setattr(Oracle, f"above_{t}", lambda self: sum(x >= t + 1 for x in self.seen))
    return Oracle


@family("class_rate_limit", theme="counting", registry=CLASS_FAMILIES)
def class_rate_limit(r: Random) -> Program:
    """Allows2Within10: at most k events in a stretch of time; times only rise."""
    k, width, counts_all = r.randint(1, 3), r.randint(4, 9), r.random() < 0.5
    name = f"Allows{k}Within{width}" + ("CountingRefused" if counts_all else "")
    old = r.choice(
        (
            f"self.xs = [x for x in self.xs if x > t - {width}]\n",
            f"while self.xs and self.xs[0] <= t - {width}:\n    self.xs.pop(0)\n",
            f"while len(self.xs) > 0 and t - self.xs[0] >= {width}:\n    self.xs = self.xs[1:]\n",
        )
    )
    allow = {
        True: (
            f"self.xs.append(t)\nif len(self.xs) > {k}:\n    self.n += 1\n    return False\nreturn True",
            f"self.xs = self.xs + [t]\nif len(self.xs) <= {k}:\n    return True\nself.n += 1\nreturn False",
        ),
        False: (
            f"if len(self.xs) >= {k}:\n    self.n += 1\n    return False\nself.xs.append(t)\nreturn True",
            f"if len(self.xs) < {k}:\n    self.xs.append(t)\n    return True\nself.n += 1\nreturn False",
        ),
    }[counts_all]
    methods = {
        "__init__(self)": "self.xs = []\nself.n = 0",
        "allow(self, t)": old + r.choice(allow),
        "refused(self)": "return self.n",
    }

    drawn_scripts = []
    for init, calls in scripts(
        r, nothing, {"allow": lambda r: (r.choice((0, 1, 1, 2, width - 1, width)),), "refused": nothing}, 3, 7
    ):
        times = iter(accumulate(args[0] for method, args in calls if method == "allow"))
        timed = tuple((method, (next(times),) if method == "allow" else ()) for method, _ in calls)
        drawn_scripts.append((init, timed))
    return Program(name, class_source(name, methods), _rate_limit_oracle(counts_all, k, width), drawn_scripts)


def _rate_limit_oracle(counts_all: bool, k: int, width: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.times: list[int] = []
            self.verdicts: list[bool] = []

        def allow(self, t: int) -> bool:
            near = [s for s in self.times if t - s < width]
            self.verdicts.append(len(near) < k)
            if counts_all or self.verdicts[-1]:
                self.times.append(t)
            return self.verdicts[-1]

        def refused(self) -> int:
            return self.verdicts.count(False)

    return Oracle
