"""Every trainer's shape: exact columns, plain types, and files that say how to keep the order."""

import ast
import json
import os
import re
import subprocess
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from curate.pipelines.order import Order
from curate.pipelines.shard import CONTENTS, Shard
from curate.pipelines.sinks import SINKS

COLUMNS = {
    "openrlhf": ["prompt", "label", "datasource", "prompt_id", "rank", "stage"],
    "open-instruct": ["messages", "ground_truth", "dataset", "prompt_id", "rank", "stage"],
    "skyrl": ["data_source", "prompt", "env_class", "reward_spec", "extra_info"],
    "nemo-rl": ["input", "output", "prompt_id", "rank", "stage"],
    "prime-rl": ["prompt", "answer", "info", "task"],
    "verl": ["data_source", "prompt", "ability", "reward_model", "extra_info"],
}
STAGED = {"openrlhf": "openrlhf.sh", "open-instruct": "open_instruct.sh", "skyrl": "skyrl.sh"}


@pytest.fixture
def written(make_pool, context):
    def make(n: int = 12, columns: dict | None = None, **settings: object):
        ctx = context()
        pool = Order(by="random", stages=3).run(make_pool(n, **(columns or {})), ctx).kept
        Shard(**{"formats": "all", "validation": 0, **settings}).run(pool, ctx)
        return ctx.artifact / "shards"

    return make


def rows(folder, trainer: str) -> list[dict]:
    path = folder / trainer / "train/ordered-part-00000.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("trainer", "columns"), COLUMNS.items())
def test_columns_are_the_trainers(written, trainer, columns) -> None:
    folder = written(columns={"system": ["Be brief."] + [None] * 11})
    assert all(list(row) == columns for row in rows(folder, trainer))
    for path in (folder / trainer).rglob("*.parquet"):
        schema = pq.read_schema(path)
        assert schema.names == columns
        assert schema.metadata is None
        assert "large" not in str(schema)


def test_labels_carry_what_a_verifier_needs(written) -> None:
    folder = written(2, {"choices": [["red", "blue"], None]})
    for trainer, column in (("openrlhf", "label"), ("open-instruct", "ground_truth"),
                            ("nemo-rl", "output")):  # fmt: skip
        told = [json.loads(row[column]) for row in rows(folder, trainer)]
        assert {one["gold"] for one in told} == {"1", "3"}
        assert {"options": {"A": "red", "B": "blue"}} in [one["args"] for one in told]


def test_nemo_rl_reads_json_lines_only_and_keeps_the_system_message(written) -> None:
    folder = written(1, {"system": ["Be brief."]}, files=("parquet",))
    assert not list((folder / "nemo-rl").rglob("*.parquet"))
    assert rows(folder, "nemo-rl")[0]["input"] == "Be brief.\n\n0 + 1"


@pytest.mark.parametrize("trainer", SINKS)
def test_what_was_written_is_listed(written, trainer) -> None:
    folder = written(rows_per_file=5) / trainer
    listed = json.loads((folder / CONTENTS).read_text())
    assert listed["format"] == trainer
    assert listed["longest_prompt"] == {"chars": 7, "bytes": 7}
    found = {str(path.relative_to(folder)) for path in folder.glob("*/*-part-*")}
    assert {entry["path"] for entry in listed["files"]} == found


def test_every_file_beside_the_data_is_well_formed(written) -> None:
    folder = written(batch=4)
    checked = 0
    for path in folder.rglob("*"):
        if path.suffix in (".py", ".sh", ".yaml", ".toml"):
            text = path.read_text()
            assert not re.search("@[A-Z_]+@", text)
            checked += 1
            if path.suffix == ".py":
                ast.parse(text)
            elif path.suffix == ".sh":
                subprocess.run(["bash", "-n", str(path)], check=True)
            elif path.suffix == ".yaml":
                yaml.safe_load(text)
            else:
                tomllib.loads(text)
    assert checked == 17


def test_shuffling_is_off_where_it_can_be(written) -> None:
    folder = written(batch=4)
    assert '"shuffle_dataset": False' in (folder / "trl/trl_train.py").read_text()
    verl = (folder / "verl/verl.sh").read_text()
    for setting in ("data.shuffle=False", "data.train_batch_size=4", "data.max_prompt_length=320",
                    "data.filter_overlong_prompts=True",
                    "custom_reward_function.name=compute_score"):  # fmt: skip
        assert setting in verl
    nemo = yaml.safe_load((folder / "nemo-rl/nemo_rl.yaml").read_text())
    assert nemo["data"]["shuffle"] is False
    assert nemo["data"]["train"] == [{"data_path": "train/ordered-part-00000.jsonl"}]


@pytest.mark.parametrize(("trainer", "script"), STAGED.items())
def test_staged_runs_go_stage_by_stage_from_the_weights_before(
    written, tmp_path, trainer, script
) -> None:
    folder = written() / trainer
    log, out = tmp_path / "calls", tmp_path / "out"
    fake = tmp_path / "bin/python3"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\n'
        f"mkdir -p {out}/stage-0/export/global_step_9/policy "
        f"{out}/stage-1/export/global_step_9/policy {out}/stage-2/export/global_step_9/policy\n"
    )
    fake.chmod(0o755)
    env = {"PATH": f"{fake.parent}:{os.environ['PATH']}", "MODEL": "base", "OUT": str(out)}
    for _ in range(2):  # a second call finds every stage done
        subprocess.run(["bash", str(folder / script)], env=env, check=True, capture_output=True)
        calls = log.read_text().splitlines()
        assert len(calls) == 3
    for stage, call in enumerate(calls):
        assert f"train/stage-{stage:02d}-part-00000." in call
        assert "ordered-" not in call
        assert ("base" if stage == 0 else f"{out}/stage-{stage - 1}") in call


def test_the_prime_rl_environment_holds_no_data(written) -> None:
    evil = ['"); import os  # ', "'''", "{{x}}"] + ["q"] * 9
    one = written(columns={"question": evil, "domain": evil}) / "prime-rl/environment"
    texts = {path.name: path.read_text() for path in one.iterdir()}
    assert set(texts) == {"pyproject.toml", "curate_pool.py"}
    assert not any(text in code for code in texts.values() for text in evil[:1])
    names = {node.name for node in ast.walk(ast.parse(texts["curate_pool.py"]))
             if isinstance(node, ast.FunctionDef)}  # fmt: skip
    assert "load_environment" in names


def test_training_rows_are_in_blocks_after_the_hold_out(make_pool, context, tmp_path) -> None:
    domains = ["a"] * 30 + ["b"] * 10
    pool = Order(by="random", stages=1).run(make_pool(40, domain=domains), context()).kept
    order, blocks = (), ()
    for batch in (None, 4):
        ctx = context(artifact=tmp_path / str(batch))
        Shard(formats=("nemo-rl",), validation=0.3, batch=batch).run(pool, ctx)
        ids = [row["prompt_id"] for row in rows(ctx.artifact / "shards", "nemo-rl")]
        ranks = [row["rank"] for row in rows(ctx.artifact / "shards", "nemo-rl")]
        assert ranks == sorted(set(ranks))
        order, blocks = blocks, ids
    assert 20 < len(order) < 40
    assert order != blocks
    for start in range(0, len(order), 4):
        assert set(order[start : start + 4]) == set(blocks[start : start + 4])


def test_parquet_of_the_same_trainer_concatenates_across_pools(written, make_pool, context) -> None:
    one = pq.read_schema(written() / "skyrl/train/ordered-part-00000.parquet")
    assert one.equals(SINKS["skyrl"].schema)
    assert pa.types.is_struct(one.field("extra_info").type)
