"""A run that is killed at any moment and resumed in a new process equals one that never stopped, bit for bit."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.agents.interrupted import EPISODES

ROOT = Path(__file__).parents[2]
ITERATIONS = 8


def start(folder):
    command = [sys.executable, "-m", "tests.agents.interrupted", str(folder), str(ITERATIONS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def finish(folder):
    process = start(folder)
    process.communicate(timeout=120)
    assert process.returncode == 0
    return contents(folder)


def contents(folder):
    """Everything a run leaves that is not a measurement of time."""
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    metrics = [{name: value for name, value in line.items() if not name.startswith("seconds/")} for line in metrics]
    last = folder / "checkpoints" / "last"
    state = torch.load(last / "trainer_state.pt", weights_only=True)
    return {
        "metrics": metrics,
        "samples": (folder / "samples.jsonl").read_text(),
        "weights": (last / "model.safetensors").read_bytes(),
        "head": (last / "value_head.safetensors").read_bytes(),
        "state": flat(state),
        "checkpoints": sorted(path.name for path in (folder / "checkpoints").iterdir()),
        "best": json.loads((folder / "best.json").read_text()),
    }


def flat(state, path=""):
    """Nested state -> {path: comparable value}."""
    if isinstance(state, dict):
        return {k: v for name, item in state.items() for k, v in flat(item, f"{path}/{name}").items()}
    if isinstance(state, list | tuple):
        return {k: v for i, item in enumerate(state) for k, v in flat(item, f"{path}/{i}").items()}
    return {path: state.numpy().tobytes() if isinstance(state, torch.Tensor) else state}


def kill_and_resume(folder, delays):
    """Kill the run after each delay (seconds after it is ready), then let it end."""
    for delay in delays:
        process = start(folder)
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.communicate()
        if (folder / "checkpoints" / "last").exists():
            break
    return finish(folder)


def assert_equal(found, expected):
    assert [line["iteration"] for line in found["metrics"]] == list(range(1, ITERATIONS + 1))
    for name, value in expected.items():
        assert found[name] == value, name


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("run") / "straight")


def test_a_run_uses_all_that_must_be_restored(straight):
    """The comparison below would prove little if nothing moved."""
    metrics = straight["metrics"]
    assert len({line["lr"] for line in metrics}) == ITERATIONS
    assert len({line["objective/kl_coef"] for line in metrics}) > 3
    assert len({line["drawn/torch"] for line in metrics}) == ITERATIONS
    assert all("eval/sampled" in line for line in metrics[1::2])
    assert straight["state"]["/score_moments/count"] == ITERATIONS * EPISODES - sum(
        line["objective/unscored"] for line in metrics
    )
    assert "last" in straight["checkpoints"]


def test_killed_once(tmp_path, straight):
    assert_equal(kill_and_resume(tmp_path / "run", [random.Random().uniform(0.05, 1.2)]), straight)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_killed_many_times(tmp_path, straight, seed):
    rng = random.Random(seed)
    assert_equal(kill_and_resume(tmp_path / "run", [rng.uniform(0.0, 0.7) for _ in range(6)]), straight)
