"""Evaluating any agent: rates, other judges, failures apart from zeros, and going on after an interruption."""

import json
import re
import shutil
import string
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tokenizers
import transformers
from gymnasium.vector import AutoresetMode

import agents
import llm_envs  # noqa: F401  registers the environments
from agents.__main__ import Evaluate, default_name, identity, main, options_of
from agents.base import AgentError
from agents.grpo import GRPOConfig
from agents.play import InfrastructureError
from agents.ppo import PPOConfig
from agents.random_agent import RandomAgent
from agents.results import Result, by_family, evaluate_agent, summarise
from agents.scripted import ScriptedAgent
from agents.two_arms import TwoArms
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
        return {(result.index, result.sample): result.score for result in results if not result.failed}

    play(tmp_path / "grown.jsonl", 1)
    grown, at_once = play(tmp_path / "grown.jsonl", 3), play(tmp_path / "at-once.jsonl", 3)
    assert grown.items() >= at_once.items()  # what failed is asked again
    assert len(at_once) > 16
    by_sample = [[at_once.get((index, sample)) for index in range(8)] for sample in range(3)]
    assert by_sample[0] != by_sample[1] != by_sample[2]


@pytest.mark.parametrize("name", ["random", "maskable_ppo"])
def test_agents_that_predict_draw_other_answers_too_and_the_same_with_a_seed(name):
    """Each process makes the agent anew: what it drew for answer 0 must not be what it draws for answer 1."""

    def play(k, seed=0):
        agent = agents.make(name, token_env, **({"num_envs": 1} if name == "maskable_ppo" else {}))
        drawn = [list(agent.play(token_env, range(8), seed=seed, sample=sample)) for sample in range(k)]
        return [[round(episode.score, 3) for episode in episodes] for episodes in drawn]

    first, (again, other) = play(1)[0], play(2)
    assert first == again != other
    assert play(1, seed=7)[0] != first


def test_a_problem_that_is_asked_for_twice_gets_two_answers():
    scores = [episode.score for episode in RandomAgent(12).play(token_env, [*range(8)] * 4, rows=16)]
    assert scores[:16] != scores[16:]


class Rows(gym.Wrapper):
    """Says in its info what `SyncVectorEnv` would make one array of."""

    def reset(self, **arguments):
        observation, info = super().reset(**arguments)
        return observation, {**info, "own": {"n": 1 if info["example_id"] == "0" else 0.5}}


def test_predict_sees_the_environments_observation_and_infos_stay_whole():
    seen = []

    class Watched(RandomAgent):
        def predict(self, observation, *arguments, **options):
            seen.append(observation["remaining"][:, 0].tolist())
            return super().predict(observation, *arguments, **options)

    episodes = list(Watched(12).play(lambda: Rows(token_env()), range(4)))
    assert [row[0] for row in seen][:3] == [6, 5, 4]
    assert [episode.info["own"]["n"] for episode in episodes] == [1, 0.5, 0.5, 0.5]


class Registered(gym.Wrapper):
    """A token-level environment with a single entry point alone."""

    def __init__(self):
        super().__init__(token_env())


def test_an_id_without_a_vector_entry_point_is_played(monkeypatch):
    spec = gym.envs.registration.EnvSpec("Own-v0", entry_point=lambda **_: Registered())
    monkeypatch.setitem(gym.registry, "Own-v0", spec)
    assert len(list(make_agent().play("Own-v0", range(3)))) == 3
    assert len(list(RandomAgent(12).play("Own-v0", range(3)))) == 3


def test_problems_that_an_environment_draws_are_the_same_for_every_answer(tmp_path):
    seen = []

    class Watched(RandomAgent):
        def predict(self, observation, *arguments, **options):
            seen.append(observation["tokens"].copy())
            return super().predict(observation, *arguments, **options)

    class Drawn(TwoArms):
        num_examples: Any = None  # plays what it draws

    for sample in range(2):
        list(Watched(8).play(lambda: Drawn(2, [0]), range(5), sample=sample))
    assert np.array_equal(seen[0], seen[len(seen) // 2])  # the first prompts, before anything was drawn


def test_without_verdicts_there_is_no_pass_rate():
    results = [Result(i, 0, score=1.0) for i in range(3)]
    assert summarise(results, [1]).pass_at == {}
    cut = [*results, Result(3, 0, score=1.0, passed=True)]  # the others were cut off before their verdict
    assert summarise(cut, [1]).pass_at[1][0] == 0.25


def test_files_of_others_are_left_alone_and_functions_are_known_by_name(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("one line without an end")
    with pytest.raises(AgentError, match="does not hold results"):
        run(notes)
    assert notes.read_text() == "one line without an end"
    agent, path = RandomAgent(12), tmp_path / "answers.jsonl"
    evaluate_agent(agent, token_env, range(2), path, env_options={"verifier": Letters()})
    header = json.loads(path.read_text().splitlines()[0])
    assert header["env"] == "tests.agents.test_evaluate_agents:token_env"
    assert header["env_options"] == {"verifier": "tests.agents.small:Letters"}


def test_an_undefined_score_is_read_again(tmp_path):
    path = tmp_path / "answers.jsonl"
    run(path, n=2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["score"] = None
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert np.isnan(summarise(run(path, n=2), [1]).score)


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
    assert options_of(replace(args, env="llm_envs:llm_envs/Transform-v0")) == {"difficulty": 2, "max_new_tokens": 7}
    assert options_of(Evaluate("ppo", "llm_envs/Arithmetic-v0", checkpoint=tmp_path / "checkpoint")) == {}
    which = identity(args, {"api_key": "SECRET", "model": "m"})
    assert which["options"] == {"model": "m"}
    assert len(which["weights"]) == 16
    assert default_name(args) == default_name(replace(args, options=("api_key", "OTHER")))
    assert default_name(args) != default_name(replace(args, options=("model", "m")))


def test_a_checkpoint_brings_its_tokenizer(tmp_path):
    letters = {letter: i for i, letter in enumerate(["<pad>", "<eos>", "<unk>", *string.printable])}
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token="<unk>"))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    fast.save(str(tmp_path / "letters.json"))
    env = gym.make_vec(
        "llm_envs/Transform-v0", num_envs=2, autoreset_mode=AutoresetMode.DISABLED, split="train",
        tokenizer=str(tmp_path / "letters.json"),
    )  # fmt: skip
    make_agent(llama(vocabulary=258), env).save(tmp_path / "by-path")
    args = Evaluate("ppo", "llm_envs/Transform-v0", checkpoint=tmp_path / "by-path")
    assert options_of(args) == {"tokenizer": str(tmp_path / "letters.json")}
    assert options_of(replace(args, env="llm_envs/Arithmetic-v0")) == options_of(args)
    slow = transformers.ByT5Tokenizer()
    make_agent(llama(vocabulary=384), agent_options={"tokenizer": slow}).save(tmp_path / "slow")
    assert options_of(replace(args, checkpoint=tmp_path / "slow")) == {"tokenizer": str(tmp_path / "slow")}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--options", "device", "gpu"], "the model cannot be moved to device 'gpu'"),
        (["--options", "model", "5"], "model must be a causal language model"),
        (["--options", "config", '{"temprature": 0.5}'], "PPOConfig has no setting 'temprature'"),
        (["--env-options", "split", "test"], "give the split as --split"),
        (["--options", "model", "5", "device", "cpu"], "model must be a causal language model"),
        (["--verifier", "numeric", "--env-options", "extra_verifiers", '["numeric"]'], "not both"),
        (["--env", "llm_envs:llm_envs/Nothing-v0"], "Nothing"),
        (["--env", "./x/Nothing-v0"], "unknown environment './x/Nothing-v0'"),
        (["--env-options", "tokenizer", "byte"], "trained in an environment with 12 tokens, this one has 258"),
    ],
)
def test_mistakes_of_the_command_are_one_sentence(tmp_path, arguments, said, monkeypatch, capsys):
    folder = tmp_path / "checkpoint"
    make_agent(llama(vocabulary=300)).save(folder)
    checkpoint = [] if "model" in arguments else ["--checkpoint", str(folder)]
    monkeypatch.setattr(
        sys, "argv", ["agents", "evaluate", "--agent", "ppo", "--env", "llm_envs/Transform-v0", *checkpoint, *arguments]
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"error: .*{re.escape(said)}"):
        main()
    assert not (tmp_path / "evaluations").exists()


def test_an_id_may_name_the_module_that_registers_it(tmp_path, monkeypatch, capsys):
    out = str(tmp_path / "a.jsonl")
    monkeypatch.setattr(
        sys, "argv", ["agents", "evaluate", "--agent", "scripted", "--env", f"llm_envs:{TEXT}", "--episodes", "2",
                      "--out", out, "--env-options", "extra_verifiers", '{"gold": "exact_match"}']
    )  # fmt: skip
    main()
    assert json.loads((tmp_path / "a.summary.json").read_text())["all"]["judges"] == {"gold": 1.0}


def test_headers_tell_numbers_and_settings_apart(tmp_path):
    path = tmp_path / "answers.jsonl"
    run(path, n=2, seed=np.int64(1), which={"config": PPOConfig()})
    with pytest.raises(AgentError, match="its seed differ"):
        run(path, n=2, seed=np.int64(2), which={"config": PPOConfig()})
    with pytest.raises(AgentError, match="its which differ"):
        run(path, n=2, seed=np.int64(1), which={"config": PPOConfig(epochs=3)})


def test_indices_may_be_numpys():
    assert [e.score for e in ScriptedAgent("gold").play(TEXT, np.arange(2), env_options={"split": "validation"})] == [
        1,
        1,
    ]


def test_a_summary_of_another_version_is_refused(tmp_path):
    make_agent().save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "checkpoint.json").write_text('{"agent": "ppo"}')
    with pytest.raises(AgentError, match="lacks config, env"):
        agents.load("ppo", tmp_path / "checkpoint", token_env)


def test_gradients_that_were_not_clipped_are_not_clipped_after_loading(tmp_path):
    make_agent(optimizer__max_grad_norm=float("inf")).save(tmp_path / "checkpoint")
    agent = agents.load("ppo", tmp_path / "checkpoint", token_env, num_envs=4)
    assert agent.config.optimizer.max_grad_norm is None
    agent.learn(8)


@pytest.mark.parametrize("content", ["{}", "[]", "1", "{"])
def test_a_damaged_summary_is_no_checkpoint(tmp_path, content):
    make_agent().save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "checkpoint.json").write_text(content)
    with pytest.raises(AgentError, match="checkpoint.json is missing or damaged"):
        agents.load("ppo", tmp_path / "checkpoint", token_env)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_checkpoint_is_one_sentence(tmp_path, name):
    make_agent().save(tmp_path / "checkpoint")
    damaged = tmp_path / "checkpoint" / name
    damaged.write_bytes(damaged.read_bytes()[:40])
    with pytest.raises(AgentError, match="checkpoint cannot be read: "):
        agents.load("ppo", tmp_path / "checkpoint", token_env)


def test_settings_of_another_agent_and_a_tokenizer_that_cannot_be_saved_are_refused():
    with pytest.raises(AgentError, match="agent 'ppo' needs a PPOConfig, got GRPOConfig"):
        agents.make("ppo", token_env, model=llama(), config=GRPOConfig())
    with pytest.raises(AgentError, match="tokenizer must be one of transformers, got Letters"):
        agents.make("ppo", token_env, model=llama(), tokenizer=Letters())
    assert agents.make("grpo", token_env, model=llama(), config={"group_size": 4}, num_envs=4).config.group_size == 4


def test_other_weights_in_the_same_place_are_another_agent(tmp_path):
    args = Evaluate("ppo", TEXT, checkpoint=tmp_path / "checkpoint")
    found = []
    for seed in range(2):
        shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
        make_agent(llama(seed)).save(tmp_path / "checkpoint")
        found.append(identity(args, {})["weights"])
    llama(0).save_pretrained(tmp_path / "model")
    found.append(identity(Evaluate("ppo", TEXT), {"model": str(tmp_path / "model")})["weights"])
    assert len(set(found)) == 3


def test_a_judge_that_breaks_costs_its_answers_and_is_said(tmp_path):
    out = tmp_path / "answers.jsonl"
    arguments = ("evaluate", "--agent", "scripted", "--env", TEXT, "--episodes", 3, "--out", out)
    process = command(*arguments, "--verifier", "tests.agents.judges:Broken")
    assert process.returncode == 0, process.stderr
    assert json.loads(out.with_suffix(".summary.json").read_text())["all"]["judges"] == {
        "tests.agents.judges:Broken": None
    }
    process = command(*arguments[:-1], tmp_path / "b.jsonl", "--env-options", "verifier", "tests.agents.judges:Broken")
    assert process.returncode == 1
    assert "error: 3 answers failed (the same command asks for them again)" in process.stderr


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
    header = json.loads(out.read_text().splitlines()[0])
    assert header["which"]["options"] == {"model": str(folder), "device": "cpu"}
    assert "Tokenizer" in header["env_options"]["tokenizer"]
