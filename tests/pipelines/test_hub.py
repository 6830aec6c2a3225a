"""``hf:`` sources, against a dataset in Hugging Face format in a local folder."""

import json
from pathlib import Path

import pytest

from curate.pipelines.errors import SourceError, UsageError
from curate.pipelines.hub import open_hub

pytest.importorskip("datasets")

CARD = """---
license: mit
configs:
- config_name: main
  data_files: [{split: train, path: data/train.jsonl}, {split: test, path: data/test.jsonl}]
- config_name: chat
  data_files: [{split: train, path: data/chat.jsonl}]
---
"""


def lines(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    lines(
        folder / "data/train.jsonl", [{"question": f"{i} + 3", "answer": i + 3} for i in range(9)]
    )
    lines(folder / "data/test.jsonl", [{"question": f"{i} + 9", "answer": i + 9} for i in range(4)])
    lines(folder / "data/chat.jsonl", [{"question": "7 - 2", "answer": 5}])
    return folder


def test_configuration_and_split_are_read_in_order_and_limited(dataset: Path) -> None:
    rows = list(open_hub(f"hf:{dataset}:main:test", limit=3).rows())
    assert [(label, row.row, row.record["question"]) for label, row in rows] == [
        ("main/test", 1, "0 + 9"), ("main/test", 2, "1 + 9"), ("main/test", 3, "2 + 9"),
    ]  # fmt: skip


def test_one_word_is_a_configuration_if_there_is_one_of_this_name(dataset: Path) -> None:
    assert (open_hub(f"hf:{dataset}:chat").config, open_hub(f"hf:{dataset}:chat").split) == (
        "chat", "train",
    )  # fmt: skip
    (dataset / "README.md").unlink()
    (dataset / "data/chat.jsonl").unlink()
    assert open_hub(f"hf:{dataset}:test").split == "test"
    assert open_hub(f"hf:{dataset}").split == "train"


def test_the_revision_is_the_content_and_the_licence_the_cards(dataset: Path) -> None:
    before = open_hub(f"hf:{dataset}:main:train")
    assert before.license == "mit"
    assert open_hub(f"hf:{dataset}:main:train").digest == before.digest
    assert open_hub(f"hf:{dataset}:main:test").digest != before.digest
    with (dataset / "data/train.jsonl").open("a") as file:
        file.write('{"question": "1 + 1", "answer": 2}\n')
    after = open_hub(f"hf:{dataset}:main:train")
    assert after.revision != before.revision
    assert after.digest != before.digest


@pytest.mark.parametrize(
    ("uri", "error", "told"),
    [
        ("hf:{}", SourceError, "name a configuration; it has main, chat"),
        ("hf:{}:main:valid", SourceError, "no split 'valid'; it has train, test"),
        ("hf:{}:other:train", SourceError, "no configuration 'other'"),
        ("hf:{}/none", SourceError, "no such folder"),
        ("hf:{}:a:b:c", UsageError, "expected hf:"),
        ("hf:", UsageError, "expected hf:"),
        ("hf:owner/name@:main", UsageError, "nothing after @"),
        ("hf:a b/c", UsageError, "is no dataset id"),
    ],
)
def test_what_is_not_there_is_named(
    dataset: Path, uri: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        open_hub(uri.format(dataset))


def test_a_hub_that_cannot_be_reached_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    def refused(*_: object, **__: object) -> None:
        raise ConnectionError("connection refused\nmore")

    monkeypatch.setattr(HfApi, "dataset_info", refused)
    with pytest.raises(SourceError, match=r"not found on the hub: connection refused$"):
        open_hub("hf:owner/name")


def test_a_row_that_cannot_be_read_is_named(dataset: Path) -> None:
    (dataset / "data/test.jsonl").write_text('{"question": "a"}\n{broken\n')
    source = open_hub(f"hf:{dataset}:main:test")
    with pytest.raises(SourceError, match=r"main:test: row \d"):
        list(source.rows())
