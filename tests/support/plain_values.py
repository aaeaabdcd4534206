"""Judge of messages: what may be personal data in a text stands there as a value, so that it can be masked.

The product masks values, and looks for none in a text. This looks for them in the failures that it raises and in
the reasons and warnings of its results, in every test, in the test's own process.
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from typing import Any

from parquetry.errors import MessageError
from parquetry.message import Message, Text, in_full
from parquetry.runtime.clustering.plan.execution import ClusteringResult, UnpublishedGroup
from parquetry.runtime.commit.conflicts import Conflict
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.main import JobResult

_TEXTS = frozenset({"reason", "retry_reasons", "warnings"})
_QUOTED = r"""(?:'[^']+'|"[^"]+")"""
_OF_TABLE = re.compile(
    rf"\bpartition {_QUOTED}"
    rf"|\brecord key {_QUOTED}"
    r"|(?<![^/\s'\"])[^/\s'\"]+/(?:[^_/\s]+_[^_./\s]+_\d+\.parquet|\.hoodie_partition_metadata)"
)


def plain_value(text: Text) -> str | None:
    """Something in the plain parts of a text that looks like a partition, a record key or a base file."""
    parts = text.parts if isinstance(text, Message) else (text,)
    found = (_OF_TABLE.search(part) for part in parts if isinstance(part, str))
    return next((match[0] for match in found if match), None)


def judge_messages() -> None:
    """From now on failures of the product that hold such a text are AssertionErrors."""
    make = MessageError.__init__

    def made(self: MessageError, *args: Any, **fields: Any) -> None:
        make(self, *args, **fields)
        if _is_of_product() and (value := plain_value(self.message)):
            raise AssertionError(f"plain text holds {value}: {self.message.in_full()}")

    for result in (CommitResult, ClusteringResult, UnpublishedGroup, Conflict, JobResult):
        _judge_texts_of(result)
    MessageError.__init__ = made  # type: ignore[method-assign]


def _judge_texts_of(result: type) -> None:
    """Reasons and warnings of results are judged as failures are, where the product makes one."""
    make = result.__init__  # type: ignore[misc]

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if not _is_of_product():
            return
        for name in _TEXTS & {field.name for field in fields(result)}:
            found = getattr(self, name)
            for text in (found,) if isinstance(found, str | Message) else found:
                if value := plain_value(text):
                    raise AssertionError(
                        f"plain text of {result.__name__}.{name} holds {value}: {in_full(text)}"
                    )

    result.__init__ = made  # type: ignore[misc]


def _is_of_product() -> bool:
    """Whether who called the caller is a module of the compiler or the runtime."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    return str(name).startswith(("parquetry.runtime.", "parquetry.compiler."))
