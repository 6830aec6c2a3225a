"""Several sources at once: settings of each, names, licences, weights."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.curators.qa import QuestionAnswer
from curate.pipelines.errors import ConfigError, SourceError
from curate.pipelines.mixture import SourceSpec, open_mixture
from curate.pipelines.pool import Pool
from curate.pipelines.recipe import load_recipe
from curate.pipelines.step import Context, StepResult


def rows(path: Path, n: int, word: str, **more: object) -> str:
    path.write_text(
        "".join(
            json.dumps({"question": f"{word} {i}?", "answer": str(i), **more}) + "\n"
            for i in range(n)
        )
    )
    return str(path)


def read(context: Callable[..., Context], *specs: SourceSpec, **fields: object) -> StepResult:
    ctx = context(source=open_mixture(specs), **fields)
    result = QuestionAnswer().run(Pool.empty(), ctx)
    assert result.read == len(result.kept) + len(result.rejected)
    return result


def test_each_source_has_its_own_columns_kind_and_defaults(
    tmp_path: Path, context: Callable[..., Context]
) -> None:
    one = rows(tmp_path / "a.jsonl", 2, "a", license="mit")
    other = tmp_path / "b.jsonl"
    other.write_text('{"ask": "Is it red?", "say": "Paris", "license": null}\n')
    result = read(
        context,
        SourceSpec(uri=one, domain="sums", license="apache-2.0", verifier_options={"rel_tol": 0.1}),
        SourceSpec(uri=str(other), question="ask", answer="say", kind="text", name="quiz",
                   license="cc0-1.0", language="en", system="Be short."),
    )  # fmt: skip
    frame = result.kept.frame
    assert frame["kind"].to_list() == ["math", "math", "text"]
    assert frame["license"].to_list() == ["mit", "mit", "cc0-1.0"]  # a row's own wins
    assert frame["domain"].to_list() == ["sums", "sums", None]
    assert frame["system"].to_list() == [None, None, "Be short."]
    assert frame["source"].to_list() == ["a", "a", "quiz"]
    assert frame["source_id"].to_list() == ["a/a.jsonl:1", "a/a.jsonl:2", "quiz/b.jsonl:1"]
    assert frame["verifier_options"].to_list() == ['{"rel_tol":0.1}'] * 2 + ["{}"]


def test_equal_file_names_are_told_apart(tmp_path: Path, context: Callable[..., Context]) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        rows(tmp_path / folder / "train.jsonl", 1, folder)
    specs = [SourceSpec(uri=str(tmp_path / f / "train.jsonl")) for f in ("x", "y")]
    frame = read(context, *specs).kept.frame
    assert frame["source_id"].to_list() == ["train-1/train.jsonl:1", "train-2/train.jsonl:1"]


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    weights=st.lists(st.floats(0.1, 9), min_size=4, max_size=4),
)
def test_weights_hold_without_repeats_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], weights: list[float]
) -> None:
    from curate.pipelines.ledger import Ledger

    folder = tmp_path_factory.mktemp("mixture")
    specs = [
        SourceSpec(uri=rows(folder / f"s{i}.jsonl", n, f"s{i}"), weight=weights[i])
        for i, n in enumerate(sizes)
    ]
    ctx = Context(seed=0, ledger=Ledger(folder), artifact=folder, source=open_mixture(specs))
    result = QuestionAnswer().run(Pool.empty(), ctx)
    assert len(result.kept) + len(result.rejected) == sum(sizes)
    assert result.kept.frame["id"].is_unique().all()
    kept = Counter(result.kept.frame["source"])
    scale = min(n / w for n, w in zip(sizes, weights, strict=False))
    for i, n in enumerate(sizes):
        assert abs(kept[f"s{i}"] - weights[i] * scale) <= 1
        assert 1 <= kept[f"s{i}"] <= n
    assert set(result.rejected["reason"]) <= {"over_weight"}


def test_which_rows_a_weight_leaves_out_does_not_depend_on_their_order(
    tmp_path: Path, context: Callable[..., Context]
) -> None:
    one, other = rows(tmp_path / "a.jsonl", 30, "a"), rows(tmp_path / "b.jsonl", 5, "b")
    specs = [SourceSpec(uri=one, weight=1), SourceSpec(uri=other, weight=1)]
    first = set(read(context, *specs).kept.frame["id"])
    lines = Path(one).read_text().splitlines()
    Path(one).write_text("\n".join(reversed(lines)) + "\n")
    assert set(read(context, *specs).kept.frame["id"]) == first
    assert set(read(context, *specs, seed=1).kept.frame["id"]) != first


def test_a_weight_no_usable_row_can_hold_is_an_error(
    tmp_path: Path, context: Callable[..., Context]
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "q", "answer": ""}\n')
    one = SourceSpec(uri=rows(tmp_path / "a.jsonl", 3, "a"), weight=1)
    with pytest.raises(SourceError, match="bad: has no usable row"):
        read(context, one, SourceSpec(uri=str(tmp_path / "bad.jsonl"), weight=1))


def test_what_cannot_be_a_mixture_is_refused(tmp_path: Path) -> None:
    one = rows(tmp_path / "a.jsonl", 1, "a")
    for specs, told in (
        ([], "no source"),
        ([SourceSpec(uri=one, weight=1), SourceSpec(uri=one)], "has no weight"),
        ([SourceSpec(uri=one, name="x"), SourceSpec(uri=one, name="x")], "named 'x'"),
        ([SourceSpec(uri="-"), SourceSpec(uri="-")], "only once"),
    ):
        with pytest.raises(ConfigError, match=told):
            open_mixture(specs)


def test_the_digest_follows_content_and_settings_not_the_place(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        rows(tmp_path / folder / "a.jsonl", 2, "a")
    x, y = (str(tmp_path / folder / "a.jsonl") for folder in ("x", "y"))
    digest = open_mixture([SourceSpec(uri=x)]).digest
    assert open_mixture([SourceSpec(uri=y)]).digest == digest
    assert open_mixture([SourceSpec(uri=y, license="mit")]).digest != digest
    assert open_mixture([SourceSpec(uri=y), SourceSpec(uri=x)]).digest != digest


def test_a_recipe_may_say_what_it_reads(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nsources:\n  - a.jsonl\n  - {uri: b.jsonl, kind: text, weight: 2}\n"
        "steps: [qa]\n"
    )
    assert load_recipe(str(recipe)).sources == (
        SourceSpec(uri="a.jsonl"), SourceSpec(uri="b.jsonl", kind="text", weight=2),
    )  # fmt: skip
    recipe.write_text("name: mine\nsources:\n  - a.jsonl\n  - {uri: b, weight: -2}\nsteps: [qa]\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:4: sources.weight: "):
        load_recipe(str(recipe))
    recipe.write_text("name: mine\nsources: a.jsonl\nsteps: [qa]\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:2: sources is a list"):
        load_recipe(str(recipe))
