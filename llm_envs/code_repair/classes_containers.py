"""Families of small classes that hold things in an order: stacks, queues, caches.

Each recipe writes its methods in one of several styles; the oracle is a class of the same methods over other data.
"""

from __future__ import annotations

from collections import OrderedDict
from random import Random
from typing import Any

from llm_envs.code_repair.program import CLASS_FAMILIES, Program, class_source, family
from llm_envs.code_repair.scripts import digit, nothing, scripts


@family("class_stack", theme="stacks", registry=CLASS_FAMILIES)
def class_stack(r: Random) -> Program:
    """Stack3DropsOldest: at most k things; what an empty one gives is in the name, too."""
    k, drops, empty = r.randint(2, 4), r.random() < 0.5, r.choice((0, -1, None))
    name = f"Stack{k}{'DropsOldest' if drops else 'Refuses'}Else{str(empty).replace('-', 'Minus')}"
    push = {
        True: (
            f"self.xs.append(x)\nif len(self.xs) > {k}:\n    self.xs.pop(0)\nreturn len(self.xs)",
            f"self.xs = (self.xs + [x])[-{k}:]\nreturn len(self.xs)",
        ),
        False: (
            f"if len(self.xs) < {k}:\n    self.xs.append(x)\nreturn len(self.xs)",
            f"n = len(self.xs)\nif n >= {k}:\n    return n\nself.xs.append(x)\nreturn n + 1",
        ),
    }[drops]
    pop = (
        f"return self.xs.pop() if self.xs else {empty}",
        f"if not self.xs:\n    return {empty}\nreturn self.xs.pop()",
    )
    asked = r.choice(("total", "largest"))
    methods = {
        "__init__(self)": "self.xs = []",
        "push(self, x)": r.choice(push),
        "pop(self)": r.choice(pop),
        "top(self)": f"return self.xs[-1] if len(self.xs) > 0 else {empty}",
        f"{asked}(self)": "return sum(self.xs)" if asked == "total" else "return max(self.xs, default=0)",
    }

    drawn = {"push": digit, "pop": nothing, "top": nothing, asked: nothing}
    return Program(name, class_source(name, methods), _stack_oracle(drops, k, empty), scripts(r, nothing, drawn, 3, 8))


def _stack_oracle(drops: bool, k: int, empty: int | None) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.newest_first: tuple[int, ...] = ()

        def push(self, x: int) -> int:
            if drops or len(self.newest_first) != k:
                self.newest_first = (x, *self.newest_first)[:k]
            return len(self.newest_first)

        def pop(self) -> int | None:
            if not self.newest_first:
                return empty
            first, *rest = self.newest_first
            self.newest_first = tuple(rest)
            return first

        def top(self) -> int | None:
            return next(iter(self.newest_first), empty)

        def total(self) -> int:
            return sum(self.newest_first)

        def largest(self) -> int:
            return max((0, *self.newest_first))

    return Oracle


@family("class_queue", theme="queues", registry=CLASS_FAMILIES)
def class_queue(r: Random) -> Program:
    """QueueUrgentFrom7: numbers from k on jump the queue."""
    k, last = r.randint(4, 7), r.choice((0, -1))
    name = f"QueueUrgentFrom{k}Else{'0' if last == 0 else 'Minus1'}"
    put = r.choice(
        (
            f"if x >= {k}:\n    self.xs.insert(0, x)\nelse:\n    self.xs.append(x)",
            f"self.xs = [x] + self.xs if x >= {k} else self.xs + [x]",
        )
    )
    get = r.choice(
        (
            f"if len(self.xs) == 0:\n    return {last}\nself.n += 1\nreturn self.xs.pop(0)",
            f"if self.xs:\n    self.n += 1\n    return self.xs.pop(0)\nreturn {last}",
        )
    )
    asked = r.choice(("waiting", "urgent"))
    count = r.choice((f"return len([x for x in self.xs if x >= {k}])", f"return sum([x >= {k} for x in self.xs])"))
    methods = {
        "__init__(self)": "self.xs = []\nself.n = 0",
        "put(self, x)": put,
        "get(self)": get,
        "served(self)": "return self.n",
        f"{asked}(self)": "return len(self.xs)" if asked == "waiting" else count,
    }

    near = lambda r: (r.choice((k - 1, k, k + 1, k - 2)),)  # noqa: E731
    drawn = {"put": near, "get": nothing, asked: nothing, "served": nothing}
    return Program(name, class_source(name, methods), _queue_oracle(k, last), scripts(r, nothing, drawn, 3, 8))


def _queue_oracle(k: int, last: int) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.line: list[int] = []
            self.gone = 0

        def put(self, x: int) -> None:
            self.line[len(self.line) if x < k else 0 : 0] = [x]

        def get(self) -> int:
            self.gone += bool(self.line)
            first, self.line = (self.line or [last])[0], self.line[1:]
            return first

        def served(self) -> int:
            return self.gone

        def waiting(self) -> int:
            return len(self.line)

        def urgent(self) -> int:
            return len(self.line) - sum(x < k for x in self.line)

    return Oracle


@family("class_priority_queue", theme="queues", registry=CLASS_FAMILIES)
def class_priority_queue(r: Random) -> Program:
    """SmallestFirst, LargestFirstKeeps3: a list kept in order."""
    big, k = r.random() < 0.5, r.randint(2, 5)
    name = f"{'Largest' if big else 'Smallest'}FirstKeeps{k}"
    op = ">" if big else "<"
    reverse = ", reverse=True" if big else ""
    add = r.choice(
        (
            f"i = 0\nwhile i < len(self.xs) and (not self.xs[i] {'<' if big else '>'} x):\n    i += 1\n"
            f"self.xs = (self.xs[:i] + [x] + self.xs[i:])[:{k}]",
            f"self.xs.append(x)\nself.xs.sort({reverse[2:]})\nif len(self.xs) > {k}:\n    self.xs.pop()",
            f"self.xs = sorted(self.xs + [x]{reverse})[:{k}]",
        )
    )
    before = r.choice(
        (
            f"n = 0\nfor y in self.xs:\n    if y {op} x:\n        n += 1\nreturn n",
            f"return len([y for y in self.xs if y {op} x])",
        )
    )
    take = r.choice(
        ("return self.xs.pop(0) if self.xs else -1", "if not self.xs:\n    return -1\nreturn self.xs.pop(0)")
    )
    methods = {"__init__(self)": "self.xs = []", "add(self, x)": add, "take(self)": take, "before(self, x)": before}
    methods |= {"size(self)": "return len(self.xs)"} if r.random() < 0.5 else {"all(self)": "return self.xs[:]"}
    asked = "size" if "size(self)" in methods else "all"

    drawn = {"add": digit, "take": nothing, "before": digit, asked: nothing}
    return Program(name, class_source(name, methods), _priority_queue_oracle(k, big), scripts(r, nothing, drawn, 3, 8))


def _priority_queue_oracle(k: int, big: bool) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.held: list[int] = []

        def add(self, x: int) -> None:
            self.held.append(x)
            if len(self.held) > k:
                self.held.remove(min(self.held) if big else max(self.held))

        def take(self) -> int:
            best = (max if big else min)(self.held, default=-1)
            if self.held:
                self.held.remove(best)
            return best

        def before(self, x: int) -> int:
            return sum((y - x) * (1 if big else -1) > 0 for y in self.held)

        def size(self) -> int:
            return len(self.held)

        def all(self) -> list[int]:
            return sorted(self.held)[:: -1 if big else 1]

    return Oracle


@family("class_cache", theme="caches", registry=CLASS_FAMILIES)
def class_cache(r: Random) -> Program:
    """Cache2LeastRecent, Cache3Oldest: a dict of at most k keys and what it forgets first."""
    k, recent, missing = r.randint(2, 3), r.random() < 0.6, r.choice((-1, 0, None))
    name = f"Cache{k}Forgets{'LeastRecent' if recent else 'Oldest'}Else{str(missing).replace('-', 'Minus')}"
    full = r.choice((f"if len(self.d) > {k}:\n    del self.d[list(self.d)[0]]",))
    full = r.choice((full, f"while len(self.d) > {k}:\n    self.d.pop(list(self.d)[0])"))
    put = r.choice(("self.d.pop(a, None)\nself.d[a] = x\n", "if a in self.d:\n    del self.d[a]\nself.d[a] = x\n"))
    get = {
        True: (
            f"if a not in self.d:\n    return {missing}\nx = self.d.pop(a)\nself.d[a] = x\nreturn x",
            f"if a in self.d:\n    self.d[a] = self.d.pop(a)\n    return self.d[a]\nreturn {missing}",
        ),
        False: (f"return self.d[a] if a in self.d else {missing}", f"return self.d.get(a, {missing})"),
    }[recent]
    asked = r.choice(("keys", "total", "size"))
    show = {"keys": "list(self.d)", "total": "sum(self.d.values())", "size": "len(self.d)"}[asked]
    methods = {
        "__init__(self)": "self.d = {}",
        "put(self, a, x)": put + full,
        "get(self, a)": r.choice(get),
        f"{asked}(self)": f"return {show}",
    }

    letter = lambda r: (r.choice("abcd"[: k + 1]),)  # noqa: E731
    drawn: dict[str, Any] = {"put": lambda r: (*letter(r), r.randint(1, 9)), "get": letter, asked: nothing}
    return Program(
        name, class_source(name, methods), _cache_oracle(k, recent, missing), scripts(r, nothing, drawn, 4, 8)
    )


def _cache_oracle(k: int, recent: bool, missing: int | None) -> type[Any]:
    class Oracle:
        def __init__(self) -> None:
            self.held: OrderedDict[str, int] = OrderedDict()

        def put(self, a: str, x: int) -> None:
            self.held |= {a: x}
            self.held.move_to_end(a)
            if len(self.held) == k + 1:
                self.held.popitem(last=False)

        def get(self, a: str) -> int | None:
            if recent and a in self.held:
                self.held.move_to_end(a)
            return dict(self.held).get(a, missing)

        def keys(self) -> list[str]:
            return [*self.held]

        def total(self) -> int:
            return sum(map(self.held.__getitem__, self.held))

        def size(self) -> int:
            return len([*self.held])

    return Oracle
