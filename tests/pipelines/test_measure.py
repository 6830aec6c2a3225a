"""Measure: every rollout judged once, stored once, and counted for what it is."""

import numpy as np
import polars as pl
import pytest
from scripted import ScriptedEngine

from curate.pipelines import spend as spend_module
from curate.pipelines.errors import ConfigError, PromptTooLong
from curate.pipelines.measure import Measure, frontier
from curate.selectors.stats import fit_prior, posterior


def step(k: int = 8, **settings: object) -> Measure:
    return Measure(rollouts={"per_prompt": k}, **settings)


@pytest.fixture
def run(context):
    def run(pool, engine, settings=None, **fields):
        ctx = context(engine=engine, **fields)
        return (settings or step()).run(pool, ctx), ctx

    return run


def test_pass_rates_are_those_of_the_stored_rollouts(make_pool, run) -> None:
    pool = make_pool(10)
    result, ctx = run(pool, ScriptedEngine())
    frame = result.kept.frame
    rollouts = ctx.ledger.scan().collect()
    assert len(rollouts) == 80
    for row in frame.iter_rows(named=True):
        own = rollouts.filter(pl.col("prompt_id") == row["id"])
        assert row["attempts"] == len(own) == 8
        assert row["successes"] == (own["verdict"] == "correct").sum()
        right = own["response"] == f"The answer is {row['answer']}."
        assert row["successes"] == right.sum()
    assert frame["successes"][0] == 8  # 0 + 1 is never missed
    assert 0 < frame["successes"].sum() < 80


def test_estimates_come_from_the_prior_fitted_to_this_pool(make_pool, run) -> None:
    pool = make_pool(40)
    frame = run(pool, ScriptedEngine())[0].kept.frame
    s, k = frame["successes"].to_numpy(), frame["attempts"].to_numpy()
    expected = posterior(s, k, fit_prior(s, k), 8)
    for name, values in expected._asdict().items():
        np.testing.assert_allclose(frame[name].to_numpy(), values)
    assert set(frame["estimator"]) == {"beta-eb-1"}
    assert set(frame["policy"]) == {"scripted"}


def test_a_second_run_neither_generates_nor_judges(make_pool, run, monkeypatch) -> None:
    pool = make_pool(12)
    once, _ = run(pool, ScriptedEngine())
    again = ScriptedEngine()
    monkeypatch.setattr(spend_module, "verify_many", pytest.fail)
    twice, ctx = run(pool, again)
    assert again.generated == 0
    assert twice.kept.frame.equals(once.kept.frame)
    assert len(ctx.ledger.scan().collect()) == 12 * 8


def test_more_rollouts_add_to_those_there(make_pool, run) -> None:
    pool = make_pool(6)
    few, _ = run(pool, ScriptedEngine(), step(4))
    many, ctx = run(pool, ScriptedEngine(), step(8))
    rollouts = ctx.ledger.scan().collect()
    assert len(rollouts) == 48
    assert not rollouts.select("prompt_id", "sample").is_duplicated().any()
    assert (many.kept.frame["successes"] >= few.kept.frame["successes"]).all()


def test_other_sampling_or_another_revision_shares_no_rollout(make_pool, run) -> None:
    pool = make_pool(3)
    run(pool, ScriptedEngine(), step(2))
    for engine, other in (
        (ScriptedEngine(), step(2, temperature=0.5)),
        (ScriptedEngine(), step(2, max_tokens=99)),
        (ScriptedEngine(revision="2"), step(2)),
    ):
        run(pool, engine, other)
        assert engine.generated == 6


def test_a_prompts_numbers_depend_on_no_neighbour(make_pool, context, tmp_path) -> None:
    from curate.pipelines.ledger import Ledger

    pool = make_pool(10)
    whole = step().run(pool, context(engine=ScriptedEngine(), ledger=Ledger(tmp_path / "a")))
    half = type(pool)(pool.frame[5:])
    part = step().run(half, context(engine=ScriptedEngine(), ledger=Ledger(tmp_path / "b")))
    columns = ["id", "successes", "errors", "answer_entropy"]
    assert part.kept.frame.select(columns).equals(whole.kept.frame[5:].select(columns))


def test_blocks_give_what_one_block_gives(make_pool, context, tmp_path, monkeypatch) -> None:
    from curate.pipelines.ledger import Ledger

    pool = make_pool(10)
    whole = step().run(pool, context(engine=ScriptedEngine(), ledger=Ledger(tmp_path / "a")))
    monkeypatch.setattr(spend_module, "BLOCK", 3)
    ledger = Ledger(tmp_path / "b")
    parts = step().run(pool, context(engine=ScriptedEngine(), ledger=ledger))
    assert parts.kept.frame.equals(whole.kept.frame)
    assert len(list(ledger.folder.glob("part-*"))) == 4


def test_unusable_golds_are_errors_not_failures_and_leave_no_estimate(make_pool, run) -> None:
    pool = make_pool(2, kind=["math", "choice"], answer=["1", "E"], choices=[None, ["1", "3"]])
    frame = run(pool, ScriptedEngine())[0].kept.frame
    bad = frame.row(1, named=True)
    assert (bad["attempts"], bad["errors"], bad["successes"]) == (8, 8, 0)
    assert bad["p_hat"] is None
    assert bad["estimator"] is None
    assert bad["id"] not in frame.filter(frontier())["id"].to_list()


def test_prompts_that_do_not_fit_the_context_are_rejected_and_the_rest_measured(
    make_pool, run
) -> None:
    class Narrow(ScriptedEngine):
        def generate(self, requests, sampling, on_batch=None):
            long = [r.key for r in requests if r.messages[0].content.startswith("3 + ")]
            if long:
                raise PromptTooLong(long, 100)
            return super().generate(requests, sampling, on_batch)

    pool = make_pool(5)
    result, ctx = run(pool, Narrow())
    assert len(result.kept) == 4
    rejected = result.rejected.row(0, named=True)
    assert (rejected["reason"], rejected["field"]) == ("too_long", "question")
    assert "more than 100 tokens" in rejected["detail"]
    assert rejected["id"] not in ctx.ledger.scan().collect()["prompt_id"]
    assert result.kept.frame["attempts"].to_list() == [8] * 4


def test_truncated_rollouts_are_counted_apart(make_pool, run) -> None:
    class Cut(ScriptedEngine):
        def _answer(self, request, sampling):
            from dataclasses import replace

            made = super()._answer(request, sampling)
            return [replace(c, finish_reason="length") if c.sample < 3 else c for c in made]

    result, _ = run(make_pool(4), Cut())
    assert list(result.kept.frame["truncated"]) == [3] * 4
    assert result.metrics["truncated"] == 12


def test_answer_entropy_clusters_answers_that_mean_the_same(make_pool, run) -> None:
    class Forms(ScriptedEngine):
        def _answer(self, request, sampling):
            from dataclasses import replace

            forms = ["1/2", "0.5", "\\boxed{\\frac{1}{2}}", "3"]
            made = super()._answer(request, sampling)
            return [replace(c, text=f"The answer is {forms[c.sample % 4]}.") for c in made]

    frame = run(make_pool(1, answer=["0.5"]), Forms())[0].kept.frame
    share = np.array([0.75, 0.25])
    assert frame["answer_entropy"][0] == pytest.approx(float(-(share * np.log(share)).sum()))


def test_duplicated_ids_are_measured_once(make_pool, run) -> None:
    pool = make_pool(2)
    doubled = type(pool)(pl.concat([pool.frame, pool.frame]))
    engine = ScriptedEngine()
    frame = run(doubled, engine)[0].kept.frame
    assert engine.generated == 16
    assert len(frame) == 4
    assert frame["successes"][0] == frame["successes"][2]


def test_an_empty_pool_costs_nothing(context) -> None:
    from curate.pipelines.pool import Pool

    engine = ScriptedEngine()
    result = step().run(Pool.empty(), context(engine=engine))
    assert len(result.kept) == 0
    assert engine.generated == 0


def test_without_a_policy_it_says_what_to_give(make_pool, context) -> None:
    with pytest.raises(ConfigError, match="give --policy"):
        step().run(make_pool(1), context())
