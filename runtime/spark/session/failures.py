"""Failures inside Spark as errors of this package, from the texts of their exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from parquetry.message import Message, Value
from parquetry.runtime import store_jars
from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    LostTaskError,
    NotFoundError,
    UnsupportedSessionError,
)
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spark_environment import UTF8_LOCALE
from parquetry.runtime.task_failures import raised_in_task

_UNSPELLED = re.compile(r"InvalidPathException: Malformed input or input contains unmappable characters")
_GONE = re.compile(
    r"PATH_NOT_FOUND|FILE_NOT_EXIST|SparkFileNotFoundException|java\.io\.FileNotFoundException"
)
_NO_FILE = re.compile(
    r"(?<=FILE_NOT_EXIST\] ).*?File does not exist|(?<=PATH_NOT_FOUND\] ).*?(?=\. SQLSTATE|$)"
)
_FILE_GONE = re.compile(r"(File |Path does not exist: )?(\w+:/.*?)( does not exist)?")
_LONGEST_LINE = 10_000
_NO_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>parquetry[\w.]*)'")
_INCOMPLETE = re.compile(r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|Could not read footer")
_FILE_READ = re.compile(r"(?:reading file|footer for file|file:) *'?(?P<file>[^\s',]{1,4096}\.parquet)")
_DATA_FAULTS = re.compile(
    r"ArithmeticException|ArrayIndexOutOfBoundsException|NumberFormatException|DateTimeException"
    r"|ParseException|AnalysisException|SparkRuntimeException|SparkUpgradeException"
    r"|IllegalArgumentException|BadRecordException"
)
_CALLED = re.compile(r"^An error occurred while calling .*\n: ")
_SQL_STATE = re.compile(r"SQLSTATE: (?P<kind>\w\w)")
_DATA_STATES = frozenset({"21", "22"})
"""The SQLSTATE classes of faulty data: cardinality violation and data exception."""

_FEWER_TASKS: Final = "fewer tasks at a time (spark.executor.cores)"
_CAUSES: Final[Sequence[tuple[re.Pattern[str], str, str]]] = (
    (
        re.compile(r"(?:ExecutorLostFailure|ExecutorDeadException)\b.{0,200}?(?: Reason|): (?P<reason>.*)"),
        "Spark lost the executor at every attempt of a task",
        "spark.executor.memoryOverhead, spark.executor.memory",
    ),
    (
        re.compile(
            r"^org\.apache\.spark\.SparkException: Job aborted due to stage failure: \w*Stage \d+ "
            r"\(.{0,500}?\) has failed the maximum allowable number of times: \d+\. "
            r"Most recent failure reason: "
            r"(?P<reason>org\.apache\.spark\.shuffle\.\w*FetchFailedException\b.*)"
        ),
        "Spark lost shuffled rows with their executor each time it computed them",
        "spark.executor.memoryOverhead, spark.executor.memory",
    ),
    (
        re.compile(r"(?P<reason>Python worker exited unexpectedly.*)"),
        "the Python process ended at every attempt of a task",
        "spark.executor.memoryOverhead, or spark.executor.pyspark.memory where that is set",
    ),
)
"""Patterns of the first line of a failure, with their meaning and the settings that give more memory."""

_NO_MEMORY: Final = re.compile(
    r"^(?:[a-z_]\w*\.)*(?P<reason>(?:Arrow|_Array)?MemoryError\b.*|RuntimeError: can't start new thread"
    r"|ImportError: .*failed to map segment.*|OSError: \[Errno 12\].*)",
    re.MULTILINE,
)


@contextmanager
def failures_translated(subject: str, *, of_table: bool = False) -> Iterator[None]:
    """Translate failures inside Spark to errors of this package within the block.

    An error that a task raised keeps its class. A fault in the rows, or in the query that makes them, becomes
    an :class:`InvalidDataError`, and a missing file a NotFoundError. Other errors pass unchanged.

    Args:
        subject: The rows or files that the errors name.
        of_table: Whether the files are the table's, so that an incomplete file becomes a CorruptTableError.

    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise _translated(error, subject, of_table=of_table) from error


def _missing_package(text: str) -> Exception | None:
    """Return the error for a failure because a worker lacks this package, or None for other failures."""
    missing = _NO_PACKAGE.search(text)
    if missing is None:
        return None
    return UnsupportedSessionError(
        "Spark's workers lack the module {module}; install this version of parquetry where they run, "
        "or send it: spark.addArtifacts(ZIP, pyfile=True) on Spark Connect, --py-files ZIP with "
        "spark-submit",
        module=missing["module"],
    )


def missing_client_error(text: str) -> Exception | None:
    """Return the error for a failure because Spark has no client of the store, or None for other failures."""
    hadoop = store_jars.hadoop_version(store_jars.spark_jars())
    client = store_jars.missing_client(text, hadoop)
    if client is None:
        return None
    return UnsupportedSessionError(
        "Spark has no client of {store}; {remedy}, or start a session of your own with it "
        "(spark.jars.packages, spark.jars)",
        store=client.store,
        remedy=client.remedy(hadoop),
    )


def _unspelled_name(text: str, subject: str) -> Exception | None:
    """Return the error for a failure because a JVM cannot encode a file's name; None for other failures."""
    if not _UNSPELLED.search(text):
        return None
    return UnsupportedSessionError(
        "{subject}: a JVM of Spark cannot encode the name of a file; start Spark and its executors "
        "with LC_ALL={locale} in the environment",
        subject=subject,
        locale=UTF8_LOCALE,
    )


def _translated(error: Exception, subject: str, *, of_table: bool) -> Exception:
    text = str(error)
    state = _SQL_STATE.search(text)
    blames_data = state is not None and state["kind"] in _DATA_STATES
    lost = None if blames_data else _lost_task(text, subject)  # a quoted row may contain any text
    no_client = None if blames_data else missing_client_error(text)
    if ours := (
        raised_in_task(text) or _missing_package(text) or _unspelled_name(text, subject) or lost or no_client
    ):
        return ours
    if _GONE.search(text):
        line = next((line for line in text.splitlines() if _GONE.search(line)), text)
        found = _NO_FILE.search(line[:_LONGEST_LINE])
        line_text = " ".join((found[0] if found else line).split())
        gone = _FILE_GONE.fullmatch(line_text)
        quoted = (
            Message(
                "{words_before}{file}{words_after}",
                words_before=gone[1] or "",
                file=Value.uri(gone[2]),
                words_after=gone[3] or "",
            )
            if gone
            else quoted_library_text(line_text)
        )
        return NotFoundError(
            "{subject}: {reason}; run again to read the current files", subject=subject, reason=quoted
        )
    if of_table and _INCOMPLETE.search(text):
        named = _FILE_READ.search(text)
        file = Value.uri(named["file"]) if named else "a file"
        return CorruptTableError(
            "{subject}: {file} is not a whole parquet file; restore it from a backup",
            subject=subject,
            file=file,
        )
    message = _CALLED.sub("", text.strip()).partition("\n")[0]
    if "java.lang.StackOverflowError" in message:
        return InvalidDataError(
            "{subject}: the SQL is nested too deeply for Spark; compute it in steps", subject=subject
        )
    if blames_data or _DATA_FAULTS.search(type(error).__name__) or _DATA_FAULTS.search(message):
        first = " ".join(message.split())
        return InvalidDataError(
            "{subject}: Spark cannot compute the rows: {reason}; correct the query or the data",
            subject=subject,
            reason=quoted_library_text(first),
        )
    return error


def _lost_task(text: str, subject: str) -> LostTaskError | None:
    """Return the error for a Spark failure because a task was lost or had no memory; None for other failures.

    ``text`` is the text of the failure, and ``subject`` names the rows in the error.
    """
    first_line = text.partition("\n: ")[2] or text
    first_line = first_line[:_LONGEST_LINE].partition("\n")[0]
    for pattern, meaning, settings in _CAUSES:
        if found := pattern.search(first_line):
            reason = quoted_library_text(found["reason"].strip(), kind="SparkException")
            remedy = (
                "see the executor's log; if its memory was the reason, give it more "
                f"({settings}) or {_FEWER_TASKS}"
            )
            return LostTaskError(
                "{subject}: {cause} ({reason}): {remedy}",
                subject=subject,
                cause=meaning,
                reason=reason,
                remedy=remedy,
            )
    if found := _NO_MEMORY.search(text):
        reason = quoted_library_text(found["reason"], kind="MemoryError")
        remedy = f"raise spark.executor.pyspark.memory, leave it unset, or run {_FEWER_TASKS}"
        return LostTaskError(
            "{subject}: a task ran out of memory ({reason}): {remedy}",
            subject=subject,
            reason=reason,
            remedy=remedy,
        )
    return None
