"""The readers of the matrix: how each one reads a table, and what its answer is worth."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

import parquetry
from parquetry.project.readers.matrix import MatrixCell, ReaderResult, matrix
from tests.interop.environment import readers_python
from tests.interop.readers.kinds import MadeTable, the_key
from tests.support import delta_readers, hudi_rs, iceberg_readers
from tests.support.hudi_spark import HudiSpark, spark_of_formats
from tests.support.local_spark import local_spark
from tests.support.our_table import to_table
from tests.support.s3_server import BUCKET, s3_server

Read = Callable[[MadeTable], pa.Table]

HUDI = {"hudi-0.15": "0.15.0", "hudi-1.0": "1.0.2", "hudi-1.2": "1.2.0"}
SEPARATE = Path(__file__).with_name("separate_environment.py")
_VERSIONS = (
    "import json; from importlib.metadata import version as v; "
    "print(json.dumps({n: 'chdb ' + v('chdb') for n in ('clickhouse', 'clickhouse-delta', 'clickhouse-iceberg')} "
    "| {'daft': v('daft')}))"
)
_GIST_LENGTH = 110
_ZERO = timedelta(0)
_NOISE = (
    (re.compile(r"^Hudi [\d.]+, read: "), ""),
    (re.compile(r"(file:)?(//)?[^\s'\"(\[]*/orders/"), ""),
    (re.compile(r"\bmetadata/[\w.-]+"), "metadata/FILE"),
    (re.compile(r"[\w=%./-]*[0-9a-f]{8}-[0-9a-f]{4}-[\w.-]*"), "FILE"),
    (re.compile(r"\b\d{17}\b"), "INSTANT"),
    (re.compile(r"\s+"), " "),
)


def _parquetry(table: MadeTable) -> pa.Table:
    with the_key():
        return parquetry.open(str(table.path), keys=table.keys).to_arrow()


def _hudi_rs(table: MadeTable) -> pa.Table:
    return hudi_rs.read(str(table.path))


def _duckdb(table: MadeTable) -> pa.Table:
    import duckdb

    with duckdb.connect() as connection:
        return connection.sql(f"FROM read_parquet('{table.path}/**/*.parquet')").to_arrow_table()


def _polars(table: MadeTable) -> pa.Table:
    import polars as pl

    return pl.scan_parquet(f"{table.path}/**/*.parquet").collect().to_arrow()


def _pyarrow(table: MadeTable) -> pa.Table:
    return ds.dataset(str(table.path)).to_table()


def _published(read: Callable[[Path], pa.Table]) -> Read:
    """A reader of published tables."""
    return lambda table: read(table.published_path)


WITHOUT_JVM: Mapping[str, Read] = {
    "parquetry": _parquetry,
    "hudi-rs": _hudi_rs,
    "duckdb-parquet": _duckdb,
    "polars-parquet": _polars,
    "pyarrow-parquet": _pyarrow,
    "delta-rs": _published(delta_readers.delta_rs),
    "duckdb-delta": _published(delta_readers.duckdb_scan),
    "polars-delta": _published(delta_readers.polars),
    "pyiceberg": _published(iceberg_readers.pyiceberg),
    "duckdb-iceberg": _published(iceberg_readers.duckdb_scan),
    "polars-iceberg": _published(iceberg_readers.polars),
}
"""Readers in this process."""


@contextmanager
def spark_readers(folder: Path) -> Iterator[Mapping[str, Read]]:
    """Spark's own reader of Parquet, and on Spark 3.5 each Hudi, Delta and Iceberg."""
    with ExitStack() as stack:
        found: dict[str, Read] = {}
        session = local_spark("readers")
        stack.callback(session.stop)
        found["spark-parquet"] = lambda table: to_table(session.read.parquet(str(table.path)))
        for name, version in HUDI.items():
            hudi = stack.enter_context(HudiSpark(version, folder / name))
            found[name] = lambda table, hudi=hudi: hudi.read(str(table.path))
        formats = stack.enter_context(spark_of_formats(folder / "formats"))
        for form in ("delta", "iceberg"):
            found[f"spark-{form}"] = _published(lambda path, form=form: formats.read(str(path), form=form))
        yield found


def read_separately(tables: Mapping[str, MadeTable], folder: Path) -> Mapping[str, Mapping[str, MatrixCell]]:
    """The cells of ClickHouse, which reads Hudi and Delta from a bucket, and of Daft, by reader and kind.

    They run in one process of the environment of readers.
    """
    folder.mkdir()
    with s3_server() as options:
        client = _client(options)
        for kind, table in tables.items():
            for place, root in ((kind, table.path), (f"published/{kind}", table.published_path)):
                for path in root.rglob("*"):
                    if path.is_file():
                        client.upload_file(str(path), BUCKET, f"{place}/{path.relative_to(root)}")
        request = {
            "url": f"{options['endpoint_url']}/{BUCKET}",
            "out": str(folder),
            "tables": {kind: (str(table.path), str(table.published_path)) for kind, table in tables.items()},
        }
        command = [str(readers_python()), str(SEPARATE), json.dumps(request)]
        answers = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=600).stdout)

    def answer(reader: str, kind: str) -> pa.Table:
        error = answers[reader][kind]
        if error is not None:
            raise SeparateError(error)
        with pa.OSFile(str(folder / f"{reader}-{kind}.arrow")) as file:
            return pa.ipc.open_file(file).read_all()

    return {
        reader: {
            kind: cell(reader, table, lambda table, reader=reader, kind=kind: answer(reader, kind))
            for kind, table in tables.items()
        }
        for reader in answers
    }


def separate_versions() -> dict[str, str]:
    """The versions of ClickHouse and Daft that were run."""
    command = [str(readers_python()), "-c", _VERSIONS]
    found: dict[str, str] = json.loads(
        subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    )
    return found


class SeparateError(Exception):
    """An error of a reader in the other environment."""


def cell(reader: str, table: MadeTable, read: Read) -> MatrixCell:
    """Return what becomes of the table in a reader: compared with the rows that it must hold."""
    try:
        if (failure := table.failures.get(matrix().readers[reader].published_as or "")) is not None:
            raise failure
        found = read(table)
    except Exception as error:
        return MatrixCell(result=ReaderResult.REFUSED, detail=gist(str(error), table))
    expected = _counted(table.rows, table.rows.schema.names)
    missing = [name for name in table.rows.schema.names if name not in found.schema.names]
    if missing:
        return MatrixCell(result=ReaderResult.WRONG, detail=f"no column {', '.join(missing)}")
    rows = _counted(found, table.rows.schema.names)
    if rows == expected:
        return MatrixCell(result=ReaderResult.RIGHT)
    if found.num_rows != table.rows.num_rows:
        return MatrixCell(result=ReaderResult.WRONG, detail=f"{found.num_rows} of {table.rows.num_rows} rows")
    return MatrixCell(result=ReaderResult.WRONG, detail=_first_difference(table.rows, found))


def _first_difference(expected: pa.Table, found: pa.Table) -> str:
    """The first value that is another one; keys are right, or their rows were missing."""
    by_key = {row["id"]: row for row in found.select(expected.schema.names).to_pylist()}
    return next(
        f"{json.dumps(by_key.get(row['id'], {}).get(name), default=str)} for "
        f"{json.dumps(value, default=str)} in {name}"
        for row in expected.to_pylist()
        for name, value in row.items()
        if _plain(by_key.get(row["id"], {}).get(name)) != _plain(value)
    )


def gist(message: str, table: MadeTable) -> str:
    """Return the first words of an error, without paths and instants, which differ from run to run."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    text = (causes[-1:] or lines[:1] or ["no message"])[0]
    for path in (table.published_path, table.path):
        text = text.replace(f"{path}/", "").replace(str(path), "orders")
        text = text.replace(f"`{path.parent}`.{path.name}", "orders")
    for pattern, shown in _NOISE:
        text = pattern.sub(shown, text)
    return text if len(text) <= _GIST_LENGTH else f"{text[:_GIST_LENGTH].rstrip()}..."


def _counted(rows: pa.Table, names: Iterable[str]) -> Counter[Any]:
    columns = [rows.column(name).to_pylist() for name in names]
    return Counter(tuple(map(_plain, row)) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """A value in a form that does not depend on the reader; times are in UTC where they have no zone."""
    match value:
        case dict():
            return tuple((name, _plain(each)) for name, each in sorted(value.items()))
        case list() if value and all(isinstance(each, tuple) for each in value):
            return tuple(sorted((name, _plain(each)) for name, each in value))
        case list():
            return tuple(map(_plain, value))
        case Decimal():
            return value.normalize()
        case float() if math.isnan(value):
            return "NaN"
        case _ if hasattr(value, "tzinfo"):
            return value.replace(tzinfo=None) if value.utcoffset() in (None, _ZERO) else value
        case _:
            return value


def _client(options: Mapping[str, Any]) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
        region_name="us-east-1",
    )
