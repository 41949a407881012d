"""A LoRA adapter: the reference is the policy with it switched off; checkpoints hold it alone and merged."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from agents.models import add_adapter
from agents.policy import disable_dropout
from agents.reference import FrozenReference
from agents.scoring import score_rollout
from tests.agents.small import MODELS, iterate, llama, make_agent, make_env, same, snapshot

pytest.importorskip("peft")
TOKENS = torch.tensor([[1, 2, 3, 4, 5]])


def adapted(name="llama", seed=0, dropout=0.0):
    model = add_adapter(MODELS[name](), 2, seed)
    if dropout:
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", lora_dropout=dropout)
        model = get_peft_model(MODELS[name](), config)
    return model


def agent_with_adapter(name="llama", model=None, **changes):
    model = adapted(name) if model is None else model
    return make_agent(model, agent_options={"reference": "adapter"}, optimizer__learning_rate=1e-2, **changes)


def base_weights(model):
    return {name: tensor for name, tensor in snapshot(model).items() if "lora" not in name}


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.mark.parametrize("name", MODELS)
def test_the_reference_is_bit_identical_before_and_after_training(name):
    agent = agent_with_adapter(name)
    rollout = agent.collect()
    before, weights = score_rollout(agent.reference, rollout, 8).logprobs, base_weights(agent.policy.model)
    fingerprints = agent.reference.fingerprint(), agent.policy.fingerprint()
    assert torch.equal(before, score_rollout(agent.policy, rollout, 8).logprobs), "nothing is adapted yet"
    iterate(agent, 2)
    assert torch.equal(before, score_rollout(agent.reference, rollout, 8).logprobs)
    assert same(weights, base_weights(agent.policy.model))
    difference = (score_rollout(agent.policy, rollout, 8).logprobs - before)[rollout.real]
    assert float(difference.abs().max()) > 1e-3, "after the reference has scored, the adapter is on again"
    assert agent.reference.fingerprint() == fingerprints[0]
    assert agent.policy.fingerprint() != fingerprints[1]


def test_it_is_the_reference_that_a_copy_of_the_base_would_be():
    agent = iterate(agent_with_adapter(), 2)
    copy = make_agent(adapted(), optimizer__learning_rate=1e-2)
    iterate(copy, 2)
    rollout = agent.collect()
    assert isinstance(copy.reference, FrozenReference)
    for a, b in ((agent.reference, copy.reference), (agent.policy, copy.policy)):
        assert torch.equal(score_rollout(a, rollout, 8).logprobs, score_rollout(b, rollout, 8).logprobs)


def test_answers_come_from_the_adapted_policy_and_the_kl_is_to_the_base():
    agent = iterate(agent_with_adapter(), 3)
    rollout = agent.collect()
    own, base = (score_rollout(p, rollout, 8).logprobs for p in (agent.policy, agent.reference))
    assert float((own - rollout.logprobs)[rollout.real].abs().max()) < 1e-4
    batch = agent.score(rollout)
    assert torch.equal(batch.ref_logprobs, base)
    assert agent.evaluate(make_env(), 8).kl != 0.0
    again = agent.collect()
    assert torch.equal(again.tokens, rollout.tokens), "evaluating left the adapter on"


def test_an_exception_while_the_reference_scores_leaves_the_adapter_on(monkeypatch):
    agent = iterate(agent_with_adapter(), 1)
    rollout, before = agent.collect(), logits(agent.policy.model)
    trained = [p.requires_grad for p in agent.policy.model.parameters()]
    with monkeypatch.context() as patch:
        patch.setattr("agents.policy.log_distribution", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            score_rollout(agent.reference, rollout, 8)
    assert torch.equal(logits(agent.policy.model), before)
    assert [p.requires_grad for p in agent.policy.model.parameters()] == trained
    with agent.policy.model.disable_adapter():
        assert not torch.equal(logits(agent.policy.model), before)


def test_only_the_adapter_and_the_critic_are_trained():
    agent = agent_with_adapter()
    parameters, _ = agent.groups["policy"]
    names = {name for name, p in agent.policy.model.named_parameters() if any(p is q for q in parameters)}
    assert names
    assert all("lora" in name for name in names)
    assert sum(p.numel() for p in parameters) < 0.5 * sum(p.numel() for p in agent.policy.model.parameters())
    iterate(agent, 1)
    base = [p for name, p in agent.policy.model.named_parameters() if "lora" not in name]
    assert all(p.grad is None and not p.requires_grad for p in base)


def test_an_adapter_that_already_changes_the_model_is_refused():
    model = iterate(agent_with_adapter(), 1).policy.model
    with pytest.raises(ValueError, match="the adapter already changes it; merge it first"):
        agent_with_adapter(model=model)
    merged = model.merge_and_unload()
    fresh = agent_with_adapter(model=add_adapter(merged, 2, 0))
    assert fresh.score(fresh.collect()).comparison.max < 1e-4


def test_a_model_without_adapter_or_with_trained_base_weights_is_refused():
    with pytest.raises(ValueError, match="needs a PEFT model, got LlamaForCausalLM"):
        make_agent(agent_options={"reference": "adapter"})
    model = adapted()
    model.get_input_embeddings().weight.requires_grad_(True)
    with pytest.raises(ValueError, match="shares the base weights, but '.*embed_tokens.*' is trained"):
        agent_with_adapter(model=model)
    with pytest.raises(ValueError, match="reference must be 'copy', 'adapter' or a model, got 'base'"):
        make_agent(agent_options={"reference": "base"})


def test_dropout_of_the_adapter_never_acts():
    agent = agent_with_adapter(model=adapted(dropout=0.5))
    iterate(agent, 1)
    agent.policy.model.train()
    rollout = agent.collect()
    a, b = (score_rollout(agent.policy, rollout, 8).logprobs for _ in range(2))
    assert torch.equal(a, b)
    model = adapted(dropout=0.5)
    disable_dropout(model)
    assert all(module.p == 0 for module in model.modules() if isinstance(module, torch.nn.Dropout))


@pytest.mark.parametrize("name", MODELS)
def test_a_merged_checkpoint_loads_with_the_same_logits(tmp_path, name):
    agent = iterate(agent_with_adapter(name), 2)
    agent.save(tmp_path / "checkpoint")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint").eval()
    own = logits(agent.policy.model)
    torch.testing.assert_close(logits(loaded), own, atol=1e-5, rtol=0)
    with agent.policy.model.disable_adapter():
        assert float((logits(loaded) - logits(agent.policy.model)).abs().max()) > 1e-3
    assert torch.equal(own, logits(agent.policy.model)), "saving merged nothing into the policy itself"
    assert (tmp_path / "checkpoint" / "adapter" / "adapter_model.safetensors").exists()


def test_a_restored_run_goes_on_as_the_first_one_does(tmp_path):
    straight = iterate(agent_with_adapter(), 2)
    straight.save(tmp_path / "half")
    iterate(straight, 2)
    resumed = agent_with_adapter(model=adapted(seed=5)).restore(tmp_path / "half")
    assert resumed.iteration == 2
    iterate(resumed, 2)
    assert same(snapshot(straight.policy), snapshot(resumed.policy))
    assert resumed.policy.fingerprint() == straight.policy.fingerprint()


def test_another_model_may_be_the_reference():
    other = llama(seed=3)
    agent = make_agent(agent_options={"reference": other})
    rollout, weights = agent.collect(), snapshot(other)
    expected = score_rollout(FrozenReference(llama(seed=3)), rollout, 8).logprobs
    batch = agent.score(rollout)
    assert torch.equal(batch.ref_logprobs, expected)
    assert float((batch.old_logprobs - batch.ref_logprobs).abs().max()) > 0.1
    iterate(agent, 1)
    assert same(weights, snapshot(other))
    assert not any(p.requires_grad for p in other.parameters())


def test_a_reference_that_would_move_or_reads_other_tokens_is_refused():
    model = llama()
    with pytest.raises(ValueError, match="the very model that is trained, so it would move"):
        make_agent(model, agent_options={"reference": model})
    with pytest.raises(ValueError, match="the reference has 13 logits and the policy 12"):
        make_agent(model, agent_options={"reference": llama(vocabulary=13)})


def test_a_reference_of_another_model_makes_the_first_rewards_differ():
    agent = make_agent(agent_options={"reference": llama(seed=3)}, kl__coef=0.5)
    batch = agent.score(agent.collect())
    cost = (batch.score_rewards - batch.rewards).masked_fill(~batch.mask, 0.0)
    torch.testing.assert_close(cost, (0.5 * (batch.old_logprobs - batch.ref_logprobs)).masked_fill(~batch.mask, 0.0))
    assert replace(batch).kl_coef == 0.5
