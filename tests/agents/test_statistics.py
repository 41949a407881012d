"""pass@k against hand values and exhaustive choice; intervals against what they promise."""

from itertools import combinations

import numpy as np
import pytest

from agents.statistics import bootstrap_interval, paired_difference, pass_at_k


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (5, 2, 1, 2 / 5),
        (5, 2, 2, 1 - 3 / 10),  # C(3, 2) / C(5, 2)
        (10, 3, 5, 1 - 21 / 252),  # C(7, 5) / C(10, 5)
        (4, 2, 3, 1.0),  # three of four answers always hold a passing one
        (7, 7, 1, 1.0),
        (7, 0, 7, 0.0),
        (1, 1, 1, 1.0),
    ],
)
def test_pass_at_k_by_hand(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-15)


def test_pass_at_k_is_the_share_of_choices_that_hold_a_passing_answer():
    for n in range(1, 7):
        for c in range(n + 1):
            for k in range(1, n + 1):
                choices = list(combinations(range(n), k))
                share = sum(any(answer < c for answer in choice) for choice in choices) / len(choices)
                assert pass_at_k(n, c, k) == pytest.approx(share, abs=1e-14)


def test_pass_at_k_of_many_problems_with_different_numbers_of_answers():
    found = pass_at_k([5, 10, 4], [2, 3, 0], 2)
    assert found.shape == (3,)
    np.testing.assert_allclose(found, [0.7, 1 - 21 / 45, 0.0])
    np.testing.assert_allclose(pass_at_k(5, [0, 2, 5], 2), [0.0, 0.7, 1.0])
    assert pass_at_k([8], [3], 8).tolist() == [1.0]


def test_pass_at_k_stays_finite_where_binomials_overflow():
    found = pass_at_k([100_000, 100_000], [1, 99_000], 1000)
    np.testing.assert_allclose(found, [0.01, 1.0], rtol=1e-9)
    assert pass_at_k(100_000, 1, 1) == pytest.approx(1e-5)


def test_pass_at_k_is_unbiased():
    rng, p, k = np.random.default_rng(0), 0.15, 4
    passed = rng.binomial(12, p, size=40_000)
    assert pass_at_k(12, passed, k).mean() == pytest.approx(1 - (1 - p) ** k, abs=0.004)


@pytest.mark.parametrize(
    ("n", "c", "k"), [([5, 3], [1, 1], 4), (5, 1, 0), (5, 6, 1), (5, -1, 1), (5, 1.5, 1), (0, 0, 1)]
)
def test_pass_at_k_refuses(n, c, k):
    with pytest.raises(ValueError, match="pass@k needs|passing answers|whole"):
        pass_at_k(n, c, k)


def test_an_interval_of_a_mean_is_that_of_the_normal_when_there_are_many_problems():
    values = np.random.default_rng(1).normal(2.0, 3.0, size=400)
    low, high = bootstrap_interval(values, resamples=4000)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)


def test_intervals_repeat_with_their_seed_and_grow_with_confidence():
    values = np.random.default_rng(2).random(30)
    narrow, wide = bootstrap_interval(values, confidence=0.5), bootstrap_interval(values, confidence=0.99)
    assert bootstrap_interval(values, confidence=0.5) == narrow
    assert bootstrap_interval(values, seed=np.random.default_rng(0)) == bootstrap_interval(values, seed=0)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=0)
    assert wide[0] < narrow[0] < values.mean() < narrow[1] < wide[1]


def test_the_interval_of_a_pass_at_k_covers_the_truth_about_as_often_as_it_says():
    rng, covered, runs = np.random.default_rng(3), 0, 200
    truth = 1 - (9 / 11) * (10 / 12)  # E[1 - (1 - p)^2] under Beta(2, 9)
    for run in range(runs):
        passed = rng.binomial(8, rng.beta(2, 9, size=60))
        low, high = bootstrap_interval(pass_at_k(8, passed, 2), confidence=0.9, resamples=400, seed=run)
        covered += low <= truth <= high
    assert 0.83 <= covered / runs <= 0.96


def test_all_pass_or_none_leave_no_width():
    assert bootstrap_interval(pass_at_k(4, [4, 4, 4], 2)) == (1.0, 1.0)
    assert bootstrap_interval(pass_at_k(4, [0, 0, 0], 2)) == (0.0, 0.0)


def test_pairs_cancel_how_hard_problems_are():
    rng = np.random.default_rng(4)
    difficulty = rng.random(50)
    a, b = difficulty + 0.05 + rng.normal(0, 0.01, 50), difficulty
    low, high = paired_difference(a, b)
    assert 0 < low < 0.05 < high < 0.06
    assert paired_difference(b, a) == pytest.approx((-high, -low), abs=1e-3)
    assert paired_difference(a, a) == (0.0, 0.0)
    assert bootstrap_interval(a)[0] < bootstrap_interval(b)[1]  # apart, the two cannot be told


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan")], [[1.0, 2.0]]])
def test_intervals_refuse_what_they_cannot_judge(values):
    with pytest.raises(ValueError, match="at least 2 problems"):
        bootstrap_interval(values)


def test_other_refusals():
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([0.0, 1.0], confidence=1.0)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([0.0, 1.0], resamples=0)
    with pytest.raises(ValueError, match="same problems"):
        paired_difference([0.0, 1.0], [0.0, 1.0, 1.0])
