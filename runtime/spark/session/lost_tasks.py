"""Failures of tasks that their rows did not cause: a process was lost or had no memory left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from parquetry.message import Message
from parquetry.runtime.errors import LostTaskError
from parquetry.runtime.quoting import of_library

_LONGEST: Final = 10_000
_FEWER_TASKS: Final = "fewer tasks at a time (spark.executor.cores)"
_CAUSES: Final[Sequence[tuple[re.Pattern[str], str, str]]] = (
    (
        re.compile(r"(?:ExecutorLostFailure|ExecutorDeadException)\b.{0,200}?(?: Reason|): (?P<reason>.*)"),
        "Spark lost the executor of a task each time that it tried the task",
        "spark.executor.memoryOverhead, spark.executor.memory",
    ),
    (
        re.compile(
            r"^org\.apache\.spark\.SparkException: Job aborted due to stage failure: \w*Stage \d+ "
            r"\(.{0,500}?\) has failed the maximum allowable number of times: \d+\. "
            r"Most recent failure reason: "
            r"(?P<reason>org\.apache\.spark\.shuffle\.\w*FetchFailedException\b.*)"
        ),
        "Spark lost rows of a shuffle with their executor each time that it computed them",
        "spark.executor.memoryOverhead, spark.executor.memory",
    ),
    (
        re.compile(r"(?P<reason>Python worker exited unexpectedly.*)"),
        "the Python process of a task ended each time that Spark tried the task",
        "spark.executor.memoryOverhead, or spark.executor.pyspark.memory where that is set",
    ),
)
"""Patterns of the first line of a failure, with their meaning and the settings that give more memory."""

_NO_MEMORY: Final = re.compile(
    r"^(?:[a-z_]\w*\.)*(?P<reason>(?:Arrow|_Array)?MemoryError\b.*|RuntimeError: can't start new thread"
    r"|ImportError: .*failed to map segment.*|OSError: \[Errno 12\].*)",
    re.MULTILINE,
)


def lost_task(text: str, what: str) -> LostTaskError | None:
    """Return the error for a Spark failure because a task was lost or had no memory; None for other failures.

    ``text`` is the text of the failure, and ``what`` names the rows in the error.
    """
    first_line = text.partition("\n: ")[2] or text
    first_line = first_line[:_LONGEST].partition("\n")[0]
    for pattern, meaning, settings in _CAUSES:
        if found := pattern.search(first_line):
            reason = of_library(found["reason"].strip(), kind="SparkException")
            remedy = (
                "see the executor's log; if its memory was the reason, give it more "
                f"({settings}) or {_FEWER_TASKS}"
            )
            return LostTaskError(Message(what, f": {meaning} (", reason, f"): {remedy}"))
    if found := _NO_MEMORY.search(text):
        reason = of_library(found["reason"], kind="MemoryError")
        remedy = f"raise spark.executor.pyspark.memory, leave it unset, or run {_FEWER_TASKS}"
        return LostTaskError(Message(what, ": a task found no memory (", reason, f"): {remedy}"))
    return None
