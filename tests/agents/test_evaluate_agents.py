"""Evaluating any agent: rates, other judges, failures apart from zeros, and going on after an interruption."""

import json
import string
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest
import tokenizers
import transformers
from gymnasium.vector import AutoresetMode

import agents
import llm_envs  # noqa: F401  registers the environments
from agents.__main__ import Evaluate, default_name, identity, options_of
from agents.base import AgentError
from agents.play import InfrastructureError
from agents.results import Result, by_family, evaluate_agent, summarise
from agents.scripted import ScriptedAgent
from llm_envs import TextEnv, TokenEnv
from tests.agents.small import Letters, llama, make_agent, make_task

ROOT = Path(__file__).parents[2]
TEXT = "llm_envs/TransformText-v0"


def run(path, script="gold", n=6, **options):
    return evaluate_agent(ScriptedAgent(script), TEXT, range(n), path, env_options={"split": "validation"}, **options)


@pytest.mark.parametrize(("script", "rate"), [("gold", 1.0), ("wrong", 0.0), ("empty", 0.0)])
def test_scripts_are_the_ceiling_and_the_floors(tmp_path, script, rate):
    results = run(tmp_path / "answers.jsonl", script, k=2)
    assert len(results) == 12
    summary = summarise(results, [1, 2])
    assert (summary.problems, summary.answers, summary.failed) == (6, 12, 0)
    assert {k: found[0] for k, found in summary.pass_at.items()} == {1: rate, 2: rate}
    assert all(low <= rate <= high for _, low, high in summary.pass_at.values())


def test_an_interrupted_evaluation_repeats_and_loses_nothing(tmp_path):
    path = tmp_path / "answers.jsonl"
    whole = run(path, n=6)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:20])  # three answers, and half a line
    played = []

    class Watched(ScriptedAgent):
        def begin(self, env):
            played.append(env.get_wrapper_attr("example").id)
            return super().begin(env)

    again = evaluate_agent(Watched("gold"), TEXT, range(6), path, env_options={"split": "validation"})
    assert len(played) == 3
    assert again == whole
    assert len(path.read_text().splitlines()) == 7
    run(path, n=6)
    assert len(path.read_text().splitlines()) == 7


def test_a_file_of_another_evaluation_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "answers.jsonl"
    run(path, n=2)
    before = path.read_text()
    with pytest.raises(AgentError, match="another evaluation .its seed differ"):
        run(path, n=2, seed=5)
    assert path.read_text() == before
    path.write_text("not json\n")
    with pytest.raises(AgentError, match="does not hold results"):
        run(path, n=2)


class Flaky(ScriptedAgent):
    """The endpoint behind it is down for some problems."""

    def __init__(self, down):
        super().__init__("gold")
        self.down = down

    def begin(self, env):
        if env.get_wrapper_attr("example").id in self.down:

            def predict(observation, state=None, deterministic=False):
                raise InfrastructureError("connection refused")

            return predict
        return super().begin(env)


def test_what_broke_is_no_zero_and_is_asked_again(tmp_path):
    path = tmp_path / "answers.jsonl"
    ids = [result.example_id for result in run(tmp_path / "other.jsonl", n=4)]
    results = evaluate_agent(Flaky(ids[1:2]), TEXT, range(4), path, env_options={"split": "validation"})
    assert [result.failed for result in results] == ["", "connection refused", "", ""]
    summary = summarise(results, [1])
    assert (summary.problems, summary.answers, summary.failed) == (3, 3, 1)
    assert summary.pass_at[1][0] == 1.0
    mended = evaluate_agent(Flaky([]), TEXT, range(4), path, env_options={"split": "validation"})
    assert summarise(mended, [1]).failed == 0


def test_pass_at_k_is_unbiased_and_needs_answers_enough():
    results = [
        Result(index, sample, passed=(index, sample) in {(0, 0), (0, 1), (1, 0)})
        for index in range(2)
        for sample in range(4)
    ]
    found = summarise(results, [1, 2, 4]).pass_at
    assert found[1][0] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert found[2][0] == pytest.approx(((1 - 1 / 6) + (1 - 3 / 6)) / 2)
    assert found[4][0] == 1.0
    assert 4 not in summarise([*results[:-1], Result(1, 3, failed="down")], [1, 2, 4]).pass_at


def test_families_and_other_judges(tmp_path):
    results = evaluate_agent(
        ScriptedAgent("gold"), "llm_envs/CodeRepairText-v0", range(4), tmp_path / "answers.jsonl",
        env_options={"split": "validation", "extra_verifiers": {"never": "tests.agents.judges:Never"}},
    )  # fmt: skip
    assert all(by_family(results))
    summary = summarise(results, [1])
    assert summary.pass_at[1][0] == 1.0
    assert summary.judges == {"never": 0.0}


def test_agents_by_name():
    assert {"ppo", "grpo", "reinforce", "random", "scripted"} <= set(agents.names())
    with pytest.raises(ValueError, match="unknown agent 'randon'.*did you mean 'random'"):
        agents.make("randon", TEXT)
    with pytest.raises(ValueError, match="cannot be imported"):
        agents.make("agents.nothing:Here", TEXT)
    with pytest.raises(ValueError, match="is not an Agent class"):
        agents.make("json:JSONDecoder", TEXT)
    with pytest.raises(ValueError, match="is there already"):
        agents.register("ppo", ScriptedAgent)
    assert agents.make("agents.scripted:ScriptedAgent", TEXT).name == "scripted"


@pytest.mark.parametrize(
    ("name", "env", "options", "said"),
    [
        ("scripted", "llm_envs/Transform-v0", {}, "expected a text-level environment"),
        ("random", TEXT, {}, "expected a token-level environment"),
        ("random", "CartPole-v1", {}, "expected a token-level environment"),
        ("ppo", "llm_envs/Transform-v0", {}, "needs a language model"),
        ("ppo", TEXT, {"model": object()}, "expected a token-level environment"),
    ],
)
def test_an_agent_that_does_not_fit_the_environment_is_refused(name, env, options, said):
    with pytest.raises(AgentError, match=said):
        agents.make(name, env, **options)


def test_random_answers_keep_to_the_masks():
    agent = agents.make("random", "llm_envs/Transform-v0")
    options = {"split": "validation", "allowed_tokens": [97, 98]}
    for episode in agent.play("llm_envs/Transform-v0", range(6), env_options=options, rows=4):
        assert episode.info["stop_reason"] in ("stop", "length")
        assert episode.score == 0.0


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "agents", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_the_command_prints_tables_and_writes_json(tmp_path):
    out = tmp_path / "answers.jsonl"
    arguments = ("evaluate", "--agent", "scripted", "--env", TEXT, "--episodes", 5, "--k", 2, "--out", out)
    process = command(*arguments, "--verifier", "exact_match")
    assert process.returncode == 0, process.stderr
    assert "pass@2 (reward)" in process.stdout
    summary = json.loads(out.with_suffix(".summary.json").read_text())
    assert summary["all"]["pass_at"]["2"][0] == 1.0
    assert summary["all"]["judges"] == {"exact_match": 1.0}
    process = command(*arguments, "--verifier", "nope")
    assert process.returncode == 1
    assert process.stderr.startswith("error: ")
    assert "Traceback" not in process.stderr
    assert "scripted" in command("list").stdout


def test_text_environments_of_others_can_be_played():
    def make():
        return gym.make(TEXT, split="validation", disable_env_checker=True)

    agent = ScriptedAgent(lambda env: env.get_wrapper_attr("script")("gold"))
    assert [episode.score for episode in agent.play(make, range(3))] == [1.0] * 3


def test_more_answers_later_are_other_answers(tmp_path):
    agent = make_agent()

    def play(path, k):
        results = evaluate_agent(agent, token_env, range(8), path, k=k, rows=8)
        return [(result.index, result.sample, result.score) for result in results]

    play(tmp_path / "grown.jsonl", 1)
    grown, at_once = play(tmp_path / "grown.jsonl", 3), play(tmp_path / "at-once.jsonl", 3)
    assert sorted(grown) == sorted(at_once)
    by_sample = [[score for _, sample, score in grown if sample == k] for k in range(3)]
    assert by_sample[0] != by_sample[1] != by_sample[2]


def token_env():
    return TokenEnv(TextEnv(make_task(), "train", on_verifier_error="unscored"), tokenizer=Letters(), max_length=40)


def test_answers_of_other_weights_are_not_taken_for_this_agents(tmp_path):
    path = tmp_path / "answers.jsonl"
    run(path, n=2, which={"weights": "a"})
    with pytest.raises(AgentError, match="its which differ"):
        run(path, n=2, which={"weights": "b"})


def test_a_checkpoint_brings_the_options_it_was_trained_with_and_no_key_is_written(tmp_path):
    env = gym.make_vec(
        "llm_envs/Transform-v0", num_envs=2, autoreset_mode=AutoresetMode.DISABLED, split="train", difficulty=2,
        max_new_tokens=7,
    )  # fmt: skip
    make_agent(llama(vocabulary=258), env).save(tmp_path / "checkpoint")
    args = Evaluate("ppo", "llm_envs/Transform-v0", checkpoint=tmp_path / "checkpoint", options=("api_key", "SECRET"))
    assert options_of(args) == {"difficulty": 2, "max_new_tokens": 7}
    assert options_of(Evaluate("ppo", "llm_envs/Arithmetic-v0", checkpoint=tmp_path / "checkpoint")) == {}
    which = identity(args, {"api_key": "SECRET", "model": "m"})
    assert which["options"] == {"model": "m"}
    assert len(which["weights"]) == 16
    assert default_name(args) == default_name(replace(args, options=("api_key", "OTHER")))
    assert default_name(args) != default_name(replace(args, options=("model", "m")))


def test_a_model_folder_is_evaluated_with_its_own_tokenizer(tmp_path):
    letters = {letter: i for i, letter in enumerate(["<pad>", "<eos>", "<unk>", *string.printable])}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token="<unk>"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    own.decoder = tokenizers.decoders.Fuse()
    folder = tmp_path / "model"
    transformers.PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<eos>", pad_token="<pad>").save_pretrained(
        folder
    )
    llama(vocabulary=len(letters)).save_pretrained(folder)
    out = tmp_path / "answers.jsonl"
    process = command(
        "evaluate", "--agent", "ppo", "--env", "llm_envs/Arithmetic-v0", "--episodes", 3, "--rows", 3, "--out", out,
        "--options", "model", folder, "device", "cpu", "--env-options", "max_new_tokens", 4,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert json.loads(out.with_suffix(".summary.json").read_text())["all"]["answers"] == 3
    assert json.loads(out.read_text().splitlines()[0])["env_options"]["tokenizer"] == str(folder)
