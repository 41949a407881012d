"""The same seed gives the same run, a checkpoint goes on as if nothing had happened, and `transformers` loads it."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from agents.checkpoint import CheckpointError
from agents.scoring import score_rollout
from tests.agents.small import MODELS, iterate, make_agent, same, snapshot

ROOT = Path(__file__).parents[2]


def everything(agent):
    """Weights, value head and optimiser moments, flat."""
    state = {f"policy.{name}": tensor for name, tensor in snapshot(agent.policy).items()}
    for index, moments in agent.optimizer.state_dict()["state"].items():
        state |= {f"optimizer.{index}.{name}": torch.as_tensor(value).clone() for name, value in moments.items()}
    return state


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, second, other = (iterate(make_agent(seed=seed), 2) for seed in (1, 1, 2))
    assert same(everything(first), everything(second))
    assert first.num_timesteps == second.num_timesteps
    assert not same(everything(first), everything(other))


def test_a_global_seed_or_numpys_has_no_say():
    torch.manual_seed(5)
    first = make_agent()
    torch.manual_seed(6)
    np.random.seed(6)
    iterate(first, 1)
    second = make_agent()
    torch.rand(3)
    assert same(everything(first), everything(iterate(second, 1)))


GO_ON = """
import sys, torch
torch.set_num_threads(1)  # as in this process: sums in another order are other sums
from tests.agents.small import iterate, make_agent
from tests.agents.test_checkpoints import everything
agent = iterate(make_agent(critic__trunk_gradient=0.5).restore(sys.argv[1]), 2)
torch.save({"state": everything(agent), "iteration": agent.iteration, "tokens": agent.num_timesteps}, sys.argv[2])
"""


def test_a_new_process_goes_on_bit_for_bit(tmp_path):
    straight = iterate(make_agent(critic__trunk_gradient=0.5), 4)
    half = iterate(make_agent(critic__trunk_gradient=0.5), 2)
    assert not same(everything(half), everything(straight))
    half.save(tmp_path / "half")
    subprocess.run([sys.executable, "-c", GO_ON, tmp_path / "half", tmp_path / "end.pt"], check=True, cwd=ROOT)
    found = torch.load(tmp_path / "end.pt")
    assert (found["iteration"], found["tokens"]) == (4, straight.num_timesteps)
    assert any(name.startswith("optimizer.") for name in found["state"])
    assert same(found["state"], everything(straight))


@pytest.mark.parametrize("name", MODELS)
def test_transformers_loads_a_checkpoint_with_the_same_logits(tmp_path, name):
    agent = iterate(make_agent(MODELS[name]()), 1)
    agent.save(tmp_path / "checkpoint")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint").eval()
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, agent.policy.model(tokens).logits)
        assert not torch.equal(loaded(tokens).logits, agent.reference.model(tokens).logits)


def test_the_value_head_survives(tmp_path):
    agent = iterate(make_agent(), 1)
    rollout = agent.collect()
    values = score_rollout(agent.policy, rollout, 8).values
    assert values.abs().max() > 1e-4
    agent.save(tmp_path / "checkpoint")
    other = make_agent().restore(tmp_path / "checkpoint")
    assert torch.equal(score_rollout(other.policy, rollout, 8).values, values)


def test_a_folder_that_exists_is_left_alone(tmp_path):
    agent, folder = make_agent(), tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "precious").write_text("data")
    with pytest.raises(FileExistsError, match="checkpoint.* exists"):
        agent.save(folder)
    assert [path.name for path in folder.iterdir()] == ["precious"]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch, error):
    agent = make_agent()

    def interrupted(*arguments, **keywords):
        raise error("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", interrupted)
        with pytest.raises(error):
            agent.save(tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []
    agent.save(tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "trainer_state.pt").exists()


def test_a_checkpoint_of_another_reference_is_refused(tmp_path):
    iterate(make_agent(), 1).save(tmp_path / "checkpoint")
    other = make_agent(MODELS["llama"](seed=4))
    before = snapshot(other.policy)
    with pytest.raises(CheckpointError, match="the reference of .*build the agent around the weights the run started"):
        other.restore(tmp_path / "checkpoint")
    assert same(before, snapshot(other.policy))


def test_a_folder_that_is_no_checkpoint_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        make_agent().restore(tmp_path)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("where", ["collect", "score", "step"])
def test_ctrl_c_falls_between_iterations_so_that_what_is_saved_can_be_resumed(tmp_path, where):
    agent = make_agent()
    original, calls = getattr(agent, where), []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:  # of several steps of one update, or the second iteration
            signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    setattr(agent, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(1000)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    done = agent.iteration
    assert done == (1 if where == "step" else 2)
    agent.save(tmp_path / "stopped")
    assert same(everything(agent), everything(iterate(make_agent(), done)))
    resumed = iterate(make_agent().restore(tmp_path / "stopped"), 1)
    assert same(everything(resumed), everything(iterate(make_agent(), done + 1)))


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_interrupts_at_once():
    agent = make_agent()

    def score(rollout):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    agent.score = score
    with pytest.raises(KeyboardInterrupt):
        agent.learn(1000)
    assert agent.iteration == 0
