"""report.html in a real browser: nothing runs or loads but its own, and all of it can be used."""

from pathlib import Path
from shutil import which

import pytest
from report_build import HOSTILE, make_build

from curate.pipelines.report import write_report


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
