"""Select and order: what stays, in which order, independent of the input's."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from curate.pipelines.order import Order
from curate.pipelines.pool import Pool
from curate.pipelines.select import Select
from curate.selectors.stats import Prior, posterior


def measured(pool: Pool, successes: list[int | None], k: int = 8) -> Pool:
    s = np.array([0 if x is None else x for x in successes])
    got = posterior(s, np.full(len(s), k), Prior(), 8)
    known = pl.Series([x is not None for x in successes])
    return Pool(
        pool.frame.with_columns(
            pl.Series("successes", s, dtype=pl.Int32),
            pl.lit(k, dtype=pl.Int32).alias("attempts"),
            *(
                pl.when(known).then(pl.Series(name, values)).alias(name)
                for name, values in got._asdict().items()
            ),
        )
    )


def test_select_says_whether_what_left_was_easy_or_hard(make_pool, context) -> None:
    pool = measured(make_pool(5), [0, 4, 8, 1, None])
    result = Select(min_q=0.6).run(pool, context())
    assert list(result.kept.frame["successes"]) == [4, 1]
    assert list(result.rejected["reason"]) == ["too_hard", "too_easy", "unmeasured"]
    assert "0 of 8 rollouts correct" in result.rejected["detail"][0]


def test_select_limit_keeps_the_most_informative(make_pool, context) -> None:
    pool = measured(make_pool(5), [1, 4, 7, 3, 2])
    result = Select(limit=2).run(pool, context())
    assert sorted(result.kept.frame["successes"]) == [3, 4]
    assert set(result.rejected["reason"]) == {"over_limit"}


def test_select_keeps_prompts_seen_at_the_frontier_of_a_hopeless_pool(make_pool, context) -> None:
    successes = [0] * 28 + [1, 2]
    hopeless = Prior(a0=0.1, b0=4.0)
    got = posterior(np.array(successes), np.full(30, 8), hopeless, 8)
    pool = measured(make_pool(30), list(successes))
    pool = Pool(
        pool.frame.with_columns(
            pl.lit(0, dtype=pl.Int32).alias("errors"),
            *(pl.Series(name, values) for name, values in got._asdict().items()),
        )
    )
    assert pool.frame["q_hat"].max() < 0.9
    strict = Select(min_q=0.9).run(pool, context())
    assert len(strict.kept) == 0
    wide = Select(min_q=0.9, seen_mixed=True).run(pool, context())
    assert list(wide.kept.frame["successes"]) == [1, 2]


def test_select_band(make_pool, context) -> None:
    pool = measured(make_pool(9), list(range(9)))
    kept = Select(p_band=(0.25, 0.75)).run(pool, context()).kept.frame
    assert list(kept["successes"]) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "bad", [{}, {"seen_mixed": True}, {"p_band": (0.9, 0.1)}, {"min_q": 2}, {"limit": 0}]
)
def test_select_refuses_settings_that_say_nothing(bad) -> None:
    with pytest.raises(ValidationError):
        Select(**bad)


def test_easy_to_hard_falls_in_p_hat_with_the_unmeasured_last(make_pool, context) -> None:
    pool = measured(make_pool(6), [0, 8, None, 4, 2, 6])
    frame = Order(by="easy_to_hard", stages=2).run(pool, context()).kept.frame
    assert list(frame["successes"])[:5] == [8, 6, 4, 2, 0]
    assert frame["p_hat"][5] is None
    assert list(frame["rank"]) == list(range(6))
    assert list(frame["stage"]) == [0, 0, 0, 1, 1, 1]


def test_frontier_first_falls_in_q_hat(make_pool, context) -> None:
    pool = measured(make_pool(5), [0, 4, 7, 8, 2])
    frame = Order(by="frontier_first").run(pool, context()).kept.frame
    assert frame["q_hat"].is_sorted(descending=True)


def test_staged_puts_a_prompt_on_an_edge_into_the_easier_stage(make_pool, context) -> None:
    pool = measured(make_pool(4), [8, 4, 4, 0])
    p = pool.frame["p_hat"][1]
    frame = Order(by="staged", edges=(p, 0.3)).run(pool, context()).kept.frame
    assert list(frame["stage"]) == [0, 0, 0, 2]


@pytest.mark.parametrize("edges", [(), (0.3, 0.7), (1.0, 0.5), (0.5, 0.5)])
def test_edges_must_fall_between_one_and_zero(edges) -> None:
    with pytest.raises(ValidationError):
        Order(by="staged", edges=edges)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(st.none() | st.integers(0, 8), min_size=1, max_size=30),
    st.sampled_from(["easy_to_hard", "frontier_first", "staged", "random"]),
    st.randoms(use_true_random=False),
)
def test_shuffled_input_gives_the_same_curriculum(make_pool, context, counts, by, random) -> None:
    pool = measured(make_pool(len(counts)), counts)
    places = list(range(len(counts)))
    random.shuffle(places)
    step = Order(by=by)
    once = step.run(pool, context()).kept.frame
    other = step.run(Pool(pool.frame[places]), context()).kept.frame
    assert once.equals(other)
    assert sorted(once["id"]) == sorted(pool.frame["id"])
    assert once["stage"].is_sorted()


def test_another_seed_breaks_ties_another_way(make_pool, context) -> None:
    pool = measured(make_pool(20), [4] * 20)
    order = Order(by="easy_to_hard")
    one, other = (order.run(pool, context(seed=seed)).kept.frame["id"] for seed in (0, 1))
    assert list(one) != list(other)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(st.none() | st.integers(0, 8), min_size=1, max_size=40),
    st.sampled_from(["easy_to_hard", "frontier_first", "staged", "random"]),
    st.integers(1, 12),
    st.data(),
)
def test_every_block_is_the_same_slice_of_the_order(
    make_pool, context, counts, by, batch, data
) -> None:
    n = len(counts)
    some = st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n)
    pool = measured(make_pool(n, domain=data.draw(some)), counts)
    plain = Order(by=by).run(pool, context()).kept.frame
    blocks = Order(by=by, batch=batch).run(pool, context()).kept.frame
    for start in range(0, n, batch):
        assert set(plain["id"][start : start + batch]) == set(blocks["id"][start : start + batch])
    assert dict(zip(plain["id"], plain["stage"], strict=True)) == dict(
        zip(blocks["id"], blocks["stage"], strict=True)
    )
    assert blocks["stage"].is_sorted()
    assert list(blocks["rank"]) == list(range(n))


def test_domains_are_spread_over_a_block(make_pool, context) -> None:
    pool = make_pool(12, domain=["a"] * 8 + ["b"] * 4)
    frame = Order(by="random", stages=1, batch=12).run(pool, context()).kept.frame
    for start in range(0, 12, 3):
        assert sorted(frame["domain"][start : start + 3]) == ["a", "a", "b"]
