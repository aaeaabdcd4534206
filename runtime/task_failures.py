"""Complete failures of Spark's tasks as JSON, in a row or in the message of an exception.

Of an exception in a Python worker, Spark keeps only the text of the traceback, in which the values and
commands of a message are no longer recognisable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from secrets import token_hex
from typing import Any, Final, TypeAlias

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.message import Message, message, message_from_json, message_json
from parquetry.runtime import errors
from parquetry.runtime.errors import RefusedCell, RetryWrite

Task: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A task of Spark, in the form that ``mapInArrow`` takes."""


class TaskFailureError(Exception):
    """A failure of a task on its way through Spark: its message, and a line that only this driver reads."""


_OF_THIS_DRIVER: Final = token_hex(16)
_LINE: Final = re.compile(rf"{_OF_THIS_DRIVER} (?P<failure>\{{.*\}})")


def failures_encoded(task: Task) -> Task:
    """Return the task with failures that :func:`raised_in_task` recovers from Spark's errors."""
    token = _OF_THIS_DRIVER

    @wraps(task)
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from task(batches)
        except (ParquetryError, RetryWrite) as failure:
            text = failure.message.in_full()
            raise TaskFailureError(f"{text}\n{token} {failure_json(failure)}") from failure

    return run


def refusal_sql(error: str, texts: Sequence[str]) -> str:
    """Return SQL for a text that :func:`raised_in_task` turns into an error, if a task raises it.

    Args:
        error: The name of the error's class.
        texts: SQL expressions of the error's arguments: those of a RefusedCell, or one text.

    """
    failure = f"to_json(named_struct('error', '{error}', 'texts', array({', '.join(texts)})))"
    return f"concat('{_OF_THIS_DRIVER} ', {failure})"


def line_around(failure: Callable[[str], ParquetryError]) -> tuple[str, str]:
    """Return the parts of a line before and after a text, which is in JSON, for a failure about that text.

    If a task raises the parts with the text between them, :func:`raised_in_task` returns the failure.
    """
    text = token_hex(16)
    before, after = failure_json(failure(text)).split(json.dumps(text))
    return f"{_OF_THIS_DRIVER} {before}", after


def raised_in_task(text: str) -> Exception | None:
    """Return the failure that a task raised, given Spark's text, or None if it is not ours or truncated.

    Spark may quote rows in the same text. No row contains the random token of this driver.
    """
    found = _LINE.search(text)
    try:
        return failure_from_json(found["failure"]) if found else None
    except ValueError:
        return None


def failure_json(failure: ParquetryError | RetryWrite) -> str:
    """Return the failure as one line of JSON: its class, its message, and the SQL's place in the spec."""
    about = {"declared": failure.declared} if isinstance(failure, ParquetryError) and failure.declared else {}
    return json.dumps({"error": type(failure).__name__, "message": message_json(failure.message), **about})


def failure_from_json(text: str) -> Exception:
    """Return the failure from the JSON of :func:`failure_json`. An unknown class becomes ParquetryError.

    Raises:
        ValueError: If the text is truncated.

    """
    found: dict[str, Any] = json.loads(text)
    if found["error"] == RefusedCell.__name__:
        return RefusedCell(*found["texts"])
    kind = getattr(errors, found["error"], ParquetryError)
    if not (isinstance(kind, type) and issubclass(kind, ParquetryError | RetryWrite)):
        kind = ParquetryError
    statement: Message = (
        message_from_json(found["message"]) if "message" in found else message(found["texts"][0])
    )
    failure: Exception = kind(statement)
    if isinstance(failure, ParquetryError):
        failure.declared = found.get("declared")
    return failure
