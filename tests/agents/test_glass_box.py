"""The glass box: the chapter's four-token fixture column by column, and a real rollout against its batch."""

import io
import math
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from agents.glass_box import TokenRow, glass_box, glass_table
from agents.kl import estimate
from agents.policy import Scores
from agents.ppo import PPOConfig, objective
from agents.ppo.agent import PPOBatch
from agents.rewards import shaped_rewards
from agents.rollout import Rollout
from agents.sampling import Sampling
from tests.agents.small import EOS, Letters, iterate, make_agent, make_env, scripted_batch
from tests.agents.test_objective import CURRENT, MASK, OLD, REF, SCORE, VALUES
from tests.agents.test_rollouts import Inserting

TEXTS = {101: "Add", 102: "null", 103: "check", 2: "<eos>"}


class Stub:
    """A policy that says what it is told to."""

    def __init__(self, logprobs):
        self.logprobs = logprobs

    def score(self, tokens, lengths, positions, sampling, allowed):
        return Scores(self.logprobs, torch.zeros_like(self.logprobs), torch.zeros(len(tokens), 0))


def stored(tokens, old, ref, values, rewards, advantages, mask):
    """A batch of one answer to a prompt of two tokens."""
    n = len(tokens)
    rollout = Rollout(
        tokens=torch.tensor([[7, 8, *tokens]]), lengths=torch.tensor([n + 2]), prompt_lengths=torch.tensor([2]),
        positions=torch.arange(2, n + 2)[None], n_actions=torch.tensor([n]), logprobs=old,
        rewards=torch.zeros(1, n), terminated=torch.tensor([True]), truncated=torch.tensor([False]),
        allowed=torch.ones(200, dtype=torch.bool), n_tokens=200, infos=[{}], sampling=Sampling(), weight_version=0,
    )  # fmt: skip
    return PPOBatch(
        rollout, mask, old, ref, torch.zeros(1, n), torch.zeros(1, n), rewards, advantages, None, 0.2, None,
        values=values, last_value=torch.zeros(1), returns=advantages + values,
    )  # fmt: skip


def fixture():
    rewards = shaped_rewards(SCORE, OLD, REF, 0.20, MASK)
    advantages = objective.gae(rewards, VALUES, torch.zeros(1, dtype=torch.float64), MASK, 1.0, 0.95)
    return stored([101, 102, 103, 2], OLD, REF, VALUES, rewards, advantages, MASK)


def columns(current, batch, config=None):
    agent = SimpleNamespace(policy=Stub(current), config=config or PPOConfig())
    return glass_box(agent, batch, 0, lambda ids: TEXTS.get(ids[0], "?"))


TABLES = {
    "position": [0, 1, 2, 3],
    "token": [101, 102, 103, 2],
    "text": ["Add", "null", "check", "<eos>"],
    "old": [-0.8, -1.0, -0.6, -1.2],
    "reference": [-0.9, -0.8, -0.7, -1.0],
    "current": [-1.156675, -1.0, -0.504690, -0.899895],
    "kl": [0.1, -0.2, 0.1, -0.2],
    "value": [1.0, 0.9, 0.3, 0.1],
    "reward": [-0.02, 0.04, -0.02, 1.04],
    "advantage": [-0.0446175, 0.07935, 0.673, 0.94],
    "returns": [0.9553825, 0.97935, 0.973, 1.04],
    "ratio": [0.70, 1.00, 1.10, 1.35],
    "clipped": [True, False, False, True],
}


@pytest.mark.parametrize("column", TABLES)
def test_columns_of_tables_3_1_to_3_3(column):
    found = [getattr(row, column) for row in columns(CURRENT, fixture())]
    assert found == pytest.approx(TABLES[column], abs=1e-6) if column != "text" else found == TABLES[column]


def test_every_column_is_in_one_of_the_tables():
    assert set(TABLES) == set(TokenRow._fields)


def test_table_3_4_before_the_first_update():
    old = torch.tensor([[-3.148, -3.544, -0.932]])
    values, advantages = torch.tensor([[0.296, 0.233, 0.265]]), torch.tensor([[-0.165, -0.108, -0.147]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    rows = columns(old, stored([1, 2, 3], old, old, values, torch.zeros(1, 3), advantages, mask))
    assert [row.kl for row in rows] == [0.0, 0.0, 0.0]
    assert [row.ratio for row in rows] == [1.0, 1.0, 1.0]
    assert not any(row.clipped for row in rows)
    assert [row.returns for row in rows] == pytest.approx([0.131, 0.125, 0.118], abs=1e-6)


@pytest.mark.parametrize(
    ("config", "cut"),
    [
        (PPOConfig(clip=0.4), [False, False, False, False]),
        (PPOConfig(clip_high=0.4), [True, False, False, False]),
        (PPOConfig(clip=0.05), [True, False, True, True]),
    ],
)
def test_what_is_cut_depends_on_the_settings(config, cut):
    assert [row.clipped for row in columns(CURRENT, fixture(), config)] == cut


def test_a_dual_clip_cuts_too():
    batch = fixture()
    batch.advantages = -batch.advantages.abs()
    assert [row.clipped for row in columns(CURRENT, batch, PPOConfig(dual_clip=1.3))] == [True, False, False, True]


def test_an_agent_without_critic_has_no_values_and_without_clip_nothing_cut():
    batch = fixture()
    plain = SimpleNamespace(**{k: v for k, v in vars(batch).items() if k not in ("values", "returns", "last_value")})
    agent = SimpleNamespace(policy=Stub(CURRENT), config=SimpleNamespace())
    rows = glass_box(agent, plain, 0, lambda ids: "x")
    assert {(row.value, row.returns, row.clipped) for row in rows} == {(None, None, False)}


def decode(ids):
    return Letters().decode(ids)


def test_a_real_rollout_right_after_scoring_and_after_training():
    agent = iterate(make_agent(kl__coef=0.3), 1)
    batch = agent.score(agent.collect())
    rollout = batch.rollout
    for row in range(8):
        rows = glass_box(agent, batch, row, decode)
        n, start = int(rollout.n_actions[row]), int(rollout.prompt_lengths[row])
        assert [entry.token for entry in rows] == rollout.tokens[row, start : start + n].tolist()
        assert [entry.text for entry in rows] == [decode([entry.token]) for entry in rows]
        for t, entry in enumerate(rows):
            assert entry.old == float(rollout.logprobs[row, t])
            assert entry.current == pytest.approx(entry.old, abs=1e-5)
            assert entry.ratio == pytest.approx(1.0, abs=1e-5)
            shaped = float(rollout.rewards[row, t]) - 0.3 * entry.kl
            assert entry.reward == pytest.approx(shaped if batch.mask[row, t] else 0.0, abs=1e-6)
            assert entry.value == float(batch.values[row, t])
            assert entry.advantage == float(batch.advantages[row, t])
            assert not entry.clipped
    assert any(entry.kl != 0 for entry in rows)
    agent.update(batch)
    later = glass_box(agent, batch, 7, decode)
    assert [entry.old for entry in later] == [entry.old for entry in rows]
    assert any(abs(entry.ratio - 1) > 1e-3 for entry in later)
    assert all(entry.ratio == pytest.approx(math.exp(entry.current - entry.old), rel=1e-6) for entry in later)


def test_inserted_tokens_have_no_row():
    agent = make_agent(env=Inserting(2))
    batch = agent.score(agent.collect())
    rows = glass_box(agent, batch, 1, str)
    assert len(rows) == 3
    tokens = batch.rollout.tokens[1]
    assert [entry.token for entry in rows] == tokens[[2, 3, 6]].tolist()
    assert tokens[4:6].tolist() == [8, 9]


def test_the_terminal_reward_stands_in_the_last_row():
    agent, batch = scripted_batch([[0, 1, EOS], [0] * 6], kl__coef=0.0)
    assert [entry.reward for entry in glass_box(agent, batch, 0, decode)] == [0.0, 0.0, 2.0]
    kl = estimate(batch.old_logprobs, batch.ref_logprobs, "k1")[0]
    assert [entry.kl for entry in glass_box(agent, batch, 0, decode)] == pytest.approx(kl[:3].tolist())


@pytest.mark.parametrize("row", [-1, 8])
def test_a_row_that_is_not_there_is_named(row):
    agent = make_agent(env=make_env())
    batch = agent.score(agent.collect())
    with pytest.raises(IndexError, match=rf"row must be from 0 to 7, got {row}"):
        glass_box(agent, batch, row, decode)


def test_the_printed_table_shows_numbers_line_breaks_and_brackets():
    rows = columns(CURRENT, fixture())
    rows = [rows[0]._replace(text="[red]\n", value=None), *rows[1:]]
    console = Console(width=200, file=io.StringIO())
    console.print(glass_table(rows, title="answer 0"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("answer 0", "[red]\\n", "-1.1567", "0.6730", "1.3500", "<eos>"):
        assert expected in text
    assert text.count("yes") == 2
