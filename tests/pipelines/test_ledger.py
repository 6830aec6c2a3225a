"""The ledger: appended, never rewritten, one row a draw."""

import polars as pl
import pytest

from curate.pipelines.errors import PoolError
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import ROLLOUT_SCHEMA


def rollouts(prompt: str, samples: range, verdict: str = "correct", version: str = "1"):
    n = len(samples)
    columns = {
        "prompt_id": [prompt] * n,
        "sample": list(samples),
        "policy": ["p"] * n,
        "revision": ["r"] * n,
        "template": ["t"] * n,
        "strategy": ["direct"] * n,
        "seed": [0] * n,
        "temperature": [1.0] * n,
        "top_p": [1.0] * n,
        "max_tokens": [8] * n,
        "response": [f"{prompt}-{i}" for i in samples],
        "answer": ["1"] * n,
        "verdict": [verdict] * n,
        "reason": ["equal"] * n,
        "verifier_version": [version] * n,
        "prompt_tokens": [3] * n,
        "tokens": [4] * n,
        "finish_reason": ["stop"] * n,
        "logprob_sum": [None] * n,
        "seconds": [0.1] * n,
    }
    return pl.DataFrame(columns, schema=ROLLOUT_SCHEMA)


def test_what_is_appended_comes_back_whole(tmp_path) -> None:
    ledger = Ledger(tmp_path / "rollouts")
    assert ledger.scan().collect().is_empty()
    one, other = rollouts("a", range(3)), rollouts("b", range(2))
    ledger.append(one)
    ledger.append(other)
    assert ledger.scan().collect().equals(pl.concat([one, other]))


def test_a_draw_judged_again_counts_once_with_the_later_verdict(tmp_path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(rollouts("a", range(3), "incorrect", "1"))
    ledger.append(rollouts("a", range(1, 3), "correct", "2"))
    found = dict(ledger.scan().collect().select("sample", "verdict").iter_rows())
    assert found == {0: "incorrect", 1: "correct", 2: "correct"}
    assert len(pl.read_parquet(sorted(tmp_path.glob("part-*.parquet")))) == 5


def test_the_verdict_of_the_verifiers_asked_for_is_taken_even_if_it_is_not_the_last(
    tmp_path,
) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(rollouts("a", range(3), "incorrect", "1"))
    ledger.append(rollouts("a", range(2), "correct", "2"))
    ledger.append(rollouts("b", range(1), "correct", "2"))

    def verdicts(version: str | None) -> dict[str, list[str]]:
        found = ledger.scan(version).collect().sort("prompt_id", "sample")
        return dict(found.group_by("prompt_id").agg("verdict").iter_rows())

    right, wrong = "correct", "incorrect"
    assert verdicts("1") == {"a": [wrong] * 3, "b": [right]}
    assert verdicts("2") == verdicts(None) == {"a": [right, right, wrong], "b": [right]}


def test_nothing_appended_leaves_no_file(tmp_path) -> None:
    Ledger(tmp_path).append(rollouts("a", range(0)))
    assert not list(tmp_path.iterdir())


def test_a_half_written_part_is_never_read(tmp_path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(rollouts("a", range(2)))
    (tmp_path / ".tmp-1-part-00001-abc.parquet").write_bytes(b"PAR1")
    assert len(ledger.scan().collect()) == 2


def test_a_frame_of_another_shape_is_refused(tmp_path) -> None:
    with pytest.raises(PoolError, match="missing verdict"):
        Ledger(tmp_path).append(rollouts("a", range(1)).drop("verdict"))


def test_parts_are_read_in_the_order_they_were_written(tmp_path) -> None:
    ledger = Ledger(tmp_path)
    for version in range(12):
        verdict = "correct" if version == 11 else "error"
        ledger.append(rollouts("a", range(1), verdict, str(version)))
    assert list(ledger.scan().collect()["verdict"]) == ["correct"]
