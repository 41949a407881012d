"""A run's folder: never overwritten, everything written, plain JSON."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.files import write_json
from agents.fingerprint import weight_fingerprint
from agents.jsonable import jsonable
from agents.ppo import PPOConfig
from agents.run import RunFolder
from tests.agents.small import iterate, llama, make_agent


def lines(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path):
    (tmp_path / "old").write_text("x")
    with pytest.raises(FileExistsError, match="exists and is not empty"):
        RunFolder(tmp_path).create({})
    with pytest.raises(FileExistsError, match="exists"):
        RunFolder(tmp_path / "old").create({})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_nothing_is_created_before_create(tmp_path):
    RunFolder(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "empty").mkdir()
    RunFolder(tmp_path / "empty").create({"seed": 0})
    assert json.loads((tmp_path / "empty" / "config.json").read_text()) == {"seed": 0}


def test_everything_an_update_needs_to_be_audited_is_written(tmp_path):
    run = RunFolder(tmp_path / "run")
    agent = make_agent()
    run.create({"ppo": agent.config})

    def on_iteration(agent, metrics, batch):
        run.log({**metrics, "undefined": float("nan")}, agent.iteration)
        run.log_samples(batch.rollout, agent.env.decode, agent.iteration, limit=3)

    agent.on_iteration = on_iteration
    iterate(agent, 2)
    run.record({"weights": agent.policy.fingerprint()})
    run.close()
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "metrics.jsonl", "samples.jsonl", "tensorboard", "record.json"
    }  # fmt: skip
    metrics = lines(folder / "metrics.jsonl")
    assert [line["iteration"] for line in metrics] == [1, 2]
    assert all(line["undefined"] is None for line in metrics)
    assert all(isinstance(value, int | float) for line in metrics for value in line.values() if value is not None)
    samples = lines(folder / "samples.jsonl")
    assert [sample["iteration"] for sample in samples] == [1, 1, 1, 2, 2, 2]
    for sample in samples:
        assert sample["prompt"].endswith("\n")
        assert isinstance(sample["score"], float)
        assert {"example_id", "answer", "stop_reason"} <= sample.keys()
        if "verdict" in sample:
            assert sample["verdict"]["score"] == sample["score"]
    assert json.loads((folder / "config.json").read_text())["ppo"]["clip"] == 0.2
    scalars = read_scalars(folder / "tensorboard")
    assert {"objective/scores", "objective/kl", "policy/approxkl_avg", "loss/value_avg", "val/ratio"} <= scalars.keys()
    assert scalars["objective/scores"] == [
        (line["iteration"], pytest.approx(line["objective/scores"])) for line in metrics
    ]


def read_scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(tmp_path, monkeypatch):
    write_json(tmp_path / "record.json", {"a": 1})
    with monkeypatch.context() as patch:
        patch.setattr("agents.files.os.replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_json(tmp_path / "record.json", {"a": 2})
    assert json.loads((tmp_path / "record.json").read_text()) == {"a": 1}


@dataclass
class Settings:
    rate: float
    path: Path


def test_plain_json_of_settings_and_numbers():
    assert jsonable(Settings(math.inf, Path("a/b"))) == {"rate": None, "path": "a/b"}
    assert jsonable({"n": float("nan"), "t": (1, 2.5, None, True)}) == {"n": None, "t": [1, 2.5, None, True]}
    assert jsonable(PPOConfig())["optimizer"]["betas"] == [0.9, 0.999]
    assert jsonable([np.float32(0.5), np.int64(3), np.bool_(True), torch.tensor(2.0)]) == [0.5, 3, True, 2.0]
    assert jsonable(np.float32("nan")) is None


def test_a_fingerprint_sees_one_changed_weight():
    model, other = llama(), llama()
    assert weight_fingerprint(model.named_parameters()) == weight_fingerprint(other.named_parameters())
    with torch.no_grad():
        other.lm_head.weight[3, 3] += 1e-6
    assert weight_fingerprint(model.named_parameters()) != weight_fingerprint(other.named_parameters())


@pytest.mark.parametrize("name", ["000009.unfinished", "last.removed"])
def test_half_a_checkpoint_is_never_the_newest(tmp_path, name):
    run = RunFolder(tmp_path / "run")
    run.create({})
    agent = iterate(make_agent(agent_options={"run": run}, checkpoint_every=1), 2)
    agent.iteration = 9
    agent.save(run.checkpoint(name))
    run.close()
    again = RunFolder(tmp_path / "run")
    assert again.newest_checkpoint() == again.resume() == again.checkpoint("000002")
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["000001", "000002"]


def test_a_restored_agent_keeps_its_own_settings(tmp_path):
    iterate(make_agent(), 1).save(tmp_path / "checkpoint")
    agent = make_agent(optimizer__learning_rate=5e-5, optimizer__weight_decay=0.1, kl__coef=0.9)
    agent.restore(tmp_path / "checkpoint")
    assert agent.kl.coef == 0.9
    assert [group["base_lr"] for group in agent.optimizer.param_groups] == [5e-5, 1e-2]
    assert all(group["weight_decay"] == 0.1 for group in agent.optimizer.param_groups)
