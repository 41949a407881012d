"""Scripts: how a class is tried out. A script is the arguments of the constructor and a list of method calls.

((3,), (("push", (5,)), ("pop", ()), ("pop", ())))          the script
o = Stack(3); o.push(5); o.pop(); o.pop() == None not 0     a failing one in a prompt, up to the first wrong call
{"init": [3], "calls": [{"method": "push", "args": [5], "expected": None}, ...]}      a hidden test
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

Call = tuple[str, tuple[Any, ...]]
Script = tuple[tuple[Any, ...], tuple[Call, ...]]

_COUNT = 20  # scripts drawn; `Family.draw` keeps the first MAX_INPUTS distinct ones


def is_class(source: str) -> bool:
    """Whether a program is a class, whose inputs are scripts."""
    return source.startswith("class ")


def play(made: Callable[..., Any], script: Script) -> list[Any]:
    """The values of all calls on a fresh object; for oracles, which we trust."""
    init, calls = script
    it = made(*init)
    return [getattr(it, method)(*args) for method, args in calls]


def digit(r: Random) -> tuple[int]:
    """The arguments of a call: one small number."""
    return (r.randint(1, 9),)


def nothing(r: Random) -> tuple[()]:
    """No arguments."""
    return ()


def scripts(
    rng: Random,
    init: Callable[[Random], tuple[Any, ...]],
    methods: Mapping[str, Callable[[Random], tuple[Any, ...]]],
    shortest: int = 3,
    longest: int = 7,
) -> list[Script]:
    """Random scripts.

    Args:
        rng: where they are drawn from.
        init: draws the arguments of the constructor.
        methods: for each method how its arguments are drawn; the first ones come more often and open every script.
        shortest, longest: number of calls.
    """
    names = list(methods)
    weights = [len(names) - place for place in range(len(names))]
    drawn = []
    for number in range(_COUNT):
        length = shortest + number * (longest - shortest) // (_COUNT - 1)
        chosen = [names[0], *rng.choices(names, weights, k=length - 1)]
        # The last call asks something: every method comes last once in a while.
        chosen[-1] = names[number % len(names)]
        drawn.append((init(rng), tuple((name, methods[name](rng)) for name in chosen)))
    return drawn


def cut(script: Script, expected: Sequence[Any], first_wrong: int) -> tuple[Script, Any]:
    """The script up to its first wrong call, and what that call should give."""
    init, calls = script
    return (init, calls[: first_wrong + 1]), expected[first_wrong]


def call_text(entry: str, args: Sequence[Any]) -> str:
    """A call as Python writes it."""
    return f"{entry}({', '.join(map(repr, args))})"


def script_text(entry: str, script: Script) -> str:
    """A script as Python writes it, on one line."""
    init, calls = script
    steps = [call_text(f"o.{method}", args) for method, args in calls]
    return "; ".join([f"o = {call_text(entry, init)}", *steps])


def as_test(script: Script, expected: Sequence[Any]) -> dict[str, Any]:
    """The script as `verifiers.FunctionTests` takes it."""
    init, calls = script
    steps = [
        {"method": method, "args": list(args), "expected": value}
        for (method, args), value in zip(calls, expected, strict=True)
    ]
    return {"init": list(init), "calls": steps}


def of_test(test: Mapping[str, Any]) -> tuple[Script, list[Any]]:
    """The inverse of `as_test`: the script and the values it must give."""
    calls = test["calls"]
    return (tuple(test["init"]), tuple((c["method"], tuple(c["args"])) for c in calls)), [c["expected"] for c in calls]
