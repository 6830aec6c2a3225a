"""Posterior estimates against enumeration, quadrature and simulation."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from curate.selectors.stats import (
    Prior,
    entropy,
    fit_prior,
    informative_probability,
    posterior,
)

counts = st.integers(0, 16).flatmap(lambda k: st.tuples(st.integers(0, k), st.just(k)))
priors = st.builds(Prior, st.floats(0.1, 20), st.floats(0.1, 20))


@settings(max_examples=25)
@given(counts, priors, st.integers(2, 16))
def test_estimates_are_the_posteriors_integrals(
    count: tuple[int, int], prior: Prior, group: int
) -> None:
    s, k = count
    density = beta(prior.a0 + s, prior.b0 + k - s)
    got = posterior([s], [k], prior, group)

    def expected(f):  # over quantiles, where the integrand is bounded even for U-shaped priors
        return quad(lambda u: f(density.ppf(u)), 0, 1, limit=200)[0]

    assert got.p_hat[0] == pytest.approx(density.mean(), abs=1e-9)
    spread = expected(lambda p: math.sqrt(max(0.0, p * (1 - p))))
    assert got.std_hat[0] == pytest.approx(spread, abs=1e-4)
    mixed = expected(lambda p: 1 - p**group - (1 - p) ** group)
    assert got.q_hat[0] == pytest.approx(mixed, abs=1e-4)
    assert got.p_low[0] <= density.median() <= got.p_high[0]
    inside = density.cdf(got.p_high[0]) - density.cdf(got.p_low[0])
    assert inside == pytest.approx(0.9, abs=1e-4)


def test_q_under_a_uniform_prior_is_the_share_of_mixed_groups_by_enumeration() -> None:
    # Under Beta(1, 1) every number of successes 0…G is equally likely: G-1 of G+1 are mixed.
    for group in range(2, 20):
        assert informative_probability(1, 1, group) == pytest.approx((group - 1) / (group + 1))


def test_more_successes_raise_p_and_all_or_nothing_has_least_q() -> None:
    got = posterior(range(9), [8] * 9, Prior(), 8)
    assert np.all(np.diff(got.p_hat) > 0)
    assert got.q_hat.argmax() == 4
    assert {int(i) for i in np.argsort(got.q_hat)[:2]} == {0, 8}


def test_std_hat_is_not_biased_low_like_the_plug_in() -> None:
    rng = np.random.default_rng(0)
    a, b = 0.5, 3.0
    p = rng.beta(a, b, 20_000)
    s = rng.binomial(8, p)
    truth = np.sqrt(p * (1 - p)).mean()
    plug_in = np.sqrt(s * (8 - s)).mean() / 8
    estimate = posterior(s, np.full(s.shape, 8), Prior(a, b)).std_hat.mean()
    assert abs(estimate - truth) < 0.005
    assert truth - plug_in > 0.02


def test_the_fitted_prior_recovers_the_one_that_made_the_counts() -> None:
    rng = np.random.default_rng(1)
    s = rng.binomial(8, rng.beta(0.4, 0.8, 20_000))
    prior = fit_prior(s, np.full(s.shape, 8))
    assert prior.a0 == pytest.approx(0.4, rel=0.1)
    assert prior.b0 == pytest.approx(0.8, rel=0.1)


def test_a_handful_of_prompts_or_single_attempts_get_the_flat_prior() -> None:
    assert fit_prior([1, 2], [8, 8]) == Prior(1.0, 1.0)
    assert fit_prior([1] * 100, [1] * 100) == Prior(1.0, 1.0)
    assert fit_prior([], []) == Prior(1.0, 1.0)


@given(st.lists(counts, min_size=25, max_size=60))
def test_the_prior_stays_finite_on_any_counts(pairs: list[tuple[int, int]]) -> None:
    s, k = zip(*pairs, strict=True)
    prior = fit_prior(s, k)
    assert 0 < prior.a0 < 1000
    assert 0 < prior.b0 < 1000
    got = posterior(s, k, prior)
    assert all(np.isfinite(values).all() for values in got)


@pytest.mark.parametrize("s, k", [(3, 2), (-1, 4)])
def test_impossible_counts_are_refused(s: int, k: int) -> None:
    with pytest.raises(ValueError, match="0 ≤ successes ≤ attempts"):
        posterior([s], [k])


@given(st.lists(st.sampled_from("abcde"), min_size=1))
def test_entropy_is_that_of_the_tally(letters: list[str]) -> None:
    tally = Counter(letters)
    direct = -sum(n / len(letters) * math.log(n / len(letters)) for n in tally.values())
    assert entropy(list(tally.values())) == pytest.approx(direct, abs=1e-12)
    assert entropy(list(tally.values())) <= math.log(len(tally)) + 1e-12
