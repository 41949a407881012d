"""Small models, a small task and small agents for the tests of the agents."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from agents.engine import Turn
from agents.losses import loss_weights
from agents.ppo import PPO, PPOConfig
from llm_envs import Task, TextEnv, TokenVectorEnv
from verifiers import Example, Verdict, Verifier, VerifierError

LETTERS = "abcdefgh \n"
AB, EOS = 10, 11  # "ab" has a token of its own, and one token both pads and ends
VOCABULARY = 12


class Letters:
    """A tokenizer of ten letters; the ids (a, b) decode to a text that encodes to another id; pad is also EOS."""

    vocab_size, eos_token_id, pad_token_id = VOCABULARY, EOS, EOS

    def encode(self, text):
        return [AB if piece == "|" else LETTERS.index(piece) for piece in text.replace("ab", "|")]

    def decode(self, ids):
        return "".join("ab" if i == AB else LETTERS[i] for i in ids if i != EOS)

    def chat(self, messages, tools=None):
        raise NotImplementedError

    def chat_later(self, message, last_token):
        raise NotImplementedError


class Vowels(Verifier):
    """Scores 1 plus the number of a's; an answer that holds an h breaks the judge."""

    def verify(self, example, answer):
        if "h" in answer.text:
            raise VerifierError("the judge broke")
        count = answer.text.count("a")
        return Verdict(1.0 + count, count > 0, "passed" if count else "wrong")


PROMPTS = ("c\n", "cd\n", "c d ef\n", "cdefg cdefg\n", "g\n", "f f f f f f f f\n", "dd\n", "e ab ab\n")


def make_task(budget=6):
    examples = [Example(str(i), prompt, {}, "a") for i, prompt in enumerate(PROMPTS)]
    return Task("Vowels", lambda split: examples, ("train",), Vowels(), extract=_as_it_is, max_new_tokens=budget)


def _as_it_is(example, message):
    from verifiers import Answer

    return Answer(message)


def make_env(rows=8, budget=6, *, on_verifier_error="unscored", **options):
    task = make_task(budget)
    functions = [lambda: TextEnv(task, "train", on_verifier_error=on_verifier_error)] * rows
    return TokenVectorEnv(functions, tokenizer=Letters(), max_length=40, autoreset_mode="Disabled", **options)


def llama(seed=0, vocabulary=VOCABULARY, **changes):
    """Initial weights are large, so that distributions are far from uniform and mistakes are seen."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=64, bos_token_id=None, eos_token_id=EOS, pad_token_id=EOS,
            initializer_range=0.3, tie_word_embeddings=False, **changes,
        )
    )  # fmt: skip


def gpt2(seed=0, vocabulary=VOCABULARY, dropout=0.0):
    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=EOS, eos_token_id=EOS,
            initializer_range=0.3, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        )
    )  # fmt: skip


MODELS: dict[str, Any] = {"llama": llama, "gpt2": gpt2}


def configure(config=None, **changes):
    """Settings with some changed; `critic__warmup` is the field `warmup` of the section `critic`."""
    config = CONFIG if config is None else config
    sections: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        section, _, field = name.rpartition("__")
        sections.setdefault(section, {})[field] = value
    own = sections.pop("", {})
    return replace(config, **own, **{name: replace(getattr(config, name), **new) for name, new in sections.items()})


CONFIG = configure(
    PPOConfig(), optimizer__learning_rate=1e-3, critic__learning_rate=1e-2, epochs=2, minibatches=2, micro_batch=64,
    gae_lambda=0.95, eval_every=0,
)  # fmt: skip


def make_agent(model=None, env=None, agent_options=(), **changes):
    model, env = llama() if model is None else model, make_env() if env is None else env
    return PPO(model, env, configure(**changes), **dict(agent_options))


def iterate(agent, n):
    """Exactly n iterations (with a constant learning rate, `total_timesteps` decides nothing else)."""
    for _ in range(n):
        agent.learn(agent.num_timesteps + 1)
    return agent


def random_prefixes(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 10, n) for n in lengths]


class Scripted:
    """An engine that writes given turns, whatever the policy thinks; one list of turns per row, told by its prompt."""

    weight_version, reports_kept_sets = 0, True

    def __init__(self, turns, logprob=-1.0):
        self.turns, self.logprob, self.rows = [list(map(list, row)) for row in turns], logprob, None

    def generate(self, prefixes, budgets, stop_token_ids, allowed, sampling, generator):
        if self.rows is None:
            self.rows = dict(zip((tuple(p) for p in prefixes), range(len(prefixes)), strict=True))
        written = []
        for prefix, budget in zip(prefixes, budgets, strict=True):
            row = next(r for start, r in self.rows.items() if tuple(prefix[: len(start)]) == start)
            ids = self.turns[row].pop(0) if budget > 1 else [self._next_token(row)]
            stop = "stop" if ids[-1] in stop_token_ids else "length"
            written.append(Turn(np.array(ids), np.full(len(ids), self.logprob, np.float32), stop))
        return written

    def _next_token(self, row):
        token = self.turns[row][0].pop(0)
        if not self.turns[row][0]:
            self.turns[row].pop(0)
        return token


def scripted_batch(turns, env=None, indices=None, **changes):
    """(agent, batch) after the rows of the environment wrote the given turns."""
    from agents.rollout import collect

    env = make_env(len(turns)) if env is None else env
    agent = make_agent(env=env, mismatch_tolerance=1e9, **changes)
    torch.nn.init.constant_(agent.policy.value_head.bias, 0.7)
    indices = list(range(len(turns))) if indices is None else indices
    rollout = collect(env, Scripted([[turn] for turn in turns]), agent.sampling, None, indices=indices)
    return agent, agent.score(rollout)


def gradients(agent, batch, pieces, denominator=None, critic_only=False):
    """(total loss, gradient of every parameter) of the minibatch made of `pieces`."""
    rows, config = torch.cat(pieces), agent.config
    weights = torch.zeros(batch.mask.shape)
    weights[rows] = loss_weights(batch.mask[rows], config.aggregation, config.aggregation_constant)
    if denominator is not None:
        weights = batch.mask / denominator
    agent.config = configure(config, critic__warmup=agent.iteration + 1 if critic_only else 0)
    agent.policy.zero_grad(set_to_none=True)
    total = 0.0
    for piece in pieces:
        own = weights[piece, : int(batch.rollout.n_actions[piece].max())]
        loss, _ = agent.loss(batch, piece, own, own)
        loss.backward()
        total += float(loss.detach())
    found = [None if p.grad is None else p.grad.clone() for p in agent.policy.parameters()]
    agent.policy.zero_grad(set_to_none=True)
    agent.config = config
    return total, found


def assert_same_gradients(a, b, tolerance=2e-6):
    assert any(x is not None and x.abs().sum() > 0 for x in a)
    for x, y in zip(a, b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x, y, atol=tolerance, rtol=1e-4)


def snapshot(module):
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
