"""Episodes of every registered id: messages of any script, and the same episode in another process."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from test_registered import IDS

MESSAGE = "né 日本 🙂\0\u2028\ud800"
ROOT = Path(__file__).parents[2]
CODE = "import conftest, json, test_every_id as test; print(json.dumps({id: test.digest(id) for id in test.IDS}))"


def digest(id: str) -> str:
    """Plays some steps; every observation and action must lie in its space. A hash of all that was answered."""
    env: Any = gym.make(id)
    actions: list[Any] = [MESSAGE] * 3
    if "Text-v" not in id:
        actions = [np.int64(byte) for byte in (*MESSAGE.encode("utf-8", "replace"), 257)]
    found = hashlib.sha256()
    result: tuple[Any, ...] = env.reset(seed=7)
    for action in actions:
        assert result[0] in env.observation_space
        assert action in env.action_space
        found.update(json.dumps(result, default=lambda array: array.tolist(), sort_keys=True).encode())
        if len(result) == 5 and (result[2] or result[3]):
            env.reset()
        result = env.step(action)
    assert result[0] in env.observation_space
    found.update(json.dumps(result, default=lambda array: array.tolist(), sort_keys=True).encode())
    env.close()
    return found.hexdigest()


@pytest.mark.filterwarnings("error")
def test_equal_seeds_give_equal_episodes_in_every_process():
    here = {id: digest(id) for id in IDS}
    for hash_seed in ("1", "2"):
        path = os.pathsep.join([str(Path(__file__).parent), str(ROOT)])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=300
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == here
