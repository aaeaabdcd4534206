"""The pictures of pages in docs/images: ``python -m tools.pictures`` draws them with Chromium.

They show the samples of tests/support/sample_pages.py. The comment looks roughly as on GitHub, with a small
part of Markdown: headings, alerts, tables, folds, code.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
from pathlib import Path

from tests.support.sample_pages import comment, pages
from tools.chromium import Browser, chromium

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
NARROW, WIDE, HIGHEST = 400, 900, 1100
KEPT = {
    "plan": ("plan", "light"),
    "plan-dark": ("plan", "dark"),
    "tests": ("tests", "light"),
    "tests-narrow": ("tests", "narrow"),
    "layout": ("layout", "dark"),
    "run": ("run", "light"),
    "comment": ("comment", "light"),
}
"""The files in docs/images, with page and view."""

VIEWS = {"light": (WIDE, False), "dark": (WIDE, True), "narrow": (NARROW, False)}
_GITHUB = """
body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; margin: 0; padding: 20px;
  color: #1f2328; background: #fff; overflow-wrap: break-word; }
h3 { font-size: 17.5px; margin: 0 0 14px; } p { margin: 0 0 14px; } hr { border: 0; height: 3px; background: #d1d9e0; }
table { border-collapse: collapse; margin: 0 0 14px; } th, td { border: 1px solid #d1d9e0; padding: 5px 12px; text-align: left; }
thead:has(th:empty) { display: none; }
code, pre { font: 12px ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; background: #f1f3f5; border-radius: 5px; }
code { padding: 2px 4px; } pre { padding: 12px; white-space: pre-wrap; }
blockquote { border-left: 4px solid #d1242f; margin: 0 0 14px; padding: 4px 14px; } blockquote b { color: #d1242f; }
details { margin: 0 0 10px; }
@media (prefers-color-scheme: dark) { body { color: #f0f6fc; background: #0d1117; } th, td { border-color: #3d444d; }
  code, pre { background: #262c36; } hr { background: #3d444d; } blockquote, blockquote b { border-color: #f85149; color: #f85149; } }
"""


def main() -> int:
    """Draw the kept pictures, or with --all every page in every view into another folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--all", type=Path, metavar="FOLDER", help="draw everything there, hostile texts too"
    )
    folder = options.parse_args().all
    program = chromium()
    if program is None:
        print("Chromium is not on the path, and CHROMIUM does not name it.", file=sys.stderr)
        return 1
    with Browser(program) as browser:
        if folder is None:
            shown = pages() | {"comment": rendered(comment())}
            for name, (page, view) in KEPT.items():
                _draw(browser, shown[page], view, IMAGES / f"{name}.png")
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        for hostile in (False, True):
            shown = pages(hostile=hostile) | {"comment": rendered(comment(hostile=hostile))}
            for page, text in shown.items():
                for view in VIEWS:
                    _draw(browser, text, view, folder / f"{page}-{view}{'-hostile' * hostile}.png", most=4000)
    return 0


def _draw(browser: Browser, page: str, view: str, file: Path, *, most: int = HIGHEST) -> None:
    width, dark = VIEWS[view]
    browser.show(page, width=width, dark=dark)
    file.write_bytes(browser.picture(most=most))


def rendered(markdown: str) -> str:
    """Return a comment as an HTML page, roughly as GitHub shows it."""
    fences: list[str] = []

    def kept(found: re.Match[str]) -> str:
        fences.append(f"<pre>{html.escape(found['body'])}</pre>")
        return f"\n\n\x00{len(fences) - 1}\x00\n\n"

    text = re.sub(
        r"^ *(?P<f>`{3,})\w*\n(?P<body>.*?)^ *(?P=f)$", kept, markdown, flags=re.MULTILINE | re.DOTALL
    )
    blocks = (_block(block.strip("\n")) for block in re.split(r"\n{2,}", text))
    body = re.sub(r"\x00(\d+)\x00", lambda found: fences[int(found[1])], "\n".join(blocks))
    return f"<!doctype html><meta charset=utf-8><title>comment</title><style>{_GITHUB}</style><body>{body}"


def _block(block: str) -> str:
    block = re.sub(r"<!--.*?-->\n?", "", block)
    if block.startswith("### "):
        return f"<h3>{_inline(block[4:])}</h3>"
    if block.startswith("> [!CAUTION]"):
        return f"<blockquote><b>Caution</b><br>{_inline(block.partition('> ')[2].partition('> ')[2])}</blockquote>"
    if block.startswith("|"):
        head, _, *rows = block.split("\n")
        cells = [[_inline(cell) for cell in row.strip("| ").split(" | ")] for row in rows]
        titles = "".join(f"<th>{_inline(title.strip())}</th>" for title in head.strip("|").split("|"))
        lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
        return f"<table><thead><tr>{titles}</tr></thead>{lines}</table>"
    if re.match(r"(- |\d+\. )", block):
        return "<br>".join(map(_inline, block.split("\n")))
    block = re.sub(r"^---\n?", "<hr>\n", block)
    return block if block.startswith(("<details", "</details", "\x00")) else f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", lambda found: f"<code>{html.escape(found[1])}</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


if __name__ == "__main__":
    sys.exit(main())
