"""report.html as its reader meets it: the figures, the escaping, and a real browser's view."""

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from shutil import which

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.pipelines.files import write_json, write_parquet
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import ROLLOUT_SCHEMA, Pool, conform, rejects
from curate.pipelines.report import write_report
from curate.pipelines.report_figures import facts, funnel, histogram, stages, ticks
from curate.pipelines.report_records import LIMITS, spread, text_limit

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.hacked=4",
    "' onmouseover='window.hacked=5",
    "</pre></td></table><iframe srcdoc='<script>parent.hacked=6</script>'>",
    "<!-- <style>*{display:none}</style>",
    "line\u2028separator \x1b[31m \x01 \u202egnp.exe",
)


def make_build(folder: Path, n: int = 40, texts: tuple[str, ...] = (), measured: bool = True):
    """A build directory of ``n`` prompts kept and two rejected; ``texts`` get in wherever they can.

    Returns:
        The folder and its manifest.
    """

    def text(i: int, plain: str) -> str:
        return f"{plain} {texts[i % len(texts)]}" if texts else plain

    columns: dict[str, object] = {
        "question": [text(i, f"What is {i} + {i}?") for i in range(n)],
        "answer": [text(i, f"{2 * i}") for i in range(n)],
        "kind": ["math" if i % 3 else "choice" for i in range(n)],
        "domain": [text(0, "sums") if i % 2 else text(2, "doubles") for i in range(n)],
        "choices": [[text(i, "one"), "two"] for i in range(n)],
        "source": [text(0, "made") for _ in range(n)],
        "source_id": [text(i, f"made:{i}") for i in range(n)],
        "license": [text(1, "MIT") for _ in range(n)],
        "solutions": [[{"strategy": text(i, "add"), "text": text(i, "sum")}] for i in range(n)],
        "parents": [[text(i, "parent")] for i in range(n)],
        "metadata": [json.dumps({"note": text(i, "x")}) for i in range(n)],
    }
    if measured:
        rates = [(i + 1) / (n + 1) for i in range(n)]
        columns |= {
            "attempts": [4] * n, "successes": [2] * n, "errors": [0] * n, "truncated": [0] * n,
            "p_hat": rates, "q_hat": rates, "p_low": rates, "p_high": rates,
            "stage": [3 * i // n for i in range(n)], "rank": list(range(n)),
        }  # fmt: skip
    typed = pl.DataFrame(columns, strict=False) if n else pl.DataFrame(schema=list(columns))
    pool = Pool.from_columns(typed) if n else Pool.empty()
    lost = Pool.from_columns(
        {"question": [text(0, "a"), text(1, "b")], "answer": ["1", "2"], "kind": ["math"] * 2}
    )
    rejected = rejects(lost.frame, "select", text(2, "too_odd"), text(3, "for a reason"), "answer")
    step = folder / "steps/01-select-0"
    write_parquet(pool.frame, step / "part-00000.parquet")
    write_parquet(rejected, step / "rejected.parquet")
    if measured:
        add_rollouts(folder, [*pool.frame["id"], *lost.frame["id"]], text)
    bins = [0] * 10
    for rate in pool.frame["p_hat"].drop_nulls():
        bins[min(9, int(rate * 10))] += 1
    figures = {
        "prompts": n, "frontier_prompts": n, "frontier_share": 1.0 if n else None,
        "mean_p_hat": 0.5, "mean_q_hat": 0.5, "p_hat_histogram": bins if n else [],
    }  # fmt: skip
    reason = text(2, "too_odd")
    manifest = {
        "curate": "0", "python": "3", "verifiers": "1", "seed": 0, "limit": None,
        "status": "complete",
        "source": {"uri": text(4, "made.jsonl"), "digest": "d" * 64},
        "policy": {"name": text(0, "p"), "revision": text(1, "r"), "template": "t",
                   "backend": "b", "dtype": "float32"} if measured else None,
        "recipe": {"name": text(2, "mine"), "description": text(3, "words"), "steps": []},
        "steps": [{
            "name": "select", "version": 1, "settings": {}, "digest": "0", "input": None,
            "artifact": step.name, "rows_in": n + 2, "made": 0, "rows_out": n, "rejected": 2,
            "rejected_by_reason": {reason: 2}, "seconds": 1.25, "reused": False,
            "metrics": {"rollouts": 4 * n, "generated": n, "tokens": 99, "note": text(5, "m")},
        }],
        "summary": {
            "rows_in": n + 2, "rows_out": n, "rejected": 2, "rejected_by_reason": {reason: 2},
            "seconds": 1.5,
            **({"before": figures, "after": figures, "rollouts": 4 * n, "tokens": 99,
                "rollouts_per_frontier_prompt": 4.0 if n else None} if measured else {}),
        },
    }  # fmt: skip
    write_json(folder / "manifest.json", manifest)
    return folder, manifest


def add_rollouts(folder: Path, ids, text) -> None:
    """Four rollouts of each of two policies for every prompt, half of them right."""
    rows = [
        {
            "prompt_id": key, "sample": sample, "policy": text(7, policy), "revision": text(0, "r"),
            "template": "t", "strategy": "direct", "seed": 0, "temperature": 1.0, "top_p": 1.0,
            "max_tokens": 64, "response": text(i + sample, f"thinking {sample}"),
            "answer": text(i, "4"), "verdict": "correct" if sample % 2 else "incorrect",
            "reason": text(i, "equal"), "verifier_version": "1", "prompt_tokens": 5, "tokens": 7,
            "finish_reason": text(sample, "stop"), "seconds": 0.1,
        }
        for i, key in enumerate(ids)
        for policy in ("first", "second")
        for sample in range(4)
    ]  # fmt: skip
    Ledger(folder / "rollouts").append(conform(pl.DataFrame(rows), ROLLOUT_SCHEMA))


class Reader(HTMLParser):
    """Tags with their attributes, and the cells of every table by its id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: dict[str, list[list[str]]] = {}
        self.table = ""
        self.words: list[str] = []
        self.feed(page)
        self.text = "".join(self.words)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.table = dict(attrs).get("id") or ""
        elif tag == "tr":
            self.cells.setdefault(self.table, []).append([])
        elif tag in {"td", "th"} and self.cells.get(self.table):
            self.cells[self.table][-1].append("")

    def handle_endtag(self, tag) -> None:
        if tag == "table":
            self.table = ""

    def handle_data(self, data) -> None:
        self.words.append(data)
        rows = self.cells.get(self.table) if self.table else None
        if rows and rows[-1]:
            rows[-1][-1] += data


def read(folder: Path, manifest) -> Reader:
    return Reader(write_report(folder, manifest).read_text())


def test_the_funnel_and_the_histogram_hold_the_manifests_numbers(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    page = read(folder, manifest)
    expected = [["select", "42", "0", "2", "40", "1.2", "too_odd 2"]]
    assert [[cell.strip() for cell in row] for row in page.cells["funnel-table"][1:]] == expected
    counts = [int(row[1]) for row in page.cells["rates-table"][1:]]
    assert counts == manifest["summary"]["before"]["p_hat_histogram"]
    assert [row[1] for row in page.cells["stages-table"][1:]] == ["14", "13", "13"]
    assert [row[2:5] for row in page.cells["cost-table"][1:]] == [["160", "40", "120"]]
    by_policy = {row[0]: row[5:9] for row in page.cells["policies-table"][1:]}
    assert by_policy == {p: ["42", "168", "50.0 %", "100.0 %"] for p in ("first", "second")}


def test_hostile_text_makes_no_element_and_no_attribute(tmp_path) -> None:
    folder, manifest = make_build(tmp_path / "hostile", texts=HOSTILE)
    plain_folder, plain = make_build(tmp_path / "plain")
    hostile, harmless = read(folder, manifest), read(plain_folder, plain)

    def names(page: Reader) -> set[tuple[str, str]]:
        return {(tag, name) for tag, attrs in page.tags for name in ("", *attrs)}

    assert names(hostile) <= names(harmless) | {("i", ""), ("i", "class")}
    assert [t for t, _ in hostile.tags].count("script") == 1
    assert "49" not in {word.strip() for word in hostile.words}
    for text in HOSTILE[:-1]:
        assert text in hostile.text
    assert "line\\u2028separator \\x1b[31m \\x01 \\u202egnp.exe" in hostile.text


def test_nothing_is_loaded_and_only_its_own_style_and_script_may_run(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    page = write_report(folder, manifest).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    allowed = unescape(policy[1])
    assert "default-src 'none'" in allowed and "unsafe" not in allowed
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in allowed
    links = [value for _, attrs in Reader(page).tags for name, value in attrs.items()
             if name in {"href", "src", "action"}]  # fmt: skip
    assert all(value and value.startswith(("#", "data:")) for value in links)


@pytest.mark.parametrize("n, measured", [(0, True), (0, False), (1, False), (5, False)])
def test_builds_without_prompts_or_measurements_have_a_page(tmp_path, n, measured) -> None:
    folder, manifest = make_build(tmp_path, n=n, measured=measured)
    page = read(folder, manifest)
    assert len([row for row in page.cells.get("records", []) if len(row) > 2]) == (
        n + 1 if n else 0
    )
    assert page.cells["funnel-table"][1][1] == str(n + 2)


def test_sources_show_licence_weight_and_rows(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    manifest["sources"] = [
        {"name": "gsm", "uri": "hf:a/b", "digest": "e" * 64, "revision": "abc", "license": "MIT",
         "weight": 0.7, "rows": 12},
    ]  # fmt: skip
    row = [cell.strip() for cell in read(folder, manifest).cells["sources-table"][1]]
    assert row == ["gsmhf:a/b", "abc", "e" * 16, "MIT", "0.7", "12", "–"]


def test_metrics_of_a_decontamination_are_shown_and_their_absence_is_not(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    assert "Copies and leaks" not in read(folder, manifest).text
    manifest["steps"][0] |= {"name": "decontaminate", "metrics": {"ngram": {"13": 4}}}
    page = read(folder, manifest)
    assert "Copies and leaks" in page.text
    assert "ngram.13" in page.text


def test_a_page_of_long_texts_stays_small_and_says_what_was_cut(tmp_path) -> None:
    folder, manifest = make_build(tmp_path, n=220, texts=("<&" * 2500,))
    path = write_report(folder, manifest)
    assert path.stat().st_size < 3_000_000
    page = Reader(path.read_text())
    assert "more characters" in page.text
    shown = re.search(r"(\d+) of 220 prompts, spread over stages", page.text)
    assert shown and int(shown[1]) == len([t for t, a in page.tags if "data-rate" in a]) >= 50


def test_the_same_build_gives_the_same_bytes(tmp_path) -> None:
    folder, manifest = make_build(tmp_path, n=220)
    assert (
        write_report(folder, manifest).read_bytes() == write_report(folder, manifest).read_bytes()
    )


def test_a_sample_reaches_every_stage_and_tenth(make_pool) -> None:
    n = 1000
    frame = make_pool(
        n, p_hat=[0.05 if i else 0.95 for i in range(n)], stage=[int(i == 7) for i in range(n)]
    ).frame
    chosen = spread(frame, 10, seed=0)
    assert len(chosen) == 10
    assert chosen["p_hat"].max() == 0.95 and chosen["stage"].max() == 1
    assert spread(frame, 2000, seed=0).equals(frame)


@given(st.integers(0, 10**12))
def test_ticks_cover_the_top_in_few_round_steps(top) -> None:
    found = ticks(top)
    assert found[0] == 0 and found[-1] >= top and 2 <= len(found) <= 6
    assert len({b - a for a, b in pairwise(found)}) == 1


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8))
def test_bars_never_leave_the_figure(pairs) -> None:
    steps = [
        {"name": "s", "rows_in": kept + lost, "made": 0, "rejected": lost, "rows_out": kept}
        for kept, lost in pairs
    ]
    for bar in funnel(steps):
        assert 0 <= bar["kept"] + bar["lost"] <= 100.02
        assert 0 <= bar["lost_share"] <= 1


@given(st.lists(st.text(max_size=50), max_size=20), st.integers(1, 500))
def test_a_text_limit_is_the_largest_that_fits(texts, budget) -> None:
    records = [{"text": text * 20} for text in texts]
    limit = text_limit(records, budget)
    if sum(len(record["text"]) for record in records) * 6 <= budget:
        assert limit == LIMITS[0]
    assert limit in LIMITS


def test_strips_count_every_prompt_and_histograms_need_one(make_pool) -> None:
    frame = make_pool(4, p_hat=[0.0, 0.5, 1.0, None], stage=[0, 0, 0, 1]).frame
    first, second = stages(frame)
    assert sum(cell["n"] for cell in first["strip"]) == 3 and second["strip"] == []
    assert histogram({"before": None}) is None
    assert facts([]) == [("", "none")]


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium; without it these tests are skipped, and say so."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: no browser tests")
    path = which("chromium") or which("chromium-browser") or which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on the path: the page is not looked at in a browser")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        yield running
        running.close()


@pytest.fixture
def look(browser, tmp_path):
    """Open a build's page; fail at the end if it logged, asked, loaded or ran anything."""
    contexts, trouble = [], []

    def look(folder: Path, manifest, width: int = 1280, scheme: str = "light", script: bool = True):
        path = write_report(folder, manifest)
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: trouble.append(request.url))
        page.goto(path.as_uri())
        assert trouble.pop(0) == path.as_uri()
        return page

    yield look
    for context in contexts:
        context.close()
    assert trouble == []


def visible_rows(page) -> int:
    return page.locator("#records tbody:visible").count()


def test_hostile_text_runs_nothing_in_a_browser(look, tmp_path) -> None:
    page = look(*make_build(tmp_path, texts=HOSTILE))
    for summary in page.locator("details > summary").all():
        summary.evaluate("node => { node.parentElement.open = true }")
    page.hover("#records tbody >> nth=0")
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("iframe, img").count() == 0
    assert HOSTILE[0] in page.locator("#records").inner_text()


def test_filters_narrow_the_sample_and_reset_brings_it_back(look, tmp_path) -> None:
    page = look(*make_build(tmp_path))
    assert visible_rows(page) == 40
    page.fill("#f-text", "WHAT is 7 ")
    assert visible_rows(page) == 1
    assert page.inner_text("#shown") == "1 of 40 shown"
    page.fill("#f-text", "no such text")
    assert visible_rows(page) == 0 and page.is_visible("#none")
    page.click("#reset")
    assert visible_rows(page) == 40 and not page.is_visible("#none")
    page.select_option("#f-stage", "=2")
    assert visible_rows(page) == 13
    page.click("#reset")
    page.select_option("#f-kind", "=choice")
    assert visible_rows(page) == 14
    page.select_option("#f-domain", "=sums")
    assert visible_rows(page) == 7
    page.click("#reset")
    page.fill("#f-low", "0.5")
    page.fill("#f-high", "0.6")
    shown = page.locator("#records tbody:visible").evaluate_all(
        "nodes => nodes.map(node => Number(node.dataset.rate))"
    )
    assert len(shown) == 4 and all(0.5 <= rate <= 0.6 for rate in shown)


def test_sorting_by_pass_rate_goes_both_ways_and_back(look, tmp_path) -> None:
    page = look(*make_build(tmp_path))
    button = page.locator("th[data-sort=rate] button")

    def rates() -> list[float]:
        return page.locator("#records tbody").evaluate_all(
            "nodes => nodes.map(node => Number(node.dataset.rate))"
        )

    start = rates()
    button.click()
    assert rates() == sorted(start, reverse=True)
    assert page.get_attribute("th[data-sort=rate]", "aria-sort") == "descending"
    button.focus()
    page.keyboard.press("Enter")
    assert rates() == sorted(start)
    button.click()
    assert rates() == start


@pytest.mark.parametrize("script", [True, False])
def test_a_record_opens_by_keyboard_with_its_rollouts(look, tmp_path, script) -> None:
    page = look(*make_build(tmp_path), script=script)
    more = page.locator("#more-1")
    assert not more.is_visible()
    page.locator("#records summary").first.focus()
    page.keyboard.press("Enter")
    assert more.is_visible()
    text = more.inner_text()
    assert text.count("thinking") == 8
    assert "first: 2 of 4 correct" in text and "second: 2 of 4 correct" in text
    assert page.is_visible("#filters") is script


@pytest.mark.parametrize("width", [360, 768])
def test_no_page_scrolls_sideways(look, tmp_path, width) -> None:
    page = look(*make_build(tmp_path, texts=(*HOSTILE, "x" * 300)), width=width)
    page.locator("details").evaluate_all("nodes => nodes.forEach(node => { node.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#records .c-question").first.bounding_box()["width"] > width / 3


CONTRASTS = """() => {
  const lightness = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    throw new Error("no background");
  };
  const nodes = document.querySelectorAll(
    "h1, p, td, th, dt, dd, a, pre, b, i, label, button, input");
  return [...nodes].map((node) => {
    const [a, b] = [getComputedStyle(node).color, ground(node)].map(lightness);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_themes(look, tmp_path, scheme) -> None:
    page = look(*make_build(tmp_path), scheme=scheme)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 500
    assert min(contrasts) >= 4.5
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark is (scheme == "dark")
