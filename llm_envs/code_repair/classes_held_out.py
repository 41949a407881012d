"""Families of small classes that make up the split `test`: unions of intervals, clocks, groups."""

from __future__ import annotations

from random import Random
from typing import Any

from llm_envs.code_repair.program import CLASS_FAMILIES, Program, class_source, family
from llm_envs.code_repair.scripts import nothing, scripts


@family("class_intervals", theme="intervals", held_out=True, registry=CLASS_FAMILIES)
def class_intervals(r: Random) -> Program:
    """ClosedIntervals, HalfOpenIntervals: a union of intervals, kept apart and in order."""
    closed, gap = r.random() < 0.5, r.randint(0, 3)
    name = f"{'Closed' if closed else 'HalfOpen'}IntervalsMergedUpToGap{gap}"
    near = f" + {gap}" if gap else ""
    add = r.choice(
        (
            f"out = []\nfor a, b in self.xs:\n    if b{near} < x or y{near} < a:\n        out.append([a, b])\n"
            "    else:\n        x, y = (min(a, x), max(b, y))\nself.xs = sorted(out + [[x, y]])",
            f"out = []\nfor a in sorted(self.xs + [[x, y]]):\n    if out and a[0] <= out[-1][1]{near}:\n"
            "        out[-1][1] = max(out[-1][1], a[1])\n    else:\n        out.append(a)\nself.xs = out",
        )
    )
    op = "<=" if closed else "<"
    covers = r.choice(
        (
            f"return any([a <= x {op} b for a, b in self.xs])",
            f"for a, b in self.xs:\n    if a <= x and x {op} b:\n        return True\nreturn False",
        )
    )
    more = " + 1" if closed else ""
    size = r.choice(
        (
            f"return sum([b - a{more} for a, b in self.xs])",
            f"n = 0\nfor a, b in self.xs:\n    n += b - a{more}\nreturn n",
        )
    )
    asked = r.choice(("size", "pieces", "gaps"))
    gaps = "return [self.xs[i + 1][0] - self.xs[i][1] for i in range(len(self.xs) - 1)]"
    methods = {
        "__init__(self)": "self.xs = []",
        "add(self, x, y)": add,
        "covers(self, x)": covers,
        f"{asked}(self)": {"size": size, "pieces": "return len(self.xs)", "gaps": gaps}[asked],
    }

    def stretch(r: Random) -> tuple[int, int]:
        x = r.randint(0, 12)
        return x, x + r.randint(1, 4)

    drawn: dict[str, Any] = {"add": stretch, "covers": lambda r: (r.randint(0, 14),), asked: nothing}
    return Program(name, class_source(name, methods), _intervals_oracle(gap, closed), scripts(r, nothing, drawn, 3, 6))


def _intervals_oracle(gap: int, closed: bool) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.halves: set[int] = set()  # twice the numbers, so that what lies between two of them counts

        def add(self, x: int, y: int) -> None:
            self.halves |= set(range(2 * x, 2 * y + 1))
            ends = sorted(self.halves)
            for a, b in zip(ends, ends[1:], strict=False):
                if b - a <= 2 * gap:
                    self.halves |= set(range(a, b))

        def runs(self) -> list[list[int]]:
            starts = sorted(x for x in self.halves if x - 1 not in self.halves)
            return [[a, next(b for b in range(a, 999) if b + 1 not in self.halves)] for a in starts]

        def covers(self, x: int) -> bool:
            return 2 * x in self.halves and (closed or 2 * x + 1 in self.halves)

        def size(self) -> int:
            return sum((b - a) // 2 + closed for a, b in self.runs())

        def pieces(self) -> int:
            return len(self.runs())

        def gaps(self) -> list[int]:
            runs = self.runs()
            return [(after[0] - before[1]) // 2 for before, after in zip(runs, runs[1:], strict=False)]

    return Oracle


@family("class_clock", theme="arithmetic", held_out=True, registry=CLASS_FAMILIES)
def class_clock(r: Random) -> Program:
    """ClockOf12Hours: minutes pass, an alarm rings."""
    hours, step = r.choice((12, 24)), r.choice((5, 10, 15))
    name = f"ClockOf{hours}HoursSnooze{step}"
    forward = r.choice(
        (
            f"self.n = (self.n + x) % {hours * 60}",
            f"self.n += x\nwhile self.n >= {hours * 60}:\n    self.n -= {hours * 60}",
        )
    )
    show = r.choice(("return [self.n // 60, self.n % 60]", "x, y = divmod(self.n, 60)\nreturn [x, y]"))
    until = r.choice(
        (
            f"return (self.t - self.n) % {hours * 60}",
            f"x = self.t - self.n\nreturn x if x >= 0 else x + {hours * 60}",
        )
    )
    snooze = r.choice(
        (
            f"self.t = (self.n + {step}) % {hours * 60}\nself.k += 1",
            f"self.t = self.n + {step}\nself.k += 1\nif self.t >= {hours * 60}:\n    self.t -= {hours * 60}",
        )
    )
    asked = r.choice(("until_alarm", "snoozes"))
    methods = {
        "__init__(self, x, y)": r.choice(("self.n = x * 60 + y\n", "self.n = 60 * x + y\n")) + "self.t = 0\nself.k = 0",
        "pass_minutes(self, x)": forward,
        "show(self)": show,
        "snooze(self)": snooze,
        "until_alarm(self)": until,
        "snoozes(self)": "return self.k",
    }
    del methods[f"{asked}(self)"]
    told = ({"until_alarm", "snoozes"} - {asked}).pop()

    init = lambda r: (r.choice((0, 1, hours - 1)), r.choice((0, 5, 30, 50, 55)))  # noqa: E731
    drawn: dict[str, Any] = {"show": nothing, "pass_minutes": lambda r: (r.choice((5, 10, 30, 60, 65, 90)),)}
    drawn |= {told: nothing, "snooze": nothing}
    return Program(name, class_source(name, methods), _clock_oracle(hours, step), scripts(r, init, drawn, 3, 6))


def _clock_oracle(hours: int, step: int) -> type[Any]:
    class Oracle:
        def __init__(self, x: int, y: int) -> None:
            self.hour, self.minute, self.naps = x, y, 0
            self.alarm = (0, 0)

        def pass_minutes(self, x: int) -> None:
            for _ in range(x):
                self.minute += 1
                if self.minute == 60:
                    self.hour, self.minute = (self.hour + 1) % hours, 0

        def show(self) -> list[int]:
            return [self.hour, self.minute]

        def snooze(self) -> None:
            now = self.hour, self.minute
            self.pass_minutes(step)
            self.alarm = self.hour, self.minute
            (self.hour, self.minute), self.naps = now, self.naps + 1

        def until_alarm(self) -> int:
            hour, minute = self.alarm
            return ((hour - self.hour) * 60 + minute - self.minute) % (hours * 60)

        def snoozes(self) -> int:
            return self.naps

    return Oracle


@family("class_groups", theme="searching", held_out=True, registry=CLASS_FAMILIES)
def class_groups(r: Random) -> Program:
    """GroupsOf5: numbers from 0 below n that get joined."""
    n, least = r.randint(4, 7), r.random() < 0.5
    name = f"GroupsOf{n}Lead{'Smallest' if least else 'Largest'}"
    best = "min" if least else "max"
    join = r.choice(
        (
            f"x, y = (self.xs[x], self.xs[y])\nk = {best}(x, y)\nself.xs = [k if a in (x, y) else a for a in self.xs]",
            "a, b = (self.xs[x], self.xs[y])\nfor i in range(len(self.xs)):\n"
            f"    if self.xs[i] == a or self.xs[i] == b:\n        self.xs[i] = {best}(a, b)",
        )
    )
    size = r.choice(
        (
            "return self.xs.count(self.xs[x])",
            "n = 0\nfor y in self.xs:\n    if y == self.xs[x]:\n        n += 1\nreturn n",
        )
    )
    groups = r.choice(
        (
            "return len([i for i in range(len(self.xs)) if self.xs[i] == i])",
            "n = 0\nfor i, x in enumerate(self.xs):\n    if x == i:\n        n += 1\nreturn n",
        )
    )
    asked = r.choice(("size", "groups", "lead"))
    methods = {
        "__init__(self)": r.choice((f"self.xs = list(range({n}))", f"self.xs = [i for i in range({n})]")),
        "join(self, x, y)": join,
        "joined(self, x, y)": "return self.xs[x] == self.xs[y]",
        "size(self, x)": size,
        "groups(self)": groups,
        "lead(self, x)": "return self.xs[x]",
    }
    methods = {head: body for head, body in methods.items() if not head.startswith(asked)}

    one, two = lambda r: (r.randrange(n),), lambda r: tuple(r.sample(range(n), 2))  # noqa: E731
    drawn: dict[str, Any] = {"join": two, "joined": two, "size": one, "groups": nothing, "lead": one}
    del drawn[asked]
    return Program(name, class_source(name, methods), _groups_oracle(n, least), scripts(r, nothing, drawn, 3, 7))


def _groups_oracle(n: int, least: bool) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.parts = [{x} for x in range(n)]

        def part(self, x: int) -> set[int]:
            return next(part for part in self.parts if x in part)

        def join(self, x: int, y: int) -> None:
            both = self.part(x) | self.part(y)
            self.parts = [part for part in self.parts if not part & both] + [both]

        def joined(self, x: int, y: int) -> bool:
            return y in self.part(x)

        def size(self, x: int) -> int:
            return len(self.part(x))

        def groups(self) -> int:
            return len(self.parts)

        def lead(self, x: int) -> int:
            return sorted(self.part(x))[0 if least else -1]

    return Oracle
