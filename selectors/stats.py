"""What k rollouts with s successes say about a prompt: posterior pass rate, spread, q_G, entropy.

Formulas of DESIGN.md section 7. The posterior of the pass rate p is Beta(a, b) with
``a = a0 + s`` and ``b = b0 + k - s``. The plug-in ``sqrt(s(k-s))/k`` is not used anywhere: at
p = .05 and k = 8 its mean is about half the true standard deviation.

Departures: 1. The prior is fitted to the pool (empirical Bayes, beta-binomial maximum likelihood),
because Beta(1, 1) pulls a U-shaped pool to the middle.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import betaln
from scipy.stats import beta as beta_distribution

Floats: TypeAlias = NDArray[np.float64]

#: Below this many measured prompts a fitted prior says more about noise than about the pool.
MIN_PROMPTS_FOR_PRIOR = 20
_BOUNDS = (np.log(0.02), np.log(200.0))


class Prior(NamedTuple):
    """Beta(a0, b0) prior of pass rates."""

    a0: float = 1.0
    b0: float = 1.0


class Posterior(NamedTuple):
    """Estimates per prompt, each an array of shape (n,).

    Args:
        p_hat: posterior mean of the pass rate.
        std_hat: posterior mean of sqrt(p(1-p)), the reward's standard deviation in one group.
        q_hat: probability that a group of G rollouts holds both a success and a failure.
        p_low: lower end of the central credible interval.
        p_high: upper end.
    """

    p_hat: Floats
    std_hat: Floats
    q_hat: Floats
    p_low: Floats
    p_high: Floats


def fit_prior(successes: ArrayLike, attempts: ArrayLike) -> Prior:
    """Beta-binomial maximum likelihood over a pool's counts.

    Args:
        successes: s per prompt, shape (n,).
        attempts: k per prompt, shape (n,); prompts with k = 0 are left out.

    Returns:
        The fitted prior, or Beta(1, 1) when fewer than ``MIN_PROMPTS_FOR_PRIOR`` prompts have
        two or more attempts (one attempt each cannot tell spread from mean).
    """
    s = np.asarray(successes, dtype=np.float64)
    k = np.asarray(attempts, dtype=np.float64)
    measured = k > 0
    if np.count_nonzero(k > 1) < MIN_PROMPTS_FOR_PRIOR:
        return Prior()
    pairs, counts = np.unique(np.stack([s[measured], k[measured]]), axis=1, return_counts=True)
    wins, tries = pairs

    def loss(logs: Floats) -> float:
        a0, b0 = np.exp(logs)
        likelihood = betaln(a0 + wins, b0 + tries - wins) - betaln(a0, b0)
        return -float(np.dot(counts, likelihood))

    best = minimize(loss, x0=np.zeros(2), method="L-BFGS-B", bounds=[_BOUNDS, _BOUNDS])
    a0, b0 = np.exp(best.x)
    return Prior(float(a0), float(b0))


def informative_probability(a: ArrayLike, b: ArrayLike, group_size: int) -> Floats:
    """q_G under Beta(a, b): 1 - E[p^G] - E[(1-p)^G].

    >>> float(informative_probability(1.0, 1.0, 2).round(6))
    0.333333
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    base = betaln(a, b)
    q = 1.0 - np.exp(betaln(a + group_size, b) - base) - np.exp(betaln(a, b + group_size) - base)
    clipped: Floats = np.clip(q, 0.0, 1.0)
    return clipped


def posterior(
    successes: ArrayLike,
    attempts: ArrayLike,
    prior: Prior = Prior(),  # noqa: B008 - an immutable tuple
    group_size: int = 8,
    credibility: float = 0.9,
) -> Posterior:
    """Estimates for every prompt; with k = 0 they are the prior's.

    Args:
        successes: s, shape (n,), 0 ≤ s ≤ k.
        attempts: k, shape (n,): rollouts with a verdict, errors left out.
        prior: Beta(a0, b0).
        group_size: G of the trainer, ≥ 2.
        credibility: mass of [p_low, p_high].

    Raises:
        ValueError: a count is negative or s exceeds k.
    """
    s = np.asarray(successes, dtype=np.float64)
    k = np.asarray(attempts, dtype=np.float64)
    if np.any(s < 0) or np.any(k < s):
        raise ValueError("counts must satisfy 0 ≤ successes ≤ attempts")
    a, b = prior.a0 + s, prior.b0 + k - s
    tail = (1.0 - credibility) / 2
    return Posterior(
        p_hat=a / (a + b),
        std_hat=np.exp(betaln(a + 0.5, b + 0.5) - betaln(a, b)),
        q_hat=informative_probability(a, b, group_size),
        p_low=beta_distribution.ppf(tail, a, b),
        p_high=beta_distribution.ppf(1.0 - tail, a, b),
    )


def entropy(counts: Sequence[int]) -> float:
    """Shannon entropy in nats of cluster sizes.

    >>> round(entropy([2, 2]), 4)
    0.6931
    """
    sizes = np.asarray([n for n in counts if n > 0], dtype=np.float64)
    if sizes.size < 2:
        return 0.0
    shares = sizes / sizes.sum()
    return float(-(shares * np.log(shares)).sum())
