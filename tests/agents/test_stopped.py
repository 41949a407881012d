"""What stops a run: NaN, infinity, a full disk. It stops at once, says why, and leaves what was good."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agents.batch import load_batch
from agents.optimizer import NonFiniteError
from agents.ppo import PPOBatch
from agents.run import RunFolder
from tests.agents.small import iterate, make_agent, same, snapshot

ROOT = Path(__file__).parents[2]


def running(tmp_path, **changes):
    run = RunFolder(tmp_path / "run")
    run.create({})
    return iterate(make_agent(agent_options={"run": run}, checkpoint_every=1, **changes), 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["advantages", "returns"])
def test_a_loss_that_is_not_finite_stops_with_the_batch_and_the_last_good_checkpoint_named(tmp_path, value, where):
    agent = running(tmp_path)
    score = agent.score

    def poisoned(rollout):
        batch = score(rollout)
        getattr(batch, where)[0, 0] = value
        return batch

    agent.score = poisoned
    before = snapshot(agent.policy)
    with pytest.raises(NonFiniteError, match="loss/.* in iteration 2.*stopped/000002.pt.*checkpoints/000002"):
        iterate(agent, 1)
    assert all(tensor.isfinite().all() for tensor in snapshot(agent.policy).values())
    assert agent.iteration == 2
    kept = load_batch(tmp_path / "run" / "stopped" / "000002.pt", PPOBatch)
    assert not getattr(kept, where).isfinite().all()
    assert kept.rollout.infos[0]["example_id"]
    assert same(before, snapshot(running_again(tmp_path).policy))


def running_again(tmp_path):
    return make_agent().restore(RunFolder(tmp_path / "run").newest_checkpoint())


def test_a_gradient_that_is_not_finite_stops_before_the_step(tmp_path):
    agent = running(tmp_path, minibatches=1, epochs=1)
    before = snapshot(agent.policy)
    parameter = agent.groups["policy"][0][0]
    parameter.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(NonFiniteError, match=r"gradient norm of the policy is (nan|inf) in iteration 2"):
        iterate(agent, 1)
    assert same(before, snapshot(agent.policy))


def test_without_a_run_folder_the_error_says_what_and_when():
    agent = make_agent()
    agent.score = lambda rollout, score=agent.score: _broken(score(rollout))
    with pytest.raises(NonFiniteError, match="is nan in iteration 0$"):
        iterate(agent, 1)


def _broken(batch):
    batch.advantages[0, 0] = float("nan")
    return batch


def test_weights_that_are_not_finite_stop_the_sampler():
    agent = make_agent()
    with torch.no_grad():
        agent.policy.model.lm_head.weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match="logits are NaN or infinite"):
        agent.collect()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from agents.run import RunFolder
from tests.agents.small import iterate, make_agent
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write beyond the limit is an OSError, as on a full disk
run = RunFolder(Path(sys.argv[1]))
run.create({})
agent = iterate(make_agent(agent_options={"run": run}, checkpoint_every=1), 2)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    iterate(agent, 1)
except OSError as error:
    print("stopped:", error)
"""


@pytest.mark.parametrize("limit", [2_000, 8_000, 30_000])
def test_a_full_disk_stops_the_run_and_leaves_whole_checkpoints_only(tmp_path, limit):
    folder = tmp_path / "run"
    process = subprocess.run(
        [sys.executable, "-c", FULL_DISK, folder, str(limit)], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120,
    )  # fmt: skip
    assert process.stdout.startswith("stopped: "), process.stderr
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["000001", "000002"]
    assert str(folder / "checkpoints" / "000002") in process.stdout
    assert make_agent().restore(RunFolder(folder).newest_checkpoint()).iteration == 2
