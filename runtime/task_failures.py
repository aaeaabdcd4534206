"""How failures of Spark's tasks come back whole: as JSON, in a row or as the message of an exception.

Spark keeps of an exception in a Python worker the text of its traceback, in which values and commands of a
message could not be told from the rest.
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
from parquetry.message import from_parts_json, parts_json
from parquetry.runtime import errors
from parquetry.runtime.errors import RefusedCell, RetryWrite

Task: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task of Spark runs, as ``mapInArrow`` takes it."""


class TaskFailureError(Exception):
    """What a task failed with, on its way through Spark: its message, and a line for this driver alone."""


_OF_THIS_DRIVER: Final = token_hex(16)
_LINE: Final = re.compile(rf"{_OF_THIS_DRIVER} (?P<failure>\{{.*\}})")


def failures_encoded(task: Task) -> Task:
    """The task, whose failures :func:`raised_in_task` finds again in those of Spark."""
    token = _OF_THIS_DRIVER

    @wraps(task)
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from task(batches)
        except (ParquetryError, RetryWrite) as failure:
            raise TaskFailureError(f"{failure}\n{token} {failure_json(failure)}") from failure

    return run


def refusal_sql(error: str, statements: Sequence[str]) -> str:
    """SQL for a text that, raised in a task, :func:`raised_in_task` finds again.

    ``error`` is the name of its class; each of the statements is SQL for a text.
    """
    parts = ", ".join(f"array({statement})" for statement in statements)
    failure = f"to_json(named_struct('error', '{error}', 'statements', array({parts})))"
    return f"concat('{_OF_THIS_DRIVER} ', {failure})"


def line_around(failure: Callable[[str], ParquetryError]) -> tuple[str, str]:
    """Return what stands before and behind a text, as JSON, in the line of the failure about it.

    Raised in a task with the text between them, :func:`raised_in_task` finds the failure again.
    """
    text = token_hex(16)
    before, after = failure_json(failure(text)).split(json.dumps(text))
    return f"{_OF_THIS_DRIVER} {before}", after


def raised_in_task(text: str) -> Exception | None:
    """What a task raised, by what Spark says; None where that was nothing of ours, or is cut.

    Spark may quote rows in the same text. None of them knows the token of this driver.
    """
    found = _LINE.search(text)
    try:
        return failure_from_json(found["failure"]) if found else None
    except ValueError:
        return None


def failure_json(failure: ParquetryError | RetryWrite) -> str:
    """The failure in one line of JSON: its class, its statements and the SQL of the spec that it is about."""
    statements = [parts_json(each if isinstance(each, str) else str(each)) for each in failure.args]
    about = {"declared": failure.declared} if isinstance(failure, ParquetryError) and failure.declared else {}
    return json.dumps({"error": type(failure).__name__, "statements": statements, **about})


def failure_from_json(text: str) -> Exception:
    """The failure that :func:`failure_json` wrote, of its class, or of the root where that is none of ours.

    ValueError where it is cut.
    """
    found: dict[str, Any] = json.loads(text)
    kind = getattr(errors, found["error"], ParquetryError)
    if not (isinstance(kind, type) and issubclass(kind, ParquetryError | RetryWrite | RefusedCell)):
        kind = ParquetryError
    failure: Exception = kind(*map(from_parts_json, found["statements"]))
    if isinstance(failure, ParquetryError):
        failure.declared = found.get("declared")
    return failure
