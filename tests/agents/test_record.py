"""The acceptance record and the evaluations in it: a whole one passes, wrong ones are refused by name."""

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agents.evaluate import Evaluation, interval, judge_rates, powers_of_two
from agents.jsonable import jsonable
from agents.perturbation import Sensitivity, reward_sensitivity
from agents.record import SCHEMA, acceptance_record, split_identity, validate_record
from llm_envs import TextEnv, TokenVectorEnv
from tests.agents.small import PROMPTS, Letters, Vowels, iterate, make_agent, make_env, make_task
from verifiers import Example, Verdict, Verifier, VerifierError

HASH = "0123456789abcdef"


@pytest.fixture(scope="module")
def record():
    agent, history = make_agent(), []
    found: list[Sensitivity] = []

    def on_iteration(agent, metrics, batch):
        history.append(dict(metrics))
        found[:] = reward_sensitivity(agent, batch)

    before = {"train": agent.evaluate(make_env(), 8, samples=2)}
    agent.on_iteration = on_iteration
    iterate(agent, 2)
    after = {"train": agent.evaluate(make_env(), 8, samples=2)}
    made = acceptance_record(agent, agent.config, make_task(), before, after, history, {"problems": 0.5}, found)
    return made, agent, history


def test_a_run_makes_a_valid_record_of_plain_json(record):
    made, agent, history = record
    validate_record(json.loads(json.dumps(made, allow_nan=False)))
    assert set(made) == set(SCHEMA["required"])
    assert (made["agent"], made["iterations"], made["weights"]["updates"]) == ("ppo", 2, 2)
    assert made["weights"]["policy"] == agent.policy.fingerprint() != made["weights"]["reference"]
    assert made["tokens"] == {"sampled": agent.num_timesteps, "episodes": 16}
    assert made["settings"]["kl"]["coef"] == 0.05
    assert made["splits"]["train"]["size"] == len(PROMPTS)
    assert made["ratio_denominator"] == "stored at sampling"
    assert made["reward_components"]["objective/scores"] == history[-1]["objective/scores"]
    assert made["update"]["policy/clipfrac_avg"] == history[-1]["policy/clipfrac_avg"]
    assert made["logprob_mismatch"]["worst"] == max(line["mismatch/max"] for line in history)
    assert {entry["component"] for entry in made["reward_sensitivity"]} == {"kl", "score"}
    for phase in ("generation", "verification", "scoring", "update"):
        assert made["seconds"][phase] == pytest.approx(sum(line[f"seconds/{phase}"] for line in history))
    assert made["seconds"]["problems"] == 0.5
    assert made["peak_memory"]["process_bytes"] > 10**7


def test_a_run_of_no_iterations_has_a_record():
    agent = make_agent()
    made = acceptance_record(agent, {}, make_task(), {}, {}, [], {})
    assert made["logprob_mismatch"] == {"last": {}, "worst": None}
    assert made["weights"]["policy"] == made["weights"]["reference"]


def test_what_is_no_record_is_not_returned():
    agent = make_agent()
    with pytest.raises(ValueError, match="record.json: settings"):
        acceptance_record(agent, ["no", "settings"], make_task(), {}, {}, [], {})


def broken(record, path, value):
    """The record with one entry changed; without it when the value is `...`."""
    made = copy.deepcopy(record[0])
    *way, last = path.split("/")
    holder = made
    for name in way:
        holder = holder[int(name) if isinstance(holder, list) else name]
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("weights/policy", "none", "weights/policy: 'none' does not match"),
        ("weights/updates", -1, "weights/updates: -1 is less than the minimum"),
        ("iterations", 1.5, "iterations: 1.5 is not of type 'integer'"),
        ("splits/train/sha256", ..., "splits/train: 'sha256' is a required property"),
        ("held_out/after/train/greedy", 1.2, "held_out/after/train/greedy: 1.2 is greater than the maximum"),
        (
            "held_out/after/train/intervals/greedy",
            [0.5],
            r"held_out/after/train/intervals/greedy: \[0.5\] is too short",
        ),
        ("held_out/before/train/judges", {"x": 1}, "held_out/before/train/judges/x: 1 is not of type 'object'"),
        ("reward_sensitivity/0/change", "big", "reward_sensitivity/0/change: 'big' is not of type"),
        ("sampling/top_k", None, "sampling/top_k: None is not of type 'integer'"),
        ("update", {"loss/policy_avg": "0.1"}, "update/loss/policy_avg: '0.1' is not of type"),
        ("seconds", ..., "the record: 'seconds' is a required property"),
        ("comment", "fine run", "the record: .*'comment' was unexpected"),
        ("peak_memory/process_bytes", -5, "peak_memory/process_bytes: -5"),
        ("agent", 7, "agent: 7 is not of type 'string'"),
    ],
)
def test_a_wrong_record_is_refused_by_name(record, path, value, message):
    with pytest.raises(ValueError, match=rf"record\.json: {message}"):
        validate_record(broken(record, path, value))


def test_a_metric_may_be_missing_since_agents_have_different_ones(record):
    made = copy.deepcopy(record[0])
    del made["update"]["loss/policy_avg"]
    validate_record(made)


def test_what_identifies_a_split():
    examples = [Example(str(i), f"p{i}", {"n": i}, "a") for i in range(5)]
    first = split_identity(examples, 3)
    assert (first["size"], first["hashed"]) == (5, 3)
    changes: list[dict[str, Any]] = [{"id": "x"}, {"prompt": "x"}, {"hidden": {"n": 9}}, {"gold": "b"}]
    for change in changes:
        changed = [examples[0], replace(examples[1], **change), *examples[2:]]
        assert split_identity(changed, 3)["sha256"] != first["sha256"], change
    assert split_identity(examples[::-1], 5)["sha256"] != split_identity(examples, 5)["sha256"]


# Evaluations


class HasB(Verifier):
    """Passes answers with a b; one with a d breaks it."""

    def verify(self, example, answer):
        if "d" in answer.text:
            raise VerifierError("no d, please")
        return Verdict(1.0, "b" in answer.text, "passed" if "b" in answer.text else "wrong")


def judged_env(rows=8):
    task, extra = make_task(), {"b": HasB(), "vowels": Vowels()}
    rows = [lambda: TextEnv(task, "train", on_verifier_error="unscored", extra_verifiers=extra)] * rows
    return TokenVectorEnv(rows, tokenizer=Letters(), max_length=40, autoreset_mode="Disabled")


def test_other_verifiers_judge_the_same_answers():
    agent = make_agent(env=judged_env())
    evaluation = agent.evaluate(judged_env(), 8, samples=4)
    assert set(evaluation.judges) == {"b", "vowels"}
    env, texts = judged_env(), []
    from agents.rollout import collect
    from agents.sampling import Sampling

    rollout = collect(env, agent.engine, Sampling(greedy=True), None, indices=list(range(8)))
    texts = [answer for _, answer in rollout.texts(env.decode)]
    judged = ["b" in text for text in texts if "d" not in text]
    assert len(judged) < 8, "an answer that breaks a judge is left out of its rate"
    assert evaluation.judges["b"]["greedy"] == pytest.approx(np.mean(judged))
    assert evaluation.metrics("eval")["eval/b/greedy"] == evaluation.judges["b"]["greedy"]
    unbroken = [text for text in texts if "h" not in text]
    assert evaluation.judges["vowels"]["greedy"] == pytest.approx(np.mean(["a" in text for text in unbroken]))


def test_judge_rates_by_hand():
    def info(**verdicts):
        return {"extra_verdicts": {k: None if v is None else {"passed": v} for k, v in verdicts.items()}}

    greedy = [info(a=True, b=None), info(a=False, b=None), {}]
    sampled = [info(a=True, b=True), info(a=None, b=False)]
    found = judge_rates(greedy, sampled)
    assert found["a"] == {"greedy": 0.5, "sampled": 1.0}
    assert found["b"]["sampled"] == 0.5
    assert math.isnan(found["b"]["greedy"])
    assert judge_rates([{}], [{}]) == {}


def test_pass_at_k_of_an_evaluation_is_that_of_its_answers():
    agent = make_agent(temperature=1.5)
    env = make_env(4, allowed_tokens=[token for token in range(12) if token != 7])  # an h breaks the judge
    evaluation = agent.evaluate(env, 8, samples=5)
    assert evaluation.unscored == 0
    assert (evaluation.episodes, evaluation.samples) == (8, 5)
    assert list(evaluation.pass_at) == [1, 2, 4, 5] == powers_of_two(5)
    assert evaluation.pass_at[1] == pytest.approx(evaluation.sampled)
    rates = list(evaluation.pass_at.values())
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]
    assert evaluation.pass_at[5] * 8 == pytest.approx(round(evaluation.pass_at[5] * 8)), "any of all five"
    assert set(evaluation.intervals) == {"greedy", "sampled", "pass@k"}
    for name, rate in (("greedy", evaluation.greedy), ("sampled", evaluation.sampled), ("pass@k", rates[-1])):
        low, high = evaluation.intervals[name]
        assert 0 <= low <= rate <= high <= 1
    flat = evaluation.metrics("eval")
    assert flat["eval/pass@5"] == evaluation.pass_at[5]
    assert "eval/pass@1" not in flat, "that is eval/sampled"
    assert sum(evaluation.kinds.values()) == 40


def test_an_interval_of_equal_rates_still_has_a_width():
    low, high = interval([1.0] * 10)
    assert (low, high) == (pytest.approx(0.7225, abs=1e-4), 1.0)
    assert interval([0.0]) != (0.0, 0.0)


def test_an_evaluation_read_back_is_the_one_that_was_written():
    evaluation = make_agent().evaluate(make_env(), 8, samples=2)
    judges = {"b": {"greedy": math.nan, "sampled": 0.5}}
    evaluation = replace(evaluation, judges=judges, intervals={**evaluation.intervals, "greedy": (0.0, 1.0)})
    back = Evaluation.from_json(json.loads(json.dumps(jsonable(evaluation), allow_nan=False)))
    assert replace(back, judges={}) == replace(evaluation, judges={})
    assert back.judges["b"]["sampled"] == 0.5
    assert math.isnan(back.judges["b"]["greedy"])
