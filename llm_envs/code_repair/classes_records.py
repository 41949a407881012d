"""Families of small classes that keep records: an inventory, a text, a score, a history."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from llm_envs.code_repair.program import CLASS_FAMILIES, Program, class_source, family
from llm_envs.code_repair.scripts import digit, nothing, scripts


@family("class_inventory", theme="dicts", registry=CLASS_FAMILIES)
def class_inventory(r: Random) -> Program:
    """InventoryLowBelow3: things are added and taken; which of them run low."""
    k, all_or_none, start = r.randint(2, 4), r.random() < 0.5, r.randint(0, 2)
    name = f"InventoryLowBelow{k}{'TakesAllOrNone' if all_or_none else 'TakesWhatIsThere'}" + f"New{start}" * (
        start > 0
    )
    add = r.choice(
        (
            f"self.d[a] = self.d.get(a, {start}) + x\nreturn self.d[a]",
            f"if a not in self.d:\n    self.d[a] = {start}\nself.d[a] += x\nreturn self.d[a]",
        )
    )
    take = {
        True: (
            "if self.d.get(a, 0) < x:\n    return 0\nself.d[a] -= x\nreturn x",
            "if a in self.d and self.d[a] >= x:\n    self.d[a] -= x\n    return x\nreturn 0",
        ),
        False: (
            "n = min(x, self.d.get(a, 0))\nif n > 0:\n    self.d[a] -= n\nreturn n",
            "if a not in self.d:\n    return 0\nx = min(x, self.d[a])\nself.d[a] -= x\nreturn x",
        ),
    }[all_or_none]
    low = r.choice(
        (
            f"return [a for a in sorted(self.d) if self.d[a] < {k}]",
            f"out = []\nfor a in self.d:\n    if self.d[a] < {k}:\n        out.append(a)\nreturn sorted(out)",
        )
    )
    methods = {
        "__init__(self)": "self.d = {}",
        "add(self, a, x)": add,
        "take(self, a, x)": r.choice(take),
        "low(self)": low,
    }

    some = lambda r: (r.choice("ab"), r.randint(1, k + 1))  # noqa: E731
    return Program(
        name,
        class_source(name, methods),
        _inventory_oracle(start, all_or_none, k),
        scripts(r, nothing, {"add": some, "take": some, "low": nothing}, 3, 6),
    )


def _inventory_oracle(start: int, all_or_none: bool, k: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.things: Counter[str] = Counter()

        def add(self, a: str, x: int) -> int:
            self.things.update({a: x if a in self.things else x + start})
            return self.things[a]

        def take(self, a: str, x: int) -> int:
            there = max(0, self.things[a])
            given = (x if there >= x else 0) if all_or_none else sorted((x, there))[0]
            self.things.subtract({a: given} if given else {})
            return given

        def low(self) -> list[str]:
            return sorted({a for a, n in self.things.items() if n not in range(k, 999)})

    return Oracle


@family("class_text_buffer", theme="text", registry=CLASS_FAMILIES)
def class_text_buffer(r: Random) -> Program:
    """TextBufferMax8: text with a cursor."""
    k, keeps = r.randint(5, 8), r.random() < 0.5
    name = f"TextBufferMax{k}{'CutsEnd' if keeps else 'Refuses'}"
    write = {
        True: (
            f"self.s = (self.s[:self.i] + x + self.s[self.i:])[:{k}]\nself.i = min(self.i + len(x), {k})",
            f"self.s = self.s[:self.i] + x + self.s[self.i:]\nself.i = min(self.i + len(x), {k})\n"
            f"if len(self.s) > {k}:\n    self.s = self.s[:{k}]",
        ),
        False: (
            f"if len(self.s) + len(x) <= {k}:\n    self.s = self.s[:self.i] + x + self.s[self.i:]\n"
            "    self.i += len(x)",
            f"if len(self.s) + len(x) > {k}:\n    return\nself.s = self.s[:self.i] + x + self.s[self.i:]\n"
            "self.i += len(x)",
        ),
    }[keeps]
    delete = r.choice(
        (
            "i = max(self.i - n, 0)\nself.s = self.s[:i] + self.s[self.i:]\nself.i = i",
            "n = min(n, self.i)\nself.s = self.s[:self.i - n] + self.s[self.i:]\nself.i -= n",
        )
    )
    move = r.choice(
        (
            "self.i = max(0, min(self.i + n, len(self.s)))\nreturn self.i",
            "self.i = min(max(self.i + n, 0), len(self.s))\nreturn self.i",
            "self.i += n\nself.i = max(0, min(self.i, len(self.s)))\nreturn self.i",
        )
    )
    methods = {
        "__init__(self)": "self.s = ''\nself.i = 0",
        "write(self, x)": r.choice(write),
        "delete(self, n)": delete,
        "move(self, n)": move,
    }
    marked = r.random() < 0.5
    asked = "with_cursor" if marked else "text"
    methods[f"{asked}(self)"] = "return self.s[:self.i] + '|' + self.s[self.i:]" if marked else "return self.s"

    drawn: dict[str, Any] = {
        "write": lambda r: ("".join(r.choice("abcxyz") for _ in range(r.randint(1, 4))),),
        asked: nothing,
        "move": lambda r: (r.choice((-2, -1, 1, -3)),),
        "delete": lambda r: (r.randint(1, 3),),
    }
    return Program(name, class_source(name, methods), _text_buffer_oracle(keeps, k), scripts(r, nothing, drawn, 3, 7))


def _text_buffer_oracle(keeps: bool, k: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.before: list[str] = []
            self.after: list[str] = []

        def write(self, x: str) -> None:
            if keeps or len(self.before) + len(x) + len(self.after) <= k:
                self.before.extend(x)
                self.after = self.after[: max(0, k - len(self.before))]
                del self.before[k:]

        def delete(self, n: int) -> None:
            for _ in range(n):
                self.before = self.before[:-1]

        def move(self, n: int) -> int:
            for _ in range(abs(n)):
                if n > 0 and self.after:
                    self.before.append(self.after.pop(0))
                if n < 0 and self.before:
                    self.after.insert(0, self.before.pop())
            return len(self.before)

        def text(self) -> str:
            return "".join(self.before + self.after)

        def with_cursor(self) -> str:
            return "|".join(("".join(self.before), "".join(self.after)))

    return Oracle


@family("class_scoreboard", theme="dicts", registry=CLASS_FAMILIES)
def class_scoreboard(r: Random) -> Program:
    """ScoreboardBonus2From6: points by name, more of them for a good turn."""
    bonus, t, best = r.randint(1, 4), r.randint(4, 8), r.random() < 0.5
    name = f"{'BestTurn' if best else 'Total'}ScoreboardBonus{bonus}From{t}"
    gain = f"if x >= {t}:\n    x += {bonus}\n"
    gain = r.choice((gain, f"x = x + {bonus} if x >= {t} else x\n"))
    keep = {
        True: ("self.d[a] = max(self.d.get(a, 0), x)", "if x > self.d.get(a, 0):\n    self.d[a] = x"),
        False: ("self.d[a] = self.d.get(a, 0) + x", "if a in self.d:\n    x += self.d[a]\nself.d[a] = x"),
    }[best]
    leader = r.choice(
        (
            "y = ''\nfor a in sorted(self.d):\n    if y == '' or self.d[a] > self.d[y]:\n        y = a\nreturn y",
            "k = max(self.d.values(), default=0)\nreturn min([a for a in self.d if self.d[a] == k], default='')",
        )
    )
    methods = {
        "__init__(self)": "self.d = {}",
        "turn(self, a, x)": gain + r.choice(keep),
        "leader(self)": leader,
        "points(self, a)": r.choice(("return self.d.get(a, 0)", "return self.d[a] if a in self.d else 0")),
    }

    letter = lambda r: (r.choice("abc"),)  # noqa: E731
    drawn: dict[str, Any] = {"turn": lambda r: (*letter(r), r.choice((t - 1, t, t + 1, 1, 2)))}
    drawn |= {"leader": nothing, "points": letter}
    return Program(
        name, class_source(name, methods), _scoreboard_oracle(bonus, t, best), scripts(r, nothing, drawn, 3, 7)
    )


def _scoreboard_oracle(bonus: int, t: int, best: bool) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.turns: list[tuple[str, int]] = []

        def turn(self, a: str, x: int) -> None:
            self.turns.append((a, x + bonus * (x > t - 1)))

        def points(self, a: str) -> int:
            own = [x for name, x in self.turns if name == a]
            return max([0, *own]) if best else sum(own)

        def leader(self) -> str:
            ranked = sorted((-self.points(a), a) for a, _ in self.turns)
            return ranked[0][1] if ranked else ""

    return Oracle


@family("class_history", theme="sequences", registry=CLASS_FAMILIES)
def class_history(r: Random) -> Program:
    """HistoryOf3: values with undo, perhaps redo."""
    k, start, redo = r.randint(2, 4), r.randint(0, 2), r.random() < 0.5
    name = f"HistoryOf{k}From{start}"
    forget = r.choice((f"if len(self.xs) > {k}:\n    self.xs.pop(0)", f"self.xs = self.xs[-{k}:]"))
    push = r.choice(("self.xs.append(self.n)\n", "self.xs = self.xs + [self.n]\n"))
    undo = r.choice(
        (
            "if not self.xs:\n    return False\n{}self.n = self.xs.pop()\nreturn True",
            "if len(self.xs) == 0:\n    return False\n{}self.n = self.xs[-1]\nself.xs = self.xs[:-1]\nreturn True",
        )
    ).format("self.ys.append(self.n)\n" if redo else "")
    methods = {
        "__init__(self)": f"self.n = {start}\nself.xs = []" + "\nself.ys = []" * redo,
        "change(self, x)": push + "self.n = x\n" + "self.ys = []\n" * redo + forget,
        "undo(self)": undo,
        "value(self)": "return self.n",
    }
    if redo:
        methods["redo(self)"] = "if self.ys:\n    self.xs.append(self.n)\n    self.n = self.ys.pop()\nreturn self.n"
    else:
        methods["steps(self)"] = "return len(self.xs)"

    drawn = {"change": digit, "undo": nothing, "value": nothing, "redo" if redo else "steps": nothing}
    return Program(name, class_source(name, methods), _history_oracle(start, k), scripts(r, nothing, drawn, 3, 8))


def _history_oracle(start: int, k: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.line, self.at = [start], 0  # all values, and which of them counts

        def change(self, x: int) -> None:
            self.line = [*self.line[: self.at + 1], x][-k - 1 :]
            self.at = len(self.line) - 1

        def undo(self) -> bool:
            self.at -= 1
            if self.at < 0:
                self.at = 0
                return False
            return True

        def redo(self) -> int:
            self.at = min(self.at + 1, len(self.line) - 1)
            return self.line[self.at]

        def value(self) -> int:
            return self.line[self.at]

        def steps(self) -> int:
            return self.at

    return Oracle
