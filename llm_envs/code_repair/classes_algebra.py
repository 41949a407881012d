"""Families of small classes that calculate: polynomials, matrices, walks in a square."""

from __future__ import annotations

from random import Random
from typing import Any

from llm_envs.code_repair.program import CLASS_FAMILIES, Program, class_source, family
from llm_envs.code_repair.scripts import nothing, scripts


@family("class_polynomial", theme="arithmetic", registry=CLASS_FAMILIES)
def class_polynomial(r: Random) -> Program:
    """PolynomialMod7: coefficients from the lowest power on; values modulo a number or plain."""
    k, times = r.choice((0, 0, 5, 7, 10)), r.randint(2, 5)
    name = f"Polynomial{f'Mod{k}' if k else ''}"
    rest = f" % {k}" if k else ""
    at = r.choice(
        (
            f"y = 0\nfor c in self.xs[::-1]:\n    y = y * x + c\nreturn y{rest}",
            f"y, k = (0, 1)\nfor c in self.xs:\n    y += c * k\n    k *= x\nreturn y{rest}",
        )
    )
    add = r.choice(
        (
            "while len(self.xs) <= i:\n    self.xs.append(0)\nself.xs[i] += x",
            "self.xs += [0] * (i + 1 - len(self.xs))\nself.xs[i] += x",
        )
    )
    degree = r.choice(
        (
            "n = 0\nfor i, x in enumerate(self.xs):\n    if x != 0:\n        n = i\nreturn n",
            "return max([i for i in range(len(self.xs)) if self.xs[i] != 0], default=0)",
        )
    )
    scale = r.choice(
        (
            f"self.xs = [x * {times} for x in self.xs]",
            f"for i in range(len(self.xs)):\n    self.xs[i] *= {times}",
        )
    )
    methods = {"__init__(self, xs)": "self.xs = xs[:]", "at(self, x)": at, "add(self, x, i)": add}
    third, body = r.choice((("degree", degree), (f"scale_by_{times}", scale)))
    methods[f"{third}(self)"] = body

    oracle = _polynomial_oracle(k)
    setattr(oracle, f"scale_by_{times}", lambda self: self.terms.extend(self.terms * (times - 1)))
    drawn: dict[str, Any] = {
        "add": lambda r: (r.choice((-1, 1, 2, 3)), r.randint(0, 3)),
        "at": lambda r: (r.randint(0, 3),),
        third: nothing,
    }
    init = lambda r: ([r.randint(0, 4) for _ in range(r.randint(1, 3))],)  # noqa: E731
    return Program(name, class_source(name, methods), oracle, scripts(r, init, drawn, 2, 5))


def _polynomial_oracle(k: int) -> type[Any]:
    class Oracle:
        def __init__(self, xs: list[int]) -> None:
            self.terms = list(enumerate(xs))

        def at(self, x: int) -> int:
            value = sum(c * x**i for i, c in self.terms)
            return value % k if k else value

        def add(self, x: int, i: int) -> None:
            self.terms.append((i, x))

        def degree(self) -> int:
            return max((i for i, _ in self.terms if sum(c for j, c in self.terms if j == i)), default=0)

    return Oracle


@family("class_matrix", theme="matrices", registry=CLASS_FAMILIES)
def class_matrix(r: Random) -> Program:
    """Matrix2By3: cells are set; rows, columns and the transposed whole are read."""
    rows, columns, fill = r.randint(2, 3), r.randint(2, 3), r.randint(0, 2)
    name = f"Matrix{rows}By{columns}" + f"Of{fill}s" * (fill > 0)
    made = r.choice(
        (
            f"self.xs = [[{fill}] * {columns} for i in range({rows})]",
            f"self.xs = []\nfor i in range({rows}):\n    self.xs.append([{fill}] * {columns})",
        )
    )
    column = r.choice(("return sum([y[j] for y in self.xs])", "n = 0\nfor y in self.xs:\n    n += y[j]\nreturn n"))
    flip = r.choice(
        (
            f"return [[self.xs[i][j] for i in range({rows})] for j in range({columns})]",
            f"out = []\nfor j in range({columns}):\n    out.append([y[j] for y in self.xs])\nreturn out",
        )
    )
    swap = r.choice(
        (
            "self.xs[i], self.xs[j] = (self.xs[j], self.xs[i])",
            "y = self.xs[i]\nself.xs[i] = self.xs[j]\nself.xs[j] = y",
        )
    )
    methods = {
        "__init__(self)": made,
        "put(self, i, j, x)": r.choice(("self.xs[i][j] = x", "y = self.xs[i]\ny[j] = x")),
        "row_sum(self, i)": r.choice(("return sum(self.xs[i])", "n = 0\nfor x in self.xs[i]:\n    n += x\nreturn n")),
        "column_sum(self, j)": column,
        "transposed(self)": flip,
        "swap_rows(self, i, j)": swap,
    }
    del methods[r.choice(("row_sum(self, i)", "transposed(self)"))]

    row, place = lambda r: (r.randrange(rows),), lambda r: (r.randrange(columns),)  # noqa: E731
    drawn: dict[str, Any] = {
        "put": lambda r: (*row(r), *place(r), r.randint(1, 9)),
        "swap_rows": lambda r: tuple(r.sample(range(rows), 2)),
        "column_sum": place,
    }
    drawn |= {"transposed": nothing} if "transposed(self)" in methods else {"row_sum": row}
    return Program(
        name, class_source(name, methods), _matrix_oracle(fill, rows, columns), scripts(r, nothing, drawn, 3, 6)
    )


def _matrix_oracle(fill: int, rows: int, columns: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.cells = {(i, j): fill for i in range(rows) for j in range(columns)}

        def put(self, i: int, j: int, x: int) -> None:
            self.cells[i, j] = x

        def row_sum(self, i: int) -> int:
            return sum(x for (row, _), x in self.cells.items() if row == i)

        def column_sum(self, j: int) -> int:
            return sum(x for (_, column), x in self.cells.items() if column == j)

        def transposed(self) -> list[list[int]]:
            return [[self.cells[i, j] for i in range(rows)] for j in range(columns)]

        def swap_rows(self, i: int, j: int) -> None:
            for column in range(columns):
                self.cells[i, column], self.cells[j, column] = self.cells[j, column], self.cells[i, column]

    return Oracle


@family("class_walker", theme="arithmetic", registry=CLASS_FAMILIES)
def class_walker(r: Random) -> Program:
    """WalkerInside5StartsEast: a point that turns and walks and stays in a square."""
    k, start, leftward = r.randint(3, 5), r.randrange(4), r.random() < 0.5
    name = f"WalkerWithin{k}Starts{('East', 'North', 'West', 'South')[start]}"
    turn = r.choice(
        (f"self.k = (self.k {'+' if leftward else '-'} 1) % 4", f"self.k = (self.k + {1 if leftward else 3}) % 4")
    )
    inside = r.choice((f"max(-{k}, min({k}, {{}}))", f"min(max({{}}, -{k}), {k})"))
    walk = r.choice(
        (
            "if self.k % 2 == 0:\n"
            f"    self.x = {inside.format('self.x + n * (1 - self.k)')}\n"
            f"else:\n    self.y = {inside.format('self.y + n * (2 - self.k)')}",
            "if self.k in (2, 3):\n    n = 0 - n\nif self.k in (0, 2):\n"
            f"    self.x = {inside.format('self.x + n')}\nelse:\n    self.y = {inside.format('self.y + n')}",
        )
    )
    far = r.choice(("return abs(self.x) + abs(self.y)", "return max(abs(self.x), abs(self.y))"))
    asked = "steps_home" if "+" in far else "farthest"
    verb = f"turn_{'left' if leftward else 'right'}"
    methods = {
        "__init__(self)": f"self.x = 0\nself.y = 0\nself.k = {start}",
        f"{verb}(self)": turn,
        "walk(self, n)": walk,
        "place(self)": "return [self.x, self.y]",
        f"{asked}(self)": far,
    }

    oracle = _walker_oracle(start, k)

    def turned(self: Any) -> None:
        self.towards *= 1j if leftward else -1j

    setattr(oracle, verb, turned)
    drawn = {"walk": lambda r: (r.randint(1, k + 1),), verb: nothing, "place": nothing, asked: nothing}
    return Program(name, class_source(name, methods), oracle, scripts(r, nothing, drawn, 3, 7))


def _walker_oracle(start: int, k: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.at, self.towards = 0j, 1j**start

        def walk(self, n: int) -> None:
            for _ in range(n):
                there = self.at + self.towards
                if max(abs(there.real), abs(there.imag)) <= k:
                    self.at = there

        def place(self) -> list[int]:
            return [round(self.at.real), round(self.at.imag)]

        def steps_home(self) -> int:
            return sum(map(abs, self.place()))

        def farthest(self) -> int:
            return max(map(abs, self.place()))

    return Oracle
