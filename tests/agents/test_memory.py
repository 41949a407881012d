"""Planned memory against real tensors: what stays byte for byte, what comes and goes within a few percent."""

import copy
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from agents.activations import Estimate, Shape, Workload
from agents.engine import TorchEngine
from agents.memory import KINDS, peak_growth, plan_memory
from agents.policy import Critic, Policy
from agents.sampling import Sampling

VOCABULARY = 96


def llama(tied=True, dtype=torch.float32, layers=2, vocabulary=VOCABULARY):
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=48, intermediate_size=112, num_hidden_layers=layers, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, tie_word_embeddings=tied,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(dtype)


def gpt2(dtype=torch.float32, layers=2):
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=48, n_layer=layers, n_head=6, n_positions=256, bos_token_id=1, eos_token_id=1
    )
    return GPT2LMHeadModel(config).to(dtype)


MODELS = {"llama": llama, "gpt2": gpt2}


def size(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def stored(plan, name):
    return next(model.stored for model in plan.models if model.name == name)


def backward(policy, rows=2, prompt=5, new=3):
    vocabulary = policy.model.config.vocab_size
    tokens = torch.randint(2, vocabulary, (rows, prompt + new))
    positions = torch.arange(prompt, prompt + new).expand(rows, new)
    allowed = torch.ones(vocabulary, dtype=torch.bool)
    scores = policy.score(tokens, torch.full((rows,), prompt + new), positions, Sampling(0.5), allowed)
    loss = scores.logprobs.mean() + scores.entropy.mean()
    (loss + scores.values.square().mean() if policy.value_head is not None else loss).backward()


def measured(module, optimizer):
    """What a step left, by kind."""
    parameters = list(module.parameters())
    return {
        "weights": size(parameters),
        "gradients": size(p.grad for p in parameters if p.grad is not None),
        "optimizer": size(value for state in optimizer.state.values() for value in state.values()),
    }


def test_four_models_of_seven_billion_as_in_the_chapter():
    seven = 7_000_000_000
    plan = plan_memory(seven, critic=seven, frozen=[seven], dtype=torch.bfloat16, master_weights=True)
    assert [model.name for model in plan.models] == ["policy", "critic", "reference", "frozen"]
    found = {kind: plan.stored(kind) / 1e9 for kind in KINDS}
    assert found == {"weights": 56, "gradients": 28, "optimizer": 112, "master weights": 56}
    assert plan.training_state == 252_000_000_000
    assert plan.phases == {}
    assert "252.0 GB" in str(plan)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [llama, lambda dtype: llama(False, dtype), gpt2])
def test_what_a_step_leaves_is_exact(make, dtype):
    policy = Policy(make(dtype=dtype))
    optimizer = torch.optim.AdamW(policy.parameters())
    backward(policy)
    optimizer.step()
    plan = plan_memory(policy.model)
    assert stored(plan, "policy") == {**measured(policy, optimizer), "master weights": 0}
    assert plan.models[0].parameters == sum(p.numel() for p in policy.parameters())
    assert stored(plan, "reference")["weights"] == size(policy.model.parameters())
    from_config = plan_memory(policy.model.config, dtype=dtype)
    assert from_config.models == plan.models


def test_master_weights_are_what_the_optimizer_updates():
    model = llama(dtype=torch.bfloat16)
    masters = [torch.nn.Parameter(p.detach().float()) for p in model.parameters()]
    for master in masters:
        master.grad = torch.zeros_like(master)
    optimizer = torch.optim.AdamW(masters)
    optimizer.step()
    found = stored(plan_memory(model, critic=None, master_weights=True), "policy")
    assert found["master weights"] == size(masters)
    assert found["optimizer"] == size(value for state in optimizer.state.values() for value in state.values())
    assert stored(plan_memory(llama(), critic=None, master_weights=True), "policy")["master weights"] == 0


@pytest.mark.parametrize("tied", [True, False])
def test_a_critic_of_its_own_trains_all_but_an_unread_head(tied):
    critic = Critic(llama(tied))
    optimizer = torch.optim.AdamW(critic.parameters())
    critic.values(
        torch.randint(2, VOCABULARY, (2, 8)), torch.tensor([8, 8]), torch.tensor([[5, 6], [5, 6]])
    ).sum().backward()
    optimizer.step()
    for given in ("copy", llama(tied), llama(tied).config):
        plan = plan_memory(llama(tied), critic=given)
        assert stored(plan, "critic") == {**measured(critic, optimizer), "master weights": 0}
        assert stored(plan, "policy")["weights"] == size(llama(tied).parameters())


def test_eight_bit_moments_are_exact():
    optim = pytest.importorskip("bitsandbytes.optim")
    model = llama()
    optimizer = optim.AdamW8bit(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    moments = [[state[name] for name in ("state1", "state2", "absmax1", "absmax2") if name in state]
               for state in optimizer.state.values()]  # fmt: skip
    assert any(state[0].dtype == torch.uint8 for state in moments)
    assert any(state[0].dtype == torch.float32 for state in moments)
    total = sum(map(size, moments))  # the two tables of 256 codes, 2 KB, are shared by all
    assert stored(plan_memory(model, critic=None, optimizer="adamw_8bit"), "policy")["optimizer"] == total


def test_an_adapter_trains_alone_and_needs_no_second_copy():
    peft = pytest.importorskip("peft")
    plain = llama()
    model = peft.get_peft_model(copy.deepcopy(plain), peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"]))
    policy = Policy(model, value_head=False)
    optimizer = torch.optim.AdamW(p for p in policy.parameters() if p.requires_grad)
    backward(policy)
    optimizer.step()
    plan = plan_memory(model, critic=None, reference="adapter")
    assert [m.name for m in plan.models] == ["policy"]
    assert stored(plan, "policy") == {**measured(policy, optimizer), "master weights": 0}
    ahead = plan_memory(plain.config, critic=None, reference="adapter", adapter_parameters=plan.models[0].trained)
    assert stored(ahead, "policy")["gradients"] == stored(plan, "policy")["gradients"]
    assert stored(ahead, "policy")["weights"] == stored(plan, "policy")["weights"]
    with pytest.raises(ValueError, match="needs a PEFT model"):
        plan_memory(plain, reference="adapter")


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [llama, gpt2])
@torch.no_grad()
def test_the_full_cache_is_exact(make, dtype, autocast):
    model = make(dtype=dtype).eval()
    cache: Any = DynamicCache(config=model.config)
    tokens = torch.randint(2, VOCABULARY, (3, 7))
    for _ in range(4):
        with torch.autocast("cpu", dtype=autocast) if autocast else nullcontext():
            output = model(tokens, past_key_values=cache, use_cache=True)
        tokens = output.logits[:, -1:].argmax(-1)
    found = size(tensor for layer in cache.layers for tensor in (layer.keys, layer.values))
    assert plan_memory(model, Workload(3, 7, 4), autocast_dtype=autocast).kv_cache == found


@pytest.mark.parametrize(
    ("dtype", "autocast"), [(torch.float32, None), (torch.bfloat16, None), (torch.float32, torch.bfloat16)]
)
@pytest.mark.parametrize("make", [llama, gpt2])
def test_what_a_layer_saves_for_its_backward_pass(make, dtype, autocast):
    shallow, deep = (saved_by(make(dtype=dtype, layers=layers).eval(), autocast) for layers in (1, 3))
    run = estimate(make(dtype=dtype), autocast)
    assert (deep - shallow) / 2 / 40 == pytest.approx(run.saved_per_token(), rel=0.01)


def saved_by(model, autocast, rows=2, length=20):
    """Bytes of the activations that the graph of one forward pass holds."""
    seen = {}
    weights = {shape for p in model.parameters() for shape in (p.shape, p.shape[::-1])}

    def keep(tensor):
        if tensor.shape not in weights:  # a cast of a weight is counted apart
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        kept.append(tensor)
        return tensor

    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", dtype=autocast) if autocast else nullcontext():
            output = model(torch.randint(2, VOCABULARY, (rows, length)), use_cache=False)
        del output
    return sum(seen.values())


def estimate(model, autocast):
    w, a = model.dtype.itemsize, (autocast or model.dtype).itemsize
    return Estimate(Shape.of(model.config), Workload(1, 1, 1), w, a, True, 1, True, True, 0, 0, 0, False, {})


WORK = Workload(rows=12, prompt_tokens=60, new_tokens=20, micro_batch=4)
CPU = torch.device("cpu")


def generation_peak(policy, lengths, new, sampling):
    """Measured bytes of weights and sampling."""
    vocabulary = policy.model.config.vocab_size
    prompts, allowed = [np.arange(2, 2 + n) for n in lengths], torch.ones(vocabulary, dtype=torch.bool)
    engine, generator = TorchEngine(policy), torch.Generator().manual_seed(0)
    budgets = np.full(len(prompts), new)
    return size(policy.parameters()) + peak_growth(
        lambda: engine.generate(prompts, budgets, frozenset(), allowed, sampling, generator), CPU
    )


def update_peak(policy, rows, prompt, new, micro_batches):
    """Measured bytes of weights, gradients and what comes and goes, without the optimiser."""
    policy.zero_grad(set_to_none=True)
    return size(policy.parameters()) + peak_growth(
        lambda: [backward(policy, rows, prompt, new) for _ in range(micro_batches)], CPU
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "autocast"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("make", [llama, gpt2])
def test_peaks_are_within_fifteen_percent(make, checkpointing, dtype):
    autocast = torch.bfloat16 if dtype == "autocast" else None
    model = make(dtype=torch.bfloat16 if dtype == "bfloat16" else torch.float32, layers=4)
    policy = Policy(model, gradient_checkpointing=checkpointing, autocast_dtype=autocast)
    plan = plan_memory(model, WORK, reference=None, autocast_dtype=autocast, gradient_checkpointing=checkpointing)
    planned = plan.phases["update"].total - plan.stored("optimizer")
    assert planned == pytest.approx(update_peak(policy, 4, 60, 20, 3), rel=0.15)
    planned = plan.phases["generation"].total - plan.stored("optimizer") - plan.stored("gradients")
    assert planned == pytest.approx(generation_peak(policy, [50, 60] * 6, 20, Sampling(0.5)), rel=0.15)


@pytest.mark.parametrize("micro_batch", [1, 2])
@pytest.mark.parametrize(("prompt", "new", "when"), [(60, 20, "entropies"), (6, 2, "backward, embedding")])
def test_a_large_vocabulary_moves_the_worst_moment(prompt, new, when, micro_batch):
    policy = Policy(llama(layers=4, vocabulary=6000))
    plan = plan_memory(policy.model, Workload(2, prompt, new, micro_batch), reference=None)
    assert plan.phases["update"].when == when
    measured = update_peak(policy, micro_batch, prompt, new, 2 // micro_batch)
    assert plan.phases["update"].total - plan.stored("optimizer") == pytest.approx(measured, rel=0.02)


def test_top_p_sorts_the_logits_and_keeps_its_sets():
    policy = Policy(llama(layers=4, vocabulary=6000))
    plan = plan_memory(policy.model, Workload(12, 6, 20, stored_sets=True), reference=None)
    assert plan.phases["generation"].when == "drawing tokens"
    planned = plan.phases["generation"].total - plan.stored("optimizer") - plan.stored("gradients")
    assert planned == pytest.approx(generation_peak(policy, [5, 6] * 6, 20, Sampling(0.5, top_p=0.9)), rel=0.05)
    assert plan.rollout - plan_memory(policy.model, Workload(12, 6, 20)).rollout == 12 * 20 * 6000 // 8


@pytest.mark.parametrize("foreach", [False, True])
def test_temporaries_of_the_optimisers_step(foreach):
    model = llama(tied=False, vocabulary=6000)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    plan = plan_memory(model, Workload(2, 2, 1), critic=None, foreach=foreach)
    assert plan.phases["update"].when == "optimiser step"
    found = plan.phases["update"].items["optimiser's temporaries"]
    assert found == pytest.approx(peak_growth(optimizer.step, CPU), rel=0.02)


def test_settings_that_save_memory_are_planned_to():
    model = llama(layers=4)
    usual = plan_memory(model, WORK).phases["update"]
    assert plan_memory(model, WORK, gradient_checkpointing=True).phases["update"].total < usual.total
    assert plan_memory(model, Workload(12, 60, 20, micro_batch=1)).phases["update"].total < usual.total
    assert plan_memory(model, Workload(12, 60, 20, max_rows=4)).kv_cache * 3 == plan_memory(model, WORK).kv_cache
    assert plan_memory(model, WORK, optimizer=None).stored("optimizer") == 0
    separate = plan_memory(model, WORK, critic="copy").phases["update"]
    assert separate.items["activations"] > 1.8 * usual.items["activations"]
    frozen = plan_memory(copy.deepcopy(model).requires_grad_(False), WORK).phases
    assert frozen["update"].items["activations"] == frozen["scoring"].items["activations"]


def test_the_table_names_the_moments_and_adds_up():
    plan = plan_memory(gpt2().config, WORK)
    lines = str(plan).splitlines()
    for phase, moment in plan.phases.items():
        assert phase in lines[6]
        assert moment.when in lines[7]
        assert f"{moment.total / 1e9:.3f}" in lines[-2]
    assert "1e9 bytes" in lines[0]
    assert len({len(line) for line in lines[:4]}) == len({len(line) for line in lines[6:-1]}) == 1


def test_sizes_must_be_at_least_one():
    with pytest.raises(ValueError, match="new_tokens must be at least 1, got 0"):
        Workload(rows=1, prompt_tokens=1, new_tokens=0)
