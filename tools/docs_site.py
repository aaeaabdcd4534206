"""Additions of the documentation site to MkDocs: pages outside `docs/`, and all files that pages link to.

MkDocs calls the functions named ``on_...``. Links in pages are those of the repository: a link to Markdown or
a notebook becomes a link to a page of the site, images are copied, and any other file gets a page with its text.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import notebooks

ROOT = Path(__file__).resolve().parent.parent
HOME = "README.md"
OUTSIDE = ("*.md", "benchmarks/*.md", "examples/*/README.md", "tests/*.md", "tests/support/README.md")
"""The pages outside `docs/`, by their paths in the repository."""

NOTEBOOKS = "docs/notebooks/*.ipynb"

_IMAGES = {".png", ".svg"}
_CODE_OR_LINK = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}).*?^(?P=indent)(?P=fence)`*$"  # a block of code
    r"|(?P<before>!?\[[^\]]*\]\()(?P<target>[^)\s]+)\)"
    r"|(?<!`)(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)",  # code within a line
    re.MULTILINE | re.DOTALL,
)
_SCHEME = re.compile(r"[a-z]+:")
_FRAGMENT = re.compile(r"^( *```\w+) fragment$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|meth|func|attr|data):<code>")
_LOADS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*rel=["']?(?:stylesheet|preload|preconnect|icon))[^>]*href=["']?(?:https?:)?//[^>]*>"""
)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside of `docs/`, and the files that pages link to, to the site's files."""
    pages = {f"docs/{file.src_uri}": file for file in files if file.is_documentation_page()}
    outside = [
        path.relative_to(ROOT).as_posix() for pattern in OUTSIDE for path in sorted(ROOT.glob(pattern))
    ]
    for path in sorted(ROOT.glob(NOTEBOOKS)):
        place = site_place(path.relative_to(ROOT).as_posix())
        files.append(File.generated(config, place, content=notebooks.page(path)))
    for place in outside:
        files.append(File.generated(config, site_place(place), abs_src_path=str(ROOT / place)))
    for place in [*pages, *outside]:
        for target in linked(place, (ROOT / place).read_text(encoding="utf-8")):
            # A missing file gets no page, so that MkDocs reports the link and its page.
            if files.get_file_from_path(site_place(target)) is None and (ROOT / target).is_file():
                files.append(_file(target, config))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with the links of the site."""
    place = repository_place(page.file.src_uri)
    if place is None:
        return markdown
    here = posixpath.dirname(page.file.src_uri) or "."

    def moved(match: re.Match[str]) -> str:
        target, hash_sign, anchor = (match["target"] or "").partition("#")
        if not target or _SCHEME.match(target):
            return match[0]
        there = posixpath.relpath(site_place(_resolved(place, target)), here)
        return f"{match['before']}{there}{hash_sign}{anchor})"

    return _FRAGMENT.sub(r"\1", _CODE_OR_LINK.sub(moved, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Return the HTML without the reStructuredText roles that docstrings have before names."""
    return _ROLE.sub("<code>", html)


def on_post_build(config: Any) -> None:
    """Raise PluginError if a page of the site would load something from another host."""
    found = [
        f"{page.relative_to(config['site_dir'])}: {match[0]}"
        for page in sorted(Path(config["site_dir"]).rglob("*.html"))
        for match in _LOADS.finditer(page.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("the site loads from elsewhere:\n" + "\n".join(found))


def linked(place: str, text: str) -> set[str]:
    """Return the repository paths that a page links to."""
    targets = {(match["target"] or "").partition("#")[0] for match in _CODE_OR_LINK.finditer(text)}
    return {_resolved(place, target) for target in targets if target and not _SCHEME.match(target)}


def site_place(place: str) -> str:
    """Return the site's path of a repository file."""
    if place == HOME:
        return "index.md"
    if place.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", place.removeprefix("docs/"))
    return place if Path(place).suffix in {".md", *_IMAGES} else f"source/{place}.md"


def repository_place(site: str) -> str | None:
    """Return the repository file that a page of the site shows, or None for a page of source text."""
    if site == "index.md":
        return HOME
    if site.startswith("source/"):
        return None
    return site if (ROOT / site).is_file() else f"docs/{site}"


def _resolved(place: str, target: str) -> str:
    """Return the repository path of a link's target; a folder means its README.md."""
    there = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
    return f"{there}/README.md" if (ROOT / there).is_dir() else there


def _file(place: str, config: Any) -> File:
    source = ROOT / place
    if source.suffix in {".md", *_IMAGES}:
        return File.generated(config, site_place(place), abs_src_path=str(source))
    language = {".py": "python", ".yml": "yaml", ".toml": "toml"}.get(source.suffix, "text")
    text = (
        f"---\nsearch: {{exclude: true}}\n---\n# {place}\n\n````{language}\n{source.read_text('utf-8')}````\n"
    )
    return File.generated(config, site_place(place), content=text)
