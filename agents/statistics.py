"""What a finite number of answers to a finite number of problems says: pass@k, and intervals that resample problems.

The problems, not the answers, are the sample: answers to one problem are alike, so resampling answers would call an
interval narrow that another set of problems would leave.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> np.ndarray:
    """Unbiased chance that at least one of k answers passes, of each problem (Chen et al. 2021, Eq. 1).

        pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{j<k} (n - c - j) / (n - j)

    `1 - (1 - c/n)^k` is biased; the product needs no large binomials, and a factor is exactly 0 when every choice of k
    answers holds a passing one.

    Args:
        n: (problems,) or scalar int, answers sampled for each problem.
        c: (problems,) or scalar int, how many of them passed.
        k: answers that may be tried, 1 to n.

    Returns:
        (problems,) float64 in [0, 1]; its mean is the pass@k of the set.

    Raises:
        ValueError: k < 1 or k > n, c outside 0 to n, or numbers that are not whole.
    """
    n, c = np.broadcast_arrays(np.asarray(n), np.asarray(c))
    if not (np.equal(n, np.floor(n)).all() and np.equal(c, np.floor(c)).all()):
        raise ValueError("n and c must be whole numbers of answers")
    if k < 1 or (n < k).any():
        raise ValueError(
            f"pass@k needs 1 <= k <= n, got k = {k} and n = {n.min() if n.size else 0} answers of a problem"
        )
    if ((c < 0) | (c > n)).any():
        raise ValueError("the number of passing answers must lie between 0 and n for every problem")
    j = np.arange(k)
    remaining = np.maximum((n - c)[..., None] - j, 0)
    return 1.0 - np.prod(remaining / (n[..., None] - j), axis=-1)


def bootstrap_interval(
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int | np.random.Generator = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a mean over problems (Efron and Tibshirani 1993, section 13.3).

    `bootstrap_interval(pass_at_k(n, c, k))` is the interval of a mean pass@k. When all values are equal the interval
    has no width, which is no knowledge: for pass rates near 0 or 1, or few problems, use `wilson_interval`.

    Args:
        values: (problems,) one finite number per problem.
        confidence: coverage aimed at, between 0 and 1.
        resamples: draws of as many problems, with replacement.
        seed: of the draws, or the generator to use.

    Returns:
        (low, high) of the mean.

    Raises:
        ValueError: fewer than two problems, a value that is not finite, or settings out of range.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"an interval needs one finite value for each of at least 2 problems, got shape {values.shape}"
        )
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError(f"expected 0 < confidence < 1 and resamples >= 1, got {confidence} and {resamples}")
    rng, size = np.random.default_rng(seed), len(values)
    # One resample at a time: all of them together would be resamples * problems numbers.
    means = np.array([values[rng.integers(size, size=size)].mean() for _ in range(resamples)])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int | np.random.Generator = 0,
) -> tuple[float, float]:
    """Bootstrap interval of mean(a) - mean(b), two results on the same problems in the same order.

    Problems are resampled as pairs, so that how hard a problem is cancels; an interval without 0 says that the results
    differ beyond the choice of problems (not of training seeds).

    Args:
        a: (problems,) one finite number per problem, of the first result.
        b: (problems,) of the second.
        confidence: see `bootstrap_interval`, as `resamples`, `seed` and what is raised.

    Returns:
        (low, high) of the difference.

    Raises:
        ValueError: other shapes, or what `bootstrap_interval` refuses.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"paired results need the same problems, got shapes {a.shape} and {b.shape}")
    return bootstrap_interval(a - b, confidence=confidence, resamples=resamples, seed=seed)
