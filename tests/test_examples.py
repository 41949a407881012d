"""The example script as a user runs it: smoke runs, a checkpoint as the model, bad input, Ctrl-C."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agents.testing import check_agent

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "train_ppo.py"
TRANSFORM = ("--env", "llm_envs/Transform-v0", "--preset", "smoke")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def run_script(*arguments, timeout=120):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=timeout
    )


@pytest.fixture(scope="module")
def code_repair(tmp_path_factory):
    """(run folder, finished process) of the smoke run on code repair."""
    folder = tmp_path_factory.mktemp("runs") / "code-repair"
    return folder, run_script("--preset", "smoke", "--out", folder)


@pytest.fixture(scope="module")
def transform(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "transform"
    return folder, run_script(*TRANSFORM, "--out", folder)


@pytest.mark.parametrize("which", ["code_repair", "transform"])
def test_smoke_run_finishes_prints_the_table_and_is_quiet(which, request):
    folder, process = request.getfixturevalue(which)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    lines = process.stdout.splitlines()
    assert any(line.startswith("warm-up 10/10") for line in lines)
    assert any(line.startswith("PPO 600/600: iteration") for line in lines)
    table = [line for line in lines if line.startswith("│")]
    assert [(line.split("│")[1].strip(), line.split("│")[3].strip()) for line in table] == [
        ("validation", "greedy"), ("validation", "sampled"), ("test", "greedy"), ("test", "sampled")
    ]  # fmt: skip
    assert all("[0.00, 0." in line for line in table)
    assert "\x1b" not in process.stdout
    assert str(folder) in lines[-1]


@pytest.mark.parametrize("which", ["code_repair", "transform"])
def test_smoke_run_writes_its_folder_and_a_checkpoint_anybody_loads(which, request):
    folder, _ = request.getfixturevalue(which)
    assert {path.name for path in folder.iterdir()} == {
        "before.json", "checkpoints", "config.json", "metrics.jsonl", "preparation.json", "record.json",
        "samples.jsonl", "sensitivity.json", "tensorboard",
    }  # fmt: skip
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"warmed-up", "last"}
    for name in ("warmed-up", "last"):
        model = AutoModelForCausalLM.from_pretrained(folder / "checkpoints" / name)
        tokenizer = AutoTokenizer.from_pretrained(folder / "checkpoints" / name)
        ids = tokenizer("def f(xs):\n    return xs\n", return_tensors="pt").input_ids
        assert torch.isfinite(model(ids).logits).all()
        assert tokenizer.decode(ids[0]) == "def f(xs):\n    return xs\n"
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in metrics] == list(range(1, len(metrics) + 1))
    assert all(line["mismatch/max"] < 1e-4 for line in metrics)
    assert all(line["objective/unscored"] == 0 for line in metrics)
    for sample in map(json.loads, (folder / "samples.jsonl").read_text().splitlines()):
        assert sample["verdict"]["kind"]
        assert sample["example_id"].startswith("train/")
    config = json.loads((folder / "config.json").read_text())
    assert config["args"]["ppo"]["minibatches"] == 2
    assert "--preset" in config["command"]
    assert len(list((folder / "tensorboard").iterdir())) == 1


@pytest.mark.parametrize("which", ["code_repair", "transform"])
def test_record_holds_what_an_acceptance_needs(which, request):
    folder, _ = request.getfixturevalue(which)
    record = json.loads((folder / "record.json").read_text())
    assert {"python", "torch", "transformers", "gymnasium", "platform"} <= record["versions"].keys()
    assert record["settings"]["seed"] == 0
    assert set(record["splits"]) == {"train", "validation", "test"}
    assert all({"size", "hashed", "sha256"} == identity.keys() for identity in record["splits"].values())
    assert len({identity["sha256"] for identity in record["splits"].values()}) == 3
    assert record["sampling"] == {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "greedy": False}
    assert record["ratio_denominator"] == "stored at sampling"
    assert record["tokens"]["sampled"] >= 600
    assert record["tokens"]["episodes"] == 16 * record["iterations"]
    assert record["weights"]["updates"] == record["iterations"]
    needed = {"scores", "rlhf_reward", "non_score_reward", "kl", "kl_answer_min", "kl_answer_max", "unscored"}
    assert {f"objective/{name}" for name in needed} <= record["reward_components"].keys()
    assert {f"ppo/advantages/{name}" for name in ("mean", "std", "min", "max")} <= record["advantages"].keys()
    assert {"ppo/val/var_explained", "ppo/val/value_mean", "ppo/returns/mean", "ppo/returns/var"} <= record[
        "values_against_returns"
    ].keys()
    assert record["logprob_mismatch"]["worst"] < 1e-4
    for moment in ("before", "after"):
        for split in ("validation", "test"):
            result = record["held_out"][moment][split]
            assert result["episodes"] == 16
            assert 0 <= result["greedy"] <= 1
            assert result["kl_min"] <= result["kl"] <= result["kl_max"]
            assert sum(result["kinds"].values()) == 16
    for phase in ("problems", "warm-up", "ppo", "generation", "verification", "scoring", "update"):
        assert record["seconds"][phase] > 0
    assert record["peak_memory"]["process_bytes"] > 50e6


def test_a_checkpoint_folder_is_a_model(code_repair, tmp_path):
    """Its tokenizer has no chat template, so the prompt goes in as plain text; there is no second warm-up."""
    checkpoint, out = code_repair[0] / "checkpoints" / "last", tmp_path / "run"
    sizes = (
        "--rows",
        "4",
        "--total-tokens",
        "40",
        "--eval-problems",
        "4",
        "--max-new-tokens",
        "16",
        "--max-length",
        "256",
    )
    process = run_script("--model", str(checkpoint), *sizes, "--out", str(out))
    assert process.returncode == 0, process.stderr
    assert "warm-up" not in process.stdout
    record = json.loads((out / "record.json").read_text())
    first = json.loads((code_repair[0] / "record.json").read_text())
    assert record["weights"]["reference"] == first["weights"]["policy"]
    assert record["settings"]["ppo"]["optimizer"]["betas"] == [0.9, 0.95]  # the preset for pretrained models


def test_the_glass_box_opens_a_checkpoint(code_repair):
    checkpoint = code_repair[0] / "checkpoints" / "last"
    process = run_other("glass_box.py", checkpoint, "--rows", "1", "--updates", "0")
    assert process.returncode == 0, process.stderr
    cells = [[cell.strip() for cell in line.split("│")] for line in process.stdout.splitlines() if line.startswith("│")]
    assert len(cells) > 3
    for row in cells:
        old, reference, current, kl, ratio = (float(row[i]) for i in (4, 5, 6, 7, 12))
        assert old == pytest.approx(current, abs=2e-4)  # nothing was updated in between
        assert ratio == pytest.approx(1.0, abs=2e-4)
        assert kl == pytest.approx(old - reference, abs=2e-4)
    assert "kl x 0" in process.stdout
    refused = run_other("glass_box.py", code_repair[0])
    assert refused.returncode == 1
    assert "is not a checkpoint in the folder of a run" in refused.stderr


def run_other(script, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPT.parent / script, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT,
        timeout=120,
    )  # fmt: skip


def test_an_agent_of_ones_own_learns():
    process = run_other("own_agent.py")
    assert process.returncode == 0, process.stderr
    before, after = (float(line.split("score ")[1].split(",")[0]) for line in process.stdout.splitlines())
    assert after > before + 0.5


def test_an_agent_of_ones_own_keeps_the_contract():
    check_agent(runpy.run_path(str(SCRIPT.parent / "own_agent.py"))["CountingAgent"])


@pytest.mark.slow
def test_each_judge_likes_best_what_it_trained():
    process = run_other("swap_verifier.py")
    assert process.returncode == 0, process.stderr
    rows = [line.split("│")[2:5] for line in process.stdout.splitlines() if line.startswith("│")]
    table = [[float(cell) for cell in row] for row in rows]
    assert len(table) == 3
    for judge in range(3):
        assert table[judge][judge] > 0.8
        assert table[judge][judge] == max(row[judge] for row in table)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--adapter", "4", "--ppo.kl.target", "0.5")])
def test_a_killed_run_resumes_and_equals_one_that_was_not(tmp_path, options):
    arguments = ("--preset", "smoke", "--total-tokens", "5000", "--ppo.checkpoint-every", "1", *options)
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    assert run_script(*arguments, "--out", straight).returncode == 0
    process = subprocess.Popen(
        [sys.executable, SCRIPT, *arguments, "--out", killed], env=ENVIRONMENT, stdout=-3, stderr=-3
    )
    while not (killed / "checkpoints" / "000002").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    resumed = run_script("--resume", killed)
    assert resumed.returncode == 0, resumed.stderr
    records = [json.loads((folder / "record.json").read_text()) for folder in (killed, straight)]
    for part in ("weights", "held_out", "tokens", "iterations", "update", "advantages", "reward_sensitivity"):
        assert records[0][part] == records[1][part], part
    assert records[0]["seconds"].keys() == records[1]["seconds"].keys()  # the warm-up's, too
    (killed / "record.json").unlink()  # killed again, after the last iteration
    assert run_script("--resume", killed).returncode == 0
    assert json.loads((killed / "record.json").read_text())["reward_sensitivity"] == records[1]["reward_sensitivity"]
    assert (killed / "samples.jsonl").read_text() == (straight / "samples.jsonl").read_text()


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_resume_wants_the_folder_of_a_run(tmp_path, folder):
    process = run_script("--resume", str(tmp_path / folder))
    assert process.returncode == 1
    assert process.stderr.startswith("error: --resume expects the folder of a run")


def refusal(monkeypatch, tmp_path, *arguments):
    """The one sentence with which the script refuses; in this process, since importing torch takes seconds."""
    out = tmp_path / "run"
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments, "--out", str(out)])
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert not out.exists()
    message = exit.value.code  # Python prints it on stderr and exits with 1
    assert isinstance(message, str)
    assert message.startswith("error: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--env", "llm_envs/Nope-v0", "--preset", "smoke"), "Nope"),
        (("--env", "nopackage:Nope-v0", "--preset", "smoke"), "nopackage"),
        (("--env", "CartPole-v1", "--preset", "smoke"), "token-level environment of llm_envs, got 'CartPole-v1'"),
        (("--model", "nobody/nothing"), "'nobody/nothing' .*hub name, a folder or a .gguf file"),
        (("--model", "/nowhere/model"), "'/nowhere/model' does not exist"),
        (("--model", "./nothing.gguf"), r"'./nothing.gguf' does not exist"),
        ((*TRANSFORM, "--verifier", "nope"), "unknown verifier 'nope'.*exact_match"),
        ((*TRANSFORM, "--verifier", "nomodule:Class"), "nomodule"),
        ((*TRANSFORM, "--verifier", "json:JSONDecoder"), "json:JSONDecoder"),
        ((*TRANSFORM, "--sandbox", "process"), "exact_match.*sandbox"),
        ((*TRANSFORM, "--max-length", "20"), "the prompt is .* tokens long.*max_length=20"),
        ((*TRANSFORM, "--env-options", "difficulty", "7"), "from 1 to 2, got 7"),
        ((*TRANSFORM, "--env-options", "colour", "red"), "unknown option 'colour'"),
        (("--preset", "nope"), "unknown preset 'nope'.*code-repair"),
        (("--preset", "smoke", "--verifier", "exact_match"), "hidden.*answer"),
        ((*TRANSFORM, "--split", "nope"), "unknown split .*'nope'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_nothing_is_written(monkeypatch, tmp_path, arguments, said):
    message = refusal(monkeypatch, tmp_path, *arguments)
    assert re.search(said, message), message


def test_cuda_asked_for_and_absent(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device" in refusal(monkeypatch, tmp_path, *TRANSFORM, "--device", "cuda")


@pytest.mark.parametrize(
    "setting",
    [
        ("--ppo.temperature", "0"),
        ("--ppo.optimizer.learning-rate", "-1"),
        ("--problems", "0"),
        ("--sandbox", "none"),
        ("--seed", "-1"),
        ("--sft.steps", "0"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_written(monkeypatch, tmp_path, capsys, setting):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *TRANSFORM, *setting, "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert exit.value.code == 2
    assert setting[0].split(".")[-1].strip("-").replace("-", "_") in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_that_exists_is_left_alone(monkeypatch, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "precious").write_text("data")
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *TRANSFORM, "--out", str(out)])
    with pytest.raises(SystemExit, match="error: run folder .* exists and is not empty; give another one"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert [path.name for path in out.iterdir()] == ["precious"]


WITHOUT_SANDBOX = """
import runpy, sys
from verifiers.sandbox import bubblewrap, namespaces
bubblewrap.find_bubblewrap = lambda: "/bin/false"  # what both are on a machine that forbids namespaces: they just end
namespaces.LAUNCHER = "/bin/false"
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_without_a_sandbox_the_script_refuses_and_names_the_way_out(tmp_path):
    command = [sys.executable, "-c", WITHOUT_SANDBOX, str(SCRIPT), "--preset", "smoke", "--out", str(tmp_path / "run")]
    process = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert process.returncode == 1
    assert process.stdout == ""
    assert len(process.stderr.splitlines()) == 1
    assert process.stderr.startswith(
        "error: Untrusted code cannot be contained here. bubblewrap: no answer. namespaces: "
    )
    assert "--sandbox process" in process.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_during_ppo_saves_evaluates_and_ends_cleanly(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, SCRIPT, *TRANSFORM, "--total-tokens", "100000000", "--out", out]
    pipe = subprocess.PIPE

    def heed_ctrl_c() -> None:  # what runs in the background, tests too, may have been told to ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT, preexec_fn=heed_ctrl_c
    ) as process:
        watchdog = threading.Timer(90, process.kill)
        watchdog.start()
        seen = next(line for line in process.stdout or () if line.startswith("PPO "))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        watchdog.cancel()
    assert "iteration 1 " in seen
    assert process.returncode in (0, 130), errors
    assert "Traceback" not in errors
    assert "stopped by Ctrl-C" in output
    assert "after PPO" in output
    assert json.loads((out / "record.json").read_text())["iterations"] >= 1
    model = AutoModelForCausalLM.from_pretrained(out / "checkpoints" / "last")
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
