"""A file with the record keys of a purge: CSV with a header, or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.message import Value
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.meta_columns import RECORD_KEY

_REMEDY = "give a CSV file in UTF-8 with a header, or a Parquet file"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GivenKeys:
    """The key columns, and for each key a row of their texts; None is null."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def read_keys(path: Path, record_key: Sequence[str], *, most_rows: int) -> GivenKeys:
    """Read the columns of ``record_key``, or ``_hoodie_record_key`` alone.

    Raises:
        InvalidDataError: If the file is neither CSV nor Parquet, lacks a column, has another one, or has more
            than ``most_rows`` rows.
    """
    source = Value.uri(str(path))
    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1"
        rows = _parquet_rows(path) if is_parquet else _csv_rows(path)
        names = tuple(name or "" for name in next(rows))
        columns = (RECORD_KEY,) if RECORD_KEY in names else tuple(record_key)
        if not columns or sorted(names) != sorted(columns):
            expected = ", ".join(record_key) or RECORD_KEY
            raise InvalidDataError(
                "{file} has the columns {found}, but must have exactly {expected}",
                file=source,
                found=names,
                expected=expected,
            )
        order = [names.index(name) for name in columns]
        keys = []
        for number, row in enumerate(rows, 1):
            if number > most_rows:
                raise InvalidDataError(
                    "{file} has more than {limit:,} keys; split it, and purge them in parts",
                    file=source,
                    limit=most_rows,
                )
            if len(row) != len(names):
                raise InvalidDataError(
                    "{file}: key {number} has {cells} cells; {remedy}",
                    file=source,
                    number=number,
                    cells=len(row),
                    remedy=_REMEDY,
                )
            keys.append(tuple(row[index] for index in order))
    except OSError as error:
        raise InvalidDataError(
            "{file} cannot be read: {reason}", file=source, reason=error.strerror or _REMEDY
        ) from error
    except (StopIteration, UnicodeDecodeError, csv.Error, pa.ArrowException) as error:
        raise InvalidDataError(
            "{file} does not contain a list of keys; {remedy}", file=source, remedy=_REMEDY
        ) from error
    return GivenKeys(columns=columns, rows=tuple(keys))


_Cells = Sequence[str | None]


def _csv_rows(path: Path) -> Iterator[_Cells]:
    """Yield the header and then the rows of a CSV file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from (row for row in csv.reader(file, strict=True) if row)


def _parquet_rows(path: Path) -> Iterator[_Cells]:
    """Yield the column names and then the rows of a Parquet file, as texts."""
    with pq.ParquetFile(path) as file:
        yield file.schema_arrow.names
        for batch in file.iter_batches():
            columns = [column.cast(pa.string()).to_pylist() for column in batch.columns]
            yield from zip(*columns, strict=True)
