"""The pages in Chromium: what axe-core finds, what is wider than the screen, and whether anything is obeyed."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.interop.environment import axe_core
from tests.support.sample_pages import pages
from tools.chromium import Browser, chromium

pytestmark = pytest.mark.interop

NARROW, WIDE = 400, 1000
VIEWS = {
    "light": {"width": WIDE},
    "dark": {"width": WIDE, "dark": True},
    "narrow": {"width": NARROW},
    "narrow and dark": {"width": NARROW, "dark": True},
    "paper": {"width": 700, "dark": True, "paper": True},
}
FOUND = """
axe.run(document, {resultTypes: ["violations", "incomplete"]}).then(result => JSON.stringify({
  violations: result.violations.map(v => [v.id, v.nodes.map(n => n.target.join(" ") + ": " + n.failureSummary)]),
  contrast: result.incomplete.filter(v => v.id === "color-contrast").flatMap(v => v.nodes)
    .map(n => n.target.join(" ")).filter(target => !document.querySelector(target).closest("svg")),
  passes: result.passes.length,
}))
"""
"""What axe could not decide of colours counts too, except in charts: their texts have the colour of captions."""


@pytest.fixture(scope="module")
def browser():
    program = chromium()
    if program is None:
        missing = "Chromium is not on the path: apt-get install chromium, or name it in CHROMIUM"
        if "CI" in os.environ:
            pytest.fail(missing)
        pytest.skip(missing)
    with Browser(program) as running:
        yield running


@pytest.fixture(scope="module")
def shown():
    return {hostile: pages(hostile=hostile) for hostile in (False, True)}


def opened(page):
    """The page with its folds open, and without its policy, which would keep axe out."""
    without = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    assert without != page
    return without.replace("<details>", "<details open>")


@pytest.mark.parametrize("name", ["plan", "layout", "tests", "run", "replay"])
@pytest.mark.parametrize("hostile", [False, True], ids=["plain", "hostile"])
def test_everybody_can_use_the_pages(browser, shown, name, hostile):
    script = axe_core().read_text(encoding="utf-8")
    title = re.search("<title>(.*?)</title>", shown[hostile][name])[1]
    for view, options in VIEWS.items():
        browser.show(opened(shown[hostile][name]), **options)
        assert browser.value("document.documentElement.scrollWidth") <= options["width"], view
        assert browser.value("document.title") == title, "no script of others has run"
        if hostile and view != "narrow":
            continue
        browser.value(f"{script}; 0")
        found = json.loads(browser.value(FOUND))
        assert found["passes"] > 10, view
        assert (found["violations"], found["contrast"]) == ([], []), view


def test_colours_follow_the_screen_and_paper_is_light(browser, shown):
    background = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for view, options in VIEWS.items():
        browser.show(shown[False]["plan"], **options)
        seen[view] = browser.value(background)
    assert seen["light"] == seen["narrow"] == seen["paper"] != seen["dark"]


def test_the_policy_lets_the_page_have_its_own_style_and_nothing_else(browser, shown):
    page = shown[False]["plan"]
    styled = "getComputedStyle(document.querySelector('section')).borderTopStyle"
    browser.show(page, width=WIDE)
    assert browser.value(styled) == "solid"
    intruder = "<style>section { border: 0 !important }</style><script>document.title = 'taken'</script>"
    browser.show(page.replace("<body>", f"<body>{intruder}"), width=WIDE)
    assert browser.value(styled) == "solid"
    assert browser.value("document.title") != "taken"


def test_every_fold_and_wide_table_can_be_reached_by_keys(browser, shown):
    browser.show(shown[False]["tests"], width=WIDE)
    reached = "[...document.querySelectorAll('summary, .wide[tabindex]')].every(e => e.tabIndex === 0)"
    assert browser.value(reached)
    assert browser.value("document.querySelectorAll('.wide[tabindex]').length") > 0
