"""Invisible characters: which of them a value may contain, and where.

Reviewers see values on terminals, in comments and in logs. Escapes, characters that reverse the writing
direction, and line ends in a name would show them something else than what is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from parquetry.project.diagnostics.model import diagnostic
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.validation.errors import Violation, path_text
from parquetry.project.validation.interpolate import Secret
from parquetry.project.yaml.document import Node, Path

_NEVER: Final = "\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f"
_INVISIBLE: Final = "\x00-\x1f\xad\u061c\u180e\u200b-\u200f\u2060-\u206f\ufeff\ufff9-\ufffb"
_IN_NAMES: Final = re.compile(f"[{_INVISIBLE}{_NEVER}]")
_IN_TEXTS: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_NEVER}]")
_IN_OPTIONS: Final = re.compile(f"[{_NEVER}]")
_TEXTS: Final = frozenset(
    {"description", "owner", "reason", "select", "where", "generated", "delete_when", "expression"}
)
_SETTINGS: Final = frozenset({"vars", "conf", "storage"})
"""Sections whose values are passed on unchanged, such as certificates."""
_OPTIONS: Final = "options"
"""The section of reader options: a separator may be any ASCII character."""


def invisible_characters(value: Any, *, node: Node, source: SourceText) -> Iterator[Violation]:
    """Yield a violation for each key and value below a node that contains a refused character."""
    for path, text, is_key in all_texts(value, ()):
        wrong = refused_character(text, path, is_key=is_key)
        if wrong is None:
            continue
        what = f"key of {path_text(path[:-1]) or 'the file'}" if is_key else path_text(path)
        found = diagnostic(
            "PQ017",
            f"{what} contains the invisible character U+{ord(wrong):04X}",
            source=source,
            span=node.key_span(path) if is_key else node.at(path).span,
            hint="remove it"
            if wrong not in "\n\t"
            else "write it on one line: '>-' folds lines, '|' does not",
        )
        yield Violation(path=path, diagnostic=found)


def refused_character(text: str, path: Path, *, is_key: bool = False) -> str | None:
    """Return the first character that the text at a path must not contain, or None."""
    steps = set(path[:-1])
    if is_key:
        unwanted = _IN_NAMES
    elif _OPTIONS in steps:
        unwanted = _IN_OPTIONS
    else:
        unwanted = _IN_TEXTS if (path[-1:] and path[-1] in _TEXTS) or steps & _SETTINGS else _IN_NAMES
    found = unwanted.search(text)
    return None if found is None else found[0]


def all_texts(value: Any, path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield each text below a value, keys too: its path, the text, and whether it is a key."""
    match value:
        case str():
            yield path, value, False
        case Secret():
            yield path, value.reveal(), False
        case dict():
            for key, child in value.items():
                yield (*path, key), key, True
                yield from all_texts(child, (*path, key))
        case list():
            for index, child in enumerate(value):
                yield from all_texts(child, (*path, index))
