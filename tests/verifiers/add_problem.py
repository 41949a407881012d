"""One small problem, a right and a wrong answer to it."""

from __future__ import annotations

from verifiers import Example

ADD = Example(
    id="add",
    prompt="Write add(a, b).",
    hidden={
        "entry": "add",
        "tests": [
            {"args": [1, 2], "expected": 3},
            {"args": [0, 0], "expected": 0},
            {"args": [-3, 5], "expected": 2},
            {"args": [10, -4], "expected": 6},
        ],
    },
)
CORRECT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
