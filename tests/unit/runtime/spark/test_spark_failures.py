"""What failures inside Spark are told as, by their text alone."""

from __future__ import annotations

import gzip
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException

from parquetry.runtime.errors import InvalidDataError, LostTaskError, RefusedCell
from parquetry.runtime.sources.ledger import SourceFile
from parquetry.runtime.sources.listing import FoundFile
from parquetry.runtime.spark.read.source_failures import explained, source_failures
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spec.masking import cleared
from parquetry.runtime.spec.table_spec import Column, Source, TableSpec

PERSONAL = TableSpec(name="t", columns=(Column(name="id", type="string", pii=True),))
CALLED = "An error occurred while calling o9.collectToPython.\n: org.apache.spark.SparkException: "


@pytest.mark.parametrize(
    "said",
    [
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery. SQLSTATE: 21000\n\tat a.b",
        "[MALFORMED_RECORD_IN_PARSING] Malformed records are detected: {.\nParse Mode: FAILFAST. SQLSTATE: 22023",
    ],
)
def test_states_of_sql_that_blame_the_data_are_its_fault(said):
    with pytest.raises(InvalidDataError) as caught, failures_translated("rows for t"):
        raise PySparkException(message=CALLED + said)
    told = str(caught.value)
    assert told.startswith("rows for t: Spark cannot compute the rows: org.apache.spark.Spark")
    assert said.splitlines()[0] in told
    masked = cleared(caught.value.message, PERSONAL, location="/w/t")
    assert masked == (
        f"rows for t: Spark cannot compute the rows: {said.partition(' ')[0]} ***; correct the query or the data"
    )


@pytest.mark.parametrize(
    "quoted", ["note\nMemoryError in log", "Python worker exited unexpectedly (crashed)"]
)
def test_a_row_that_is_quoted_is_no_lost_task(quoted):
    said = f"[CAST_INVALID_INPUT] The value '{quoted}' is no INT. SQLSTATE: 22018\n\tat a.b"
    with pytest.raises(InvalidDataError), failures_translated("rows for t"):
        raise PySparkException(message=CALLED + said)


def test_a_file_that_cannot_be_read_is_not_the_querys_fault_whatever_caused_it():
    said = (
        "[FAILED_READ_FILE] Error while reading file s3a://b/x. SQLSTATE: KD001\nCaused by: a SQLSTATE: 22023"
    )
    with pytest.raises(PySparkException), failures_translated("rows for t"):
        raise PySparkException(message=CALLED + said)


FAILED = "Job aborted due to stage failure: Task 1 in stage 4.0 failed 4 times, most recent failure: "
TASK = "Lost task 1.3 in stage 4.0 (TID 27) (127.0.0.3 executor 6): "
IN_PYTHON = 'org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "a.py"\n'


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "ExecutorLostFailure (executor 6 exited for a task) Reason: Command exited with code 137\nDriver:\n\tat a.b",
            "Spark lost the executor at every attempt of a task (Command exited with code 137): ",
        ),
        (
            "ExecutorLostFailure (executor 6 exited unrelated to the running tasks) Reason: Container killed",
            "Spark lost the executor at every attempt of a task (Container killed): ",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat a.b",
            "the Python process ended at every attempt of a task (Python worker exited unex",
        ),
        (
            f"{IN_PYTHON}pyarrow.lib.ArrowMemoryError: malloc of size 64 failed\n\n\tat a.b",
            "a task ran out of memory (ArrowMemoryError: malloc of size 64 failed): ",
        ),
        (f"{IN_PYTHON}MemoryError\n\n\tat a.b", "a task ran out of memory (MemoryError): "),
        (
            f"{IN_PYTHON}ImportError: /a/b.so: failed to map segment from shared object\n\n\tat a.b",
            "a task ran out of memory (ImportError: /a/b.so: failed to map segment from shared object): ",
        ),
        (
            f"{IN_PYTHON}numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7 GiB for an array\n",
            "a task ran out of memory (_ArrayMemoryError: Unable to allocate 7 GiB for an array): ",
        ),
    ],
)
def test_a_task_that_loses_its_process_is_no_bug(said, reason):
    with pytest.raises(LostTaskError) as caught, failures_translated("rows for t"):
        raise PySparkException(message=CALLED + FAILED + TASK + said)
    assert str(caught.value).startswith(f"rows for t: {reason}")
    assert "spark.executor.cores" in str(caught.value)
    masked = cleared(caught.value.message, PERSONAL, location="/w/t")
    assert reason.partition(" (")[0] in masked
    assert "137" not in masked


def test_rows_of_a_shuffle_that_are_lost_again_and_again_are_no_bug():
    lost = "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 102"
    said = (
        "Job aborted due to stage failure: ResultStage 777 (collect at /a/b (c).py:101) has failed the maximum "
        f"allowable number of times: 4. Most recent failure reason: {lost}\n\tat a.b"
    )
    with pytest.raises(LostTaskError) as caught, failures_translated("rows for t"):
        raise PySparkException(message=CALLED + said)
    meaning = "Spark lost shuffled rows with their executor each time it computed them"
    assert str(caught.value).startswith(f"rows for t: {meaning} ({lost}): ")
    with pytest.raises(PySparkException), failures_translated("rows for t"):
        raise PySparkException(message=CALLED + FAILED + TASK + f"java.lang.X: SparkException: {said}")


def test_a_bug_in_a_task_stays_one():
    said = f"{IN_PYTHON}KeyError: 'MemoryError in a row, ExecutorLostFailure (x) Reason: y'\n\n\tat a.b"
    with pytest.raises(PySparkException), failures_translated("rows for t"):
        raise PySparkException(message=CALLED + FAILED + TASK + said)


MALFORMED = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:{path}. SQLSTATE: KD001\n"
    "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed "
    "records are detected in record parsing: [null,Oslo,2.5].\nParse Mode: FAILFAST.\n"
    "Caused by: org.apache.spark.SparkRuntimeException: [MALFORMED_CSV_RECORD] Malformed CSV record: 1\n\tat a.b"
)


@pytest.mark.parametrize(
    ("name", "content", "pii", "reason"),
    [
        ("a.csv", "id,city\nabc,Oslo\n", (), "line 2, column 'id': \"abc\" is not bigint"),
        ("a.csv", "id,city\nabc,Oslo\n", ("id",), "line 2, column 'id': \"***\" is not bigint"),
        ("a.csv", "id,city\nabc,Oslo\n", ("city",), "line 2, column 'id': \"***\" is not bigint"),
        ("a.csv", "id,city\n1,abc\n", (), "column 'id': \"abc\" is not bigint"),
        ("a.csv", "id,city\n1,abc\n", ("city",), "column 'id': \"***\" is not bigint"),
        (
            "a.csv.gz",
            gzip.compress(b"id,city\nabc,Oslo\n", mtime=0),
            (),
            "line 2, column 'id': \"abc\" is not bigint",
        ),
        ("a.csv.gz", "id,city\nabc,Oslo\n", ("city",), "column 'id': \"***\" is not bigint"),
        ("b c.csv", "id,city\nabc,Oslo\n", (), "line 2, column 'id': \"abc\" is not bigint"),
    ],
)
def test_a_cell_that_is_refused_is_told_with_its_place_and_without_its_row(
    tmp_path, name, content, pii, reason
):
    path = tmp_path / name
    uri = f"file:{path}".replace(" ", "%20")
    with pytest.raises(InvalidDataError) as caught, reading(path, content, pii):
        raise RefusedCell(uri, "id", "bigint", "abc")
    assert str(caught.value) == f"here: {uri} cannot be read: {reason}; correct or remove the file"


@pytest.mark.parametrize("pii", [(), ("city",)])
def test_a_row_that_lacks_cells_is_told_with_its_line(tmp_path, pii):
    path = tmp_path / "a.csv"
    with pytest.raises(InvalidDataError) as caught, reading(path, "id,city\n1,Oslo\n1\n", pii):
        raise PySparkException(message=MALFORMED.format(path=path))
    reason = "line 3, the row has more or fewer cells than there are columns"
    assert str(caught.value) == f"here: file:{path} cannot be read: {reason}; correct or remove the file"


@pytest.mark.parametrize(
    ("content", "pii", "where"),
    [
        ("No,city\n7,Oslo\nabc,Oslo\n", (), "; this text is in in/a.csv, line 3"),
        ("No,city\n7,Oslo\nabc,Oslo\n", ("city",), "; this text is in in/a.csv, line 3"),
        ("No,city\nab,c\n", (), ""),
    ],
)
def test_a_cell_of_a_select_is_looked_for_in_all_columns(tmp_path, content, pii, where):
    with pytest.raises(InvalidDataError) as caught, reading(tmp_path / "a.csv", content, pii):
        raise RefusedCell("", "id", "bigint", "abc")
    shown = "***" if pii else "abc"
    reason = f"the rows of its select: column 'id': \"{shown}\" is not bigint{where}; correct the query, or the files"
    assert str(caught.value) == f"here: {reason}"


def test_a_text_that_is_in_many_files_has_two_places(tmp_path):
    files = []
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text('{"x": {"y": ["1", "abc"]}}\n')
        files.append(found_file(tmp_path / name))
    explain = explained(Source(name="s", format="json", path="in/*"), files, [], {})
    said = explain("", RefusedCell("", "id", "bigint", "abc"))
    assert said.in_full().endswith("is not bigint; this text is in in/a, line 1, and in in/b, line 1")


@contextmanager
def reading(path, content, pii):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    file = found_file(path)
    columns = [
        Column(name=each, type=kind, pii=each in pii) for each, kind in (("id", "bigint"), ("city", "string"))
    ]
    source = Source(name="s", format="csv", path="in/*")
    with source_failures("here", explain=explained(source, [file], columns, {})):
        yield


def found_file(path):
    return FoundFile(
        file=SourceFile(path=f"in/{path.name}", size_bytes=1, modified_ms=1),
        uri=f"file://{path}",
        spark_uri=f"file://{path}".replace(" ", "%20"),
    )
