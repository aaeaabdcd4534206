"""What a page does on a narrow screen and on paper, read from its markup and its one style sheet."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "hr", "img", "input", "link", "line", "rect", "circle", "path"})


def rules(page):
    """Every rule as (media, selector, declarations); ``media`` is empty outside of @media."""
    sheet = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    found = []
    for media, block in re.findall(r"@media ([^{]+)\{((?:[^{}]*\{[^{}]*\})*)\s*\}", sheet):
        found += [(media.strip(), s.strip(), d) for s, d in re.findall(r"([^{}]+)\{([^{}]*)\}", block)]
    plain = re.sub(r"@media [^{]+\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", sheet)
    return found + [("", s.strip(), d) for s, d in re.findall(r"([^{}]+)\{([^{}]*)\}", plain)]


def selectors(page, declaration, media=""):
    """The simple selectors that a declaration holds for."""
    return {
        part.strip()
        for place, selector, declarations in rules(page)
        if place == media and declaration in re.sub(r"\s*:\s*", ": ", declarations)
        for part in selector.split(",")
    }


class _Walk(HTMLParser):
    def __init__(self, scrolls):
        super().__init__()
        self.scrolls = scrolls
        self.stack = []
        self.cut = []
        self.wide = 0

    def handle_starttag(self, tag, attrs):
        names = {tag, *(f".{c}" for c in (dict(attrs).get("class") or "").split())}
        if tag in ("table", "svg", "pre"):
            self.wide += 1
            if not any(self.scrolls & held for held in [*self.stack, names]):
                self.cut.append(tag)
        if tag not in VOID:
            self.stack.append(names)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag not in VOID:
            self.stack.pop()


def cut_elements(page):
    """How many tables, charts and blocks of text there are, and those that no element around them scrolls."""
    walk = _Walk(selectors(page, "overflow-x: auto"))
    walk.feed(page)
    return walk.wide, walk.cut


class _Rows(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows = []
        self.in_cell = False

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self.in_cell = tag in ("td", "th") or (self.in_cell and tag != "svg")

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1][-1] += data


def table_rows(page):
    """The texts of the cells of every row of a table, headers too."""
    walk = _Rows()
    walk.feed(page)
    return [tuple(" ".join(cell.split()) for cell in row) for row in walk.rows]
