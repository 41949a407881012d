"""Traps that public implementations fell into: which test would fail if one of them came back.

 1  ratio is not 1 before an update       test_ratio::test_ratio_is_one_within_1e_5_however_minibatches_are_composed
 2  left padding without positions        test_ratio::test_left_padding_changes_no_next_token_log_prob
 3  dropout                               test_traps::test_dropout_never_acts_in_train_mode
 4  checkpointing switched off            test_traps::test_an_update_with_gradient_checkpointing_does_checkpoint
 5  reference without the temperature     test_value_and_reference::test_the_reference_is_scored_at_the_sampling_temperature
 6  log-probs divided by the temperature  test_sampling::test_temperature_divides_logits_and_not_log_probs
 7  entropy of unscaled logits            test_kept_sets::test_entropy_is_that_of_the_kept_tokens
 8  top-k and top-p                       test_kept_sets::test_the_trainer_agrees_with_the_sampler_on_the_stored_sets
 9  an engine's raw log-probs             test_mismatch::test_an_engine_that_forgets_the_temperature_is_found_out
10  half-precision softmax                test_traps::test_every_softmax_of_a_half_precision_model_is_float32
11  sampler against trainer               test_mismatch::test_whose_log_probs_the_ratio_divides_by_is_the_settings_choice_and_is_recorded
12  truncation inferred from the width    test_traps::test_truncation_is_what_the_environment_said_whatever_the_widths
13  truncated is not terminal             test_objective::test_truncated_episode_bootstraps_and_terminated_does_not
14  the pad token is the stop token       test_rollouts::test_a_stop_token_that_is_also_the_pad_token_trains
15  where the score lands                 test_rollouts::test_the_score_lands_on_the_last_action
16  padding bootstraps                    test_objective::test_padding_carries_nothing_into_gae
17  gaps between turns                    test_traps::test_a_gap_between_turns_is_skipped
18  a stop token nobody sampled           test_traps::test_a_truncated_answer_ends_with_the_token_that_was_sampled
19  length as the sum of a mask           test_traps::test_a_length_spans_inserted_tokens
20  text encoded again                    test_rollouts::test_ids_whose_text_encodes_to_other_ids_stay_as_they_were_sampled
21  values read one token late            test_value_and_reference::test_a_value_is_read_before_its_action_and_the_last_one_after_everything
22  means over padding                    test_objective::test_whitening_uses_real_actions_only
23  deviation of one element              test_objective::test_whitening_constants_and_single_actions_gives_finite_zeros
24  whitening over process groups         there is one process
25  mean of micro-batches' means          test_losses::test_four_actions_of_loss_one_and_one_of_loss_three
26  NaN times zero                        test_losses::test_four_actions_of_loss_one_and_one_of_loss_three
27  metrics over padding                  test_padding::test_padding_columns_change_nothing
28  gradients that nobody clips           test_update::test_the_gradient_norm_is_clipped_for_a_loss_a_thousand_times_as_large
29  k2 or k3 in the reward                test_settings::test_settings_that_cannot_work_are_refused_with_the_reason
30  k1 in the loss                        test_kl::test_the_loss_of_actions_another_policy_drew_has_the_same_gradient
31  exp without a limit                   test_kl::test_estimates_and_gradients_are_finite_however_far_apart
32  another KL reported than charged      test_kl::test_what_is_reported_as_the_rewards_kl_cost_is_what_was_in_the_rewards
33  the adaptive coefficient              test_kl::test_the_adaptive_coefficient_by_hand
34  the reference of an adapter           test_adapter::test_the_reference_is_bit_identical_before_and_after_training
35  answers from the wrong model          test_adapter::test_answers_come_from_the_adapted_policy_and_the_kl_is_to_the_base
36  a score of zero                       test_update::test_a_score_of_zero_is_a_score
37  integer and bfloat16 rewards          test_rewards::test_a_half_precision_reward_keeps_what_its_type_could_not
38  value clip without the maximum        test_losses::test_a_value_that_drifted_away_is_brought_back
39  dual clip                             test_losses::test_dual_clip_bounds_what_one_bad_action_can_do
40  the value head in a checkpoint        test_checkpoints::test_the_value_head_survives
41  a value head that starts at random    test_value_and_reference::test_an_untrained_critic_says_exactly_zero
42  what a resumed run has lost           test_checkpoints::test_a_new_process_goes_on_bit_for_bit
43  a cache of older weights              test_mismatch::test_the_sampler_follows_the_weights_and_keeps_nothing_of_older_ones
44  generating while checkpointing        test_traps::test_gradient_checkpointing_changes_no_answer
45  lambda that depends on the length     test_settings::test_lambda_depends_on_no_length
46  a warm-up that moves the policy       test_value_and_reference::test_critic_warm_up_leaves_the_policy_bit_for_bit
"""  # noqa: E501

import re
from pathlib import Path

import pytest
import torch

from agents.ppo import objective
from agents.rollout import collect
from agents.sampling import Sampling
from tests.agents.small import EOS, MODELS, Scripted, gpt2, iterate, llama, make_agent, make_env
from tests.agents.test_rollouts import Inserting

LINES = re.findall(r"^ *(\d+)  .*  (\S+::\S+|there is one process)$", __doc__ or "", re.M)


def test_every_trap_has_a_test_that_exists():
    assert [int(number) for number, _ in LINES] == list(range(1, 47))
    for number, test in LINES:
        if number != "24":
            file, name = test.split("::")
            source = (Path(__file__).parent / f"{file}.py").read_text()
            assert f"\ndef {name}(" in source, f"trap {number}: {test} is gone"


@pytest.mark.parametrize("autocast", [False, True])
def test_every_softmax_of_a_half_precision_model_is_float32(monkeypatch, autocast):
    dtypes = []

    def recorded(logits, *arguments, **keywords):
        dtypes.append(logits.dtype)
        return original(logits, *arguments, **keywords)

    original = torch.log_softmax
    model = llama() if autocast else llama().bfloat16()
    agent = make_agent(model, agent_options={"autocast_dtype": torch.bfloat16} if autocast else {})
    seen = agent.policy.model.register_forward_hook(lambda m, a, output: dtypes.append(output.logits.dtype))
    rollout = agent.collect()
    assert set(dtypes) == {torch.bfloat16}, "the model did compute in half precision"
    seen.remove()
    dtypes.clear()
    monkeypatch.setattr("torch.log_softmax", recorded)
    agent.collect()
    assert set(dtypes) == {torch.float32}
    batch = agent.score(rollout)
    agent.step(batch, torch.arange(8))
    assert len(dtypes) > 3
    assert set(dtypes) == {torch.float32}
    assert {x.dtype for x in (batch.old_logprobs, batch.ref_logprobs, batch.values, batch.rewards)} == {torch.float32}


class CutsRowOne(Inserting):
    """Row 1 is cut off after two actions, row 0 ends by itself after three."""

    def reset(self, *, seed=None, options=None):
        return (self._observation(), {}) if options and "reset_mask" in options else super().reset(seed=seed)

    def step(self, actions):
        observation, reward, ended, truncated, infos = super().step(actions)
        truncated = torch.tensor([False, self.count == 2]).numpy()
        return observation, reward, ended & ~truncated, truncated, infos


def test_truncation_is_what_the_environment_said_whatever_the_widths():
    env = CutsRowOne(2)
    agent = make_agent(env=env, mismatch_tolerance=1e9, kl__coef=0.0, whiten_advantages=False, gae_lambda=1.0)
    torch.nn.init.constant_(agent.policy.value_head.bias, 0.7)
    rollout = collect(env, Scripted([[[0, 2, 3]], [[4, 6, 7]]]), agent.sampling, None)
    assert rollout.n_actions.tolist() == [3, 2]
    assert (rollout.terminated.tolist(), rollout.truncated.tolist()) == ([True, False], [False, True])
    batch = agent.score(rollout)
    assert batch.last_value.tolist() == pytest.approx([0.0, 0.7])
    assert batch.returns[0].tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert batch.returns[1, :2].tolist() == pytest.approx([0.7, 0.7])


def test_a_gap_between_turns_is_skipped():
    mask = torch.tensor([[True, True, False, False, True]])
    rewards, values = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]]), torch.tensor([[0.2, 0.5, 77.0, -5.0, 0.6]])
    found = objective.gae(rewards, values, torch.zeros(1), mask, 1.0, 0.95)
    torch.testing.assert_close(found, torch.tensor([[0.756, 0.48, 0.0, 0.0, 0.4]]), atol=1e-6, rtol=0)
    for noise in (1e3, float("nan")):
        noisy, noisier = (x.masked_fill(~mask, noise) for x in (rewards, values))
        assert torch.equal(objective.gae(noisy, noisier, torch.zeros(1), mask, 1.0, 0.95), found)
    compact = objective.gae(rewards[mask][None], values[mask][None], torch.zeros(1), mask[mask][None], 1.0, 0.95)
    assert torch.equal(compact[0], found[mask])


def test_a_truncated_answer_ends_with_the_token_that_was_sampled():
    env = make_env(2, max_episode_steps=3)
    rollout = collect(env, Scripted([[[0], [2], [3]], [[4], [EOS]]]), Sampling(), None, indices=[0, 1])
    assert rollout.truncated.tolist() == [True, False]
    places = [p[: int(n)] for p, n in zip(rollout.positions, rollout.n_actions, strict=True)]
    answers = [tokens[p].tolist() for tokens, p in zip(rollout.tokens, places, strict=True)]
    assert answers == [[0, 2, 3], [4, EOS]]
    assert rollout.tokens[0, int(rollout.lengths[0]) - 1] == 3


def test_a_length_spans_inserted_tokens():
    rollout = collect(Inserting(2), Scripted([[[0, 2, 3]], [[4, 6, 7]]]), Sampling(), None)
    assert rollout.lengths.tolist() == [7, 7]
    assert rollout.prompt_lengths.tolist() == [2, 2]
    assert rollout.n_actions.tolist() == [3, 3]


class CountedCalls:
    def __init__(self, function, calls):
        self.function, self.calls = function, calls

    def __call__(self, *arguments, **keywords):
        self.calls.append(1)
        return self.function(*arguments, **keywords)


@pytest.mark.parametrize("name", MODELS)
def test_an_update_with_gradient_checkpointing_does_checkpoint(monkeypatch, name):
    agent = make_agent(MODELS[name](), gradient_checkpointing=True)
    batch = agent.score(agent.collect())
    calls: list[int] = []
    for module in agent.policy.model.modules():
        if hasattr(module, "_gradient_checkpointing_func"):
            checkpoint = CountedCalls(module._gradient_checkpointing_func, calls)
            monkeypatch.setattr(module, "_gradient_checkpointing_func", checkpoint)
    agent.step(batch, torch.arange(8))
    assert len(calls) == 2, "one for each layer"


@pytest.mark.parametrize("model", [lambda: gpt2(dropout=0.5), lambda: llama(attention_dropout=0.5)])
def test_dropout_never_acts_in_train_mode(model):
    """Checkpointing needs train mode, which is where dropout would act."""
    agent = make_agent(model(), gradient_checkpointing=True, recompute_logprobs=True, minibatches=1)
    batch = agent.score(agent.collect())
    assert agent.step(batch, torch.arange(8))["val/ratio"] == pytest.approx(1.0, abs=1e-6)
    assert agent.policy.model.training


@pytest.mark.parametrize("name", MODELS)
def test_gradient_checkpointing_changes_no_answer(name):
    def greedy(checkpointing):
        agent = iterate(make_agent(MODELS[name](), gradient_checkpointing=checkpointing), 1)
        return collect(agent.env, agent.engine, Sampling(greedy=True), None, indices=list(range(8)))

    a, b = greedy(False), greedy(True)
    assert torch.equal(a.tokens, b.tokens)
    torch.testing.assert_close(a.logprobs, b.logprobs, atol=1e-5, rtol=0)
