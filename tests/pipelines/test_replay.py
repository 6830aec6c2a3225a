"""Stored rollouts in place of a model: re-judged, added to, found under a corrected gold."""

import polars as pl
import pytest
from scripted import ScriptedEngine

from curate.engines.api import Request, Sampling
from curate.pipelines import spend as spend_module
from curate.pipelines.errors import ConfigError, EngineError
from curate.pipelines.measure import Measure
from curate.pipelines.pool import ROLLOUT_SCHEMA, Pool
from curate.pipelines.replay import Replay, text_key


def step(k: int = 4, **settings: object) -> Measure:
    return Measure(rollouts={"per_prompt": k}, **settings)


def replay_of(rollouts: pl.DataFrame, pool: Pool, **fields: object) -> Replay:
    texts = pool.frame.select(
        pl.col("id").alias("prompt_id"), text_key(pool.frame, True).alias("text")
    )
    return Replay(ScriptedEngine().identity, rollouts.join(texts, on="prompt_id"), **fields)


def test_new_verifiers_judge_stored_rollouts_again_and_draw_none(
    make_pool, context, monkeypatch
) -> None:
    pool, ctx = make_pool(10), context(engine=ScriptedEngine())
    before = step().run(pool, ctx)
    monkeypatch.setattr(spend_module, "VERIFIER_VERSION", "next")
    real = spend_module.verify_many

    def harsh(rows, **options):
        # The new verifiers find every answer to the first sum wrong.
        return [
            v if row.gold != "1" else type(v)("incorrect", "harsh", v.extracted)
            for row, v in zip(rows, real(rows, **options), strict=True)
        ]

    monkeypatch.setattr(spend_module, "verify_many", harsh)
    engine = ScriptedEngine()
    after = step().run(pool, context(engine=engine))
    assert engine.generated == 0
    assert after.metrics["rejudged"] == 40
    assert after.metrics["changed_verdicts"] == {"correct → incorrect": 4}
    was, now = before.kept.frame, after.kept.frame
    assert (was["successes"] - now["successes"]).to_list() == [4] + [0] * 9
    stored = ctx.ledger.scan().collect()
    assert len(stored) == 40
    assert set(stored["verifier_version"]) == {"next"}


def test_only_missing_samples_are_drawn_and_are_those_of_one_go(make_pool, context) -> None:
    pool = make_pool(6)
    step(3).run(pool, context(engine=ScriptedEngine()))
    engine = ScriptedEngine()
    ctx = context(engine=engine)
    more = step(8).run(pool, ctx)
    assert engine.generated == 6 * 5
    again = ScriptedEngine().generate(
        [Request(key, _asked(pool, key), 8) for key in pool.frame["id"]], Sampling()
    )
    told = {key: [c.text for c in made] for key, made in zip(pool.frame["id"], again, strict=True)}
    stored = ctx.ledger.scan().collect().sort("sample")
    for key in pool.frame["id"]:
        assert stored.filter(pl.col("prompt_id") == key)["response"].to_list() == told[key]
    assert more.kept.frame["attempts"].to_list() == [8] * 6


def test_a_corrected_gold_finds_its_rollouts_by_what_the_policy_saw(
    make_pool, context, tmp_path
) -> None:
    pool, ctx = make_pool(5), context(engine=ScriptedEngine())
    step().run(pool, ctx)
    rollouts = ctx.ledger.scan().collect()
    replay = replay_of(rollouts, pool)
    fixed = make_pool(5, answer=["2", "3", "5", "7", "9"])
    assert fixed.frame["id"][0] != pool.frame["id"][0]
    result = step().run(fixed, context(engine=replay))
    assert result.metrics["generated"] == 0
    frame = result.kept.frame
    assert frame["attempts"].to_list() == [4] * 5
    right = rollouts.filter(
        (pl.col("prompt_id") == pool.frame["id"][0]) & (pl.col("response") == "The answer is 2.")
    )
    assert frame["successes"][0] == len(right)


def test_prompts_without_rollouts_stay_unmeasured(make_pool, context) -> None:
    pool, ctx = make_pool(3), context(engine=ScriptedEngine())
    step().run(pool, ctx)
    replay = replay_of(ctx.ledger.scan().collect(), pool)
    result = step().run(make_pool(5), context(engine=replay))
    assert result.metrics["without_rollouts"] == 2
    assert result.kept.frame["attempts"].to_list() == [4, 4, 4, 0, 0]
    assert result.kept.frame["p_hat"].null_count() == 2


def test_rollouts_of_other_settings_are_not_taken(make_pool, context, tmp_path) -> None:
    pool, ctx = make_pool(3), context(engine=ScriptedEngine())
    step().run(pool, ctx)
    replay = replay_of(ctx.ledger.scan().collect(), pool)
    with pytest.raises(ConfigError, match=r"was drawn at temperature 0\.5, top_p 1\.0"):
        step(temperature=0.5).run(pool, context(engine=replay))


def test_further_policies_are_measured_beside_the_one(make_pool, context) -> None:
    pool = make_pool(4)
    draws = pl.DataFrame(
        {
            "prompt_id": [None] * 4,
            "text": [f"{i} + {i + 1}" for i in range(4)],
            "sample": [0] * 4,
            "response": ["The answer is 1."] * 4,
            "tokens": [None] * 4,
        },
        schema_overrides={n: ROLLOUT_SCHEMA[n] for n in ("prompt_id", "sample", "tokens")},
    )
    missing = ("prompt_tokens", "finish_reason", "logprob_sum", "seconds")
    draws = draws.with_columns(pl.lit(None, dtype=ROLLOUT_SCHEMA[n]).alias(n) for n in missing)
    other = Replay(
        ScriptedEngine(revision="made elsewhere").identity, draws,
        settings={"temperature": 0.7}, with_system=False,
    )  # fmt: skip
    ctx = context(engine=ScriptedEngine(), others=(other,))
    result = step().run(pool, ctx)
    table = pl.read_parquet(ctx.artifact / "pass_rates.parquet")
    mine = table.filter(pl.col("revision") == "made elsewhere")
    assert mine["successes"].to_list() == [1, 0, 0, 0]
    assert set(mine["temperature"]) == {0.7}
    assert mine["max_tokens"].null_count() == 4  # not stated, so not invented
    assert set(result.kept.frame["attempts"]) == {4}


def test_a_replay_never_generates(make_pool) -> None:
    pool = make_pool(1)
    replay = Replay(ScriptedEngine().identity, pl.DataFrame())
    with pytest.raises(EngineError, match="only stored rollouts"):
        replay.generate([Request("a", _asked(pool, pool.frame["id"][0]))], Sampling())


def _asked(pool: Pool, key: str):
    from curate.engines.api import Message

    question = pool.frame.filter(pl.col("id") == key)["question"][0]
    return (Message("user", question),)
