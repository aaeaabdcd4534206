"""Remedies in words for Python: what a message says to type on a command line, as the call that does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from parquetry import shell
from parquetry.errors import ParquetryError
from parquetry.runtime.quoting import with_quotes

_WORD: Final = r"""(\$?'(?:[^'\\]|\\.)*'|(?:[^\s'"\x60;,]|'[^']*'|"[^"\x60]*")+)"""
"""A word of a command as :mod:`parquetry.shell` quotes it."""


def _calling(call: str) -> Callable[[re.Match[str]], str]:
    """What the word that was found is handed to, as Python writes it."""

    def called(found: re.Match[str]) -> str:
        words = shell.words_of(found[1])
        return call.format(repr(words[0] if words else found[1]))

    return called


_REMEDIES = tuple(
    (re.compile(pattern), call)
    for pattern, call in (
        (r"name the project's folder with --project", "give its folder to parquetry.load()"),
        (rf"give --project {_WORD}", r"load \1"),
        (r"give the right --project and --target", "load the right project and target"),
        (r"--var \(or PARQUETRY_VAR\) gives", "variables= gives"),
        (r"--var (\S+) must be", r"variables= must give \1 as"),
        (r"--var\b", "variables="),
        (r"(?:give )?--(target|select|exclude)\b", r"give \1="),
        (r"\bwith give (\w+=)", r"with \1 of load()"),
        (r"run \x60parquetry apply[^\x60]*\x60", "call plan().apply() on the project"),
        (r"run \x60parquetry run[^\x60]*\x60", "call run() on the project"),
        (r"\x60parquetry apply[^\x60]*\x60", "plan().apply()"),
        (r"\x60parquetry run[^\x60]*\x60", "run()"),
        (r"\x60parquetry plan --out [^\x60]*\x60", "Plan.save()"),
        (r"\x60parquetry timeline [^\x60]*\x60", "Table.timeline()"),
        (r"\x60parquetry inspect [^\x60]*\x60", "Table.inspect()"),
        (r"with \x60parquetry doctor --accept-loss [^\x60]*\x60", "with Table.accept_loss()"),
        (r"run \x60parquetry service clean [^\x60]*\x60", "call Table.clean()"),
        (rf"\x60parquetry service rollback \S+ {_WORD}\x60", _calling("Table.rollback({})")),
        (
            rf"\x60parquetry service savepoint \S+ --delete {_WORD}\x60",
            _calling("Table.delete_savepoint({})"),
        ),
    )
)


def in_python(text: str) -> str:
    """The text with each remedy as what to call; commands that Python has no call for stay."""
    for pattern, call in _REMEDIES:
        text = pattern.sub(call, text)
    return text


@contextmanager
def worded() -> Iterator[None]:
    """Failures of the block with their remedies in words for Python, of their own class."""
    try:
        yield
    except ParquetryError as failure:
        found = getattr(failure, "diagnostics", None)
        if found is None:
            failure.reword(lambda text: in_python(with_quotes(text)))
            raise
        from parquetry.compiler.errors import SpecError  # noqa: PLC0415 - only where it was raised

        told = (replace(d, summary=in_python(d.summary), hint=d.hint and in_python(d.hint)) for d in found)
        raise SpecError(tuple(told), files=getattr(failure, "files", 0)) from None
