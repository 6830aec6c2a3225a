"""An export as its trainer sees it: good ones pass, and every kind of damage is found and named."""

import json
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.pipelines.errors import ConfigError, UsageError
from curate.pipelines.files import write_json
from curate.pipelines.order import Order
from curate.pipelines.pool import Pool
from curate.pipelines.shard import CONTENTS, Shard
from curate.pipelines.sinks import SINKS
from curate.pipelines.trainer_view import VIEWS
from curate.pipelines.verify_export import ExportReport, verify_export
from curate.pipelines.wrong_answers import wrong_answer
from curate.verifiers.api import kinds, verify

pytest.importorskip("datasets")

#: question, gold, kind, options, choices, domain
PROMPTS = [
    *((f"{i} + {i + 1}", str(2 * i + 1), "math", {}, None, "sums") for i in range(12)),
    ("Half of one?", "\\frac{1}{2}", "math", {}, None, "fractions"),
    ("x > 2 and x < 3", "(2, 3)", "math", {}, None, "sets"),
    ("Expand (x+1)^2", "x^2 + 2x + 1", "math", {}, None, "algebra"),
    ("Which is red?", "B", "choice", {}, ["sky", "blood", "grass"], "colours"),
    ("Which are warm?", "A,C", "choice", {"multi": True}, ["red", "blue", "orange"], "colours"),
    ("Is 7 prime?", "yes", "boolean", {}, None, "logic"),
    ("Does it follow?", "unknown", "boolean", {"labels": ["true", "false", "unknown"]}, None,
     "logic"),
    ("Largest animal?", "blue whale", "text", {"aliases": ["the whale"]}, None, "animals"),
    ("When?", "2020-03-05", "text", {"type": "date"}, None, "dates"),
    ("How far?", "3 km", "quantity", {"rel_tol": 0.01}, None, "physics"),
    ("How heavy?", "about 5.5 kg", "quantity", {}, None, "physics"),
    ("Primes below 6?", "2, 3, 5", "items", {"ordered": False}, None, "sums"),
    ("Colours of the flag?", "[red, white]", "items", {}, None, "colours"),
    ("As JSON?", '{"a": [1, 2]}', "structured", {}, None, "data"),
    ("Übung: wie viele „Äpfel“?\nZeile zwei", "7", "math", {}, None, None),
]  # fmt: skip


def made(**more: object) -> Pool:
    question, answer, kind, options, choices, domain = (list(x) for x in zip(*PROMPTS, strict=True))
    columns = {
        "question": question,
        "answer": answer,
        "kind": kind,
        "verifier_options": [json.dumps(value) for value in options],
        "choices": choices,
        "domain": domain,
        "system": ["Be brief.", None, *["Answer \\boxed{}."] * (len(question) - 2)],
        "source": ["made"] * len(question),
    }
    return Pool.from_columns({**columns, **more})


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Path:
    """A build's folder with shards for every trainer and the pool they were made of."""
    return _build(made(), tmp_path_factory.mktemp("build"))


def _build(pool: Pool, root: Path, **settings: object) -> Path:
    from curate.pipelines.ledger import Ledger
    from curate.pipelines.step import Context

    artifact = root / "steps/06-shard-x"
    artifact.mkdir(parents=True)
    context = Context(seed=0, ledger=Ledger(root / "rollouts"), artifact=artifact)
    ordered = Order(by="random", stages=3).run(pool, context).kept
    kept = Shard(formats="all", **{"validation": 0.2, **settings}).run(ordered, context).kept
    kept.frame.write_parquet(artifact / "part-00000.parquet")
    write_json(root / "manifest.json", {"steps": [{"artifact": artifact.name}]})
    shutil.copytree(artifact / "shards", root / "shards")
    return root


@pytest.fixture(scope="module")
def lean(tmp_path_factory) -> Path:
    """A build with files of one kind and two stages."""
    root = tmp_path_factory.mktemp("lean")
    return _build(made(), root, files=("parquet",), validation=0.1)


@pytest.fixture
def copy(lean, tmp_path) -> Path:
    """The lean build, to be damaged."""
    return shutil.copytree(lean, tmp_path / "build")


def failing(report: ExportReport) -> dict[str, list[str]]:
    return {
        one.name.partition(" (")[0]: [str(failure) for failure in one.failures]
        for one in report.checks
        if not one.ok
    }


@pytest.mark.parametrize("trainer", SINKS)
def test_what_shard_writes_passes_every_check(build, trainer) -> None:
    report = verify_export(build, trainer)
    assert failing(report) == {}
    assert report.ok
    assert report.rows == report.tried == len(PROMPTS)
    assert {"files", "gold earns 1", "wrong answer earns 0"} <= {one.name for one in report.checks}
    assert json.loads(json.dumps(report.as_dict()))["ok"] is True


def test_the_pool_tries_every_kind() -> None:
    assert {row[2] for row in PROMPTS} == set(kinds())
    assert SINKS.keys() == VIEWS.keys()


@pytest.mark.parametrize("row", PROMPTS, ids=lambda row: row[0][:12])
def test_wrong_answers_are_wrong(row) -> None:
    _, gold, kind, options, choices, _ = row
    args = {**options, **({"options": choices} if choices else {})}
    wrong = wrong_answer(kind, gold, args)
    assert wrong != gold
    assert verify(kind, gold, wrong, **args).value == "incorrect"


@pytest.mark.parametrize(
    ("gold", "args", "wrong"),
    [("10", {"rel_tol": 0.5}, "21"), ("10", {"abs_tol": 3}, "17"), ("-1.5", {}, "-0.5")],
)
def test_wrong_numbers_lie_beyond_what_is_forgiven(gold, args, wrong) -> None:
    assert wrong_answer("quantity", gold, args) == wrong


def jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rewrite(path: Path, rows: list[dict]) -> None:
    """Put other rows in a file of either kind, with a file's own schema where it has one."""
    if path.suffix == ".parquet":
        schema = pq.read_schema(path)
        columns = pa.schema([field for field in schema if not rows or field.name in rows[0]])
        pq.write_table(pa.Table.from_pylist(rows, columns), path, store_schema=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def first(copy: Path, trainer: str, label: str = "ordered") -> tuple[Path, list[dict]]:
    (path,) = (copy / "shards" / trainer / "train").glob(f"{label}-part-00000.*")
    rows = jsonl(path) if path.suffix == ".jsonl" else pq.read_table(path).to_pylist()
    return path, rows


@pytest.mark.parametrize("trainer", SINKS)
def test_a_shuffled_file_is_found(copy, trainer) -> None:
    path, rows = first(copy, trainer)
    rewrite(path, [rows[1], rows[0], *rows[2:]])
    found = failing(verify_export(copy, trainer))
    assert found["order"][0].startswith(f"train/{path.name}:2: rank ")
    assert any(line.startswith("train/stage-00") for line in found["stages"])
    assert found["files"] == [f"train/{path.name}: has changed since it was written"]


#: How to put another gold into a row of each format.
_LABELS = {"openrlhf": "label", "open-instruct": "ground_truth", "nemo-rl": "output"}


def change_gold(trainer: str, row: dict, gold: str) -> None:
    if trainer in _LABELS:
        told = json.loads(row[_LABELS[trainer]])
        row[_LABELS[trainer]] = json.dumps({**told, "gold": gold})
    elif trainer in ("trl", "prime-rl"):
        row["answer"] = gold
    else:
        row["reward_model" if trainer == "verl" else "reward_spec"]["ground_truth"] = gold


@pytest.mark.parametrize("trainer", SINKS)
def test_a_changed_gold_is_found(copy, trainer) -> None:
    path, rows = first(copy, trainer)
    change_gold(trainer, rows[4], "123456")
    rewrite(path, rows)
    found = failing(verify_export(copy, trainer))
    assert found["prompts"][0].startswith(f"train/{path.name}:5: gold '123456' is not the pool's")
    assert any("differs from the ordered" in line for line in found["stages"])


@pytest.mark.parametrize("trainer", SINKS)
def test_a_gold_no_verifier_can_use_is_found(copy, trainer) -> None:
    path, rows = first(copy, trainer)
    place = next(i for i, row in enumerate(rows) if VIEWS[trainer].see(row).kind == "math")
    change_gold(trainer, rows[place], " ")
    rewrite(path, rows)
    (line,) = failing(verify_export(copy, trainer))["gold earns 1"]
    assert line.startswith(f"train/{path.name}:{place + 1}: math gold ' ' earns ")


@pytest.mark.parametrize("trainer", SINKS)
def test_a_dropped_column_is_found(copy, trainer) -> None:
    path, rows = first(copy, trainer)
    column = _LABELS.get(trainer) or {"trl": "kind", "prime-rl": "info"}.get(trainer, "extra_info")
    rewrite(path, [{k: v for k, v in row.items() if k != column} for row in rows])
    found = failing(verify_export(copy, trainer))
    at = ":1" if path.suffix == ".jsonl" else ""
    assert found["schema"][0] == f"train/{path.name}{at}: column {column!r} is missing"
    assert found["fields"]


@pytest.mark.parametrize("trainer", SINKS)
def test_a_missing_stage_file_is_found(copy, trainer) -> None:
    path, rows = first(copy, trainer, "stage-01")
    path.unlink()
    found = failing(verify_export(copy, trainer))
    assert found["files"] == [f"train/{path.name}: is missing"]
    ordered = path.name.replace("stage-01", "ordered")
    assert len(found["stages"]) == len(rows)
    assert all(line.startswith(f"train/{ordered}:") for line in found["stages"])
    assert "is in no stage file (stage 1)" in found["stages"][0]


def test_a_prompt_in_train_and_validation_is_found_without_a_build(copy) -> None:
    (copy / "manifest.json").unlink()
    path, rows = first(copy, "nemo-rl")
    held = copy / "shards/nemo-rl/validation/ordered-part-00000.jsonl"
    rewrite(held, [*jsonl(held), rows[0]])
    found = failing(verify_export(copy / "shards", "nemo-rl"))
    n = len(jsonl(held))
    assert found["lineage"] == [
        f"validation/{held.name}:{n}: prompt {rows[0]['prompt_id']} is also train/{path.name}:1"
    ]


def test_a_family_on_both_sides_is_found(copy) -> None:
    part = copy / "steps/06-shard-x/part-00000.parquet"
    frame = pl.read_parquet(part)
    split = {
        name: frame.filter(pl.col("split") == name)["id"][0] for name in ("train", "validation")
    }
    related = pl.when(pl.col("id").is_in(list(split.values()))).then(pl.lit(["ancestor"]))
    frame.with_columns(related.otherwise("parents").alias("parents")).write_parquet(part)
    (line,) = failing(verify_export(copy, "nemo-rl"))["lineage"]
    assert "shares an ancestor with train/ordered-part-00000.jsonl:1" in line


def test_rows_that_were_lost_are_found(build, tmp_path) -> None:
    copy = shutil.copytree(build, tmp_path / "build")
    path = copy / "shards/trl/train/ordered-part-00000.parquet"
    rows = pq.read_table(path).to_pylist()
    rewrite(path, rows[:-1])
    found = failing(verify_export(copy, "trl", sample=1))
    detail = f"has {len(rows) - 1} rows, {len(rows)} were written"
    assert found["files"] == [f"train/{path.name}: {detail}"]
    assert found["copies"]


def test_a_hook_that_rewards_everything_is_found(build, monkeypatch) -> None:
    monkeypatch.setattr("curate.verifiers.rewards.rewards", lambda rows: [1.0] * len(rows))
    found = failing(verify_export(build, "skyrl"))
    assert len(found["wrong answer earns 0"]) == len(PROMPTS)


def test_dates_that_json_readers_would_convert_are_found(tmp_path) -> None:
    golds = [f"2020-03-0{i}" for i in range(1, 9)]
    pool = made().frame.head(8).with_columns(
        pl.Series("answer", golds), pl.lit("text").alias("kind"),
        pl.lit('{"type": "date"}').alias("verifier_options"),
    )  # fmt: skip
    root = _build(Pool.from_columns(pool.drop("id")), tmp_path, validation=0)
    for trainer in ("trl", "verl", "prime-rl"):
        lines = failing(verify_export(root, trainer))["fields"]
        assert all(".jsonl: loads with another type" in line for line in lines)
        assert "timestamp" in lines[0]
    # Labels are JSON text, which no reader takes for a date.
    assert failing(verify_export(root, "openrlhf")) == {}


def test_parts_of_a_long_export_are_read_in_order(tmp_path) -> None:
    root = _build(made(), tmp_path, rows_per_file=5)
    for trainer in ("verl", "openrlhf"):
        assert failing(verify_export(root, trainer)) == {}
    assert len(list((root / "shards/verl/train").glob("ordered-*.parquet"))) > 3


def test_a_sample_is_as_large_as_asked_and_the_same_each_time(build) -> None:
    assert verify_export(build, "prime-rl", sample=3).tried == 3
    with pytest.raises(UsageError, match="at least 1"):
        verify_export(build, "trl", sample=0)


@pytest.mark.parametrize("at", ["", "shards", "shards/trl"])
def test_the_folder_may_be_the_build_or_inside_it(build, at) -> None:
    assert verify_export(build / at, "trl", sample=1).folder.name == "trl"


def test_what_is_not_there_is_said(build, tmp_path) -> None:
    with pytest.raises(ConfigError, match="known: trl, verl"):
        verify_export(build, "trlx")
    with pytest.raises(ConfigError, match="no files for verl"):
        verify_export(tmp_path, "verl")
    with pytest.raises(ConfigError, match="it holds trl"):
        shutil.copytree(build / "shards/trl", tmp_path / "shards/trl")
        verify_export(tmp_path, "verl")


def test_a_listing_that_is_gone_is_a_failure(copy) -> None:
    (copy / "shards/trl" / CONTENTS).unlink()
    assert failing(verify_export(copy, "trl", sample=1))["files"][0].startswith(CONTENTS)
