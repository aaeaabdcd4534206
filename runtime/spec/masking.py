"""What may be told of columns that hold personal data (``pii: true``): not their values.

Partition paths, and what errors and results quote of rows, lose them before they leave a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from parquetry.errors import ParquetryError
from parquetry.message import changed
from parquetry.runtime.quoting import CONDITION, with_quotes, without_quotes
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.secret_names import MASK

_QUOTED: Final = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_PARTITION: Final = re.compile(rf"(?<=\bpartition )(?:{_QUOTED})")
_RECORD_KEY: Final = re.compile(rf"(?<=\brecord key )(?:{_QUOTED})")
_FOLDER: Final = r"(?:(?!: |; |, )[^/\n])+"
_BASE_FILE: Final = r"[^_/\s]+_[^_./\s]+_\d+\.parquet|\.hoodie_partition_metadata"


def pii_columns(*columns: Iterable[Column]) -> frozenset[str]:
    """The names, in lower case, of the columns that hold personal data in any of the lists."""
    return frozenset(column.name.lower() for each in columns for column in each if column.pii)


def has_personal_columns(spec: TableSpec | None) -> bool:
    """Whether any column of the table holds personal data."""
    return spec is not None and bool(pii_columns(spec.columns))


def has_masked_partitions(spec: TableSpec) -> bool:
    """Whether paths of partitions hold values of columns that hold personal data."""
    pii = pii_columns(spec.columns)
    return any(column.lower() in pii for column in spec.partition_by)


def masked_partition(path: str, spec: TableSpec | None) -> str:
    """The partition's path with ``***`` for the values of columns that hold personal data.

    Without a spec nothing is known to be personal.
    """
    if not path or spec is None or not has_masked_partitions(spec):
        return path
    pii = pii_columns(spec.columns)
    parts = path.split("/")
    if len(parts) != len(spec.partition_by):
        return MASK
    return "/".join(
        _masked_folder(part) if column.lower() in pii else part
        for column, part in zip(spec.partition_by, parts, strict=True)
    )


def masked_path(path: str, partition: str, spec: TableSpec | None) -> str:
    """The path of a file in a partition, whose name tells nothing, with the partition masked."""
    if not partition:
        return path
    return f"{masked_partition(partition, spec)}{path.removeprefix(partition)}"


def masked_message(text: str, spec: TableSpec | None, *, location: str = "") -> str:
    """An error or a warning about the table without values of columns that hold personal data.

    Masked are partitions and record keys where they are named as such, the folders of base files,
    ``column=value`` folders anywhere, and folders below the table's ``location`` where it is given: up to
    the next comma, colon or semicolon that a blank follows. Of what a library says the class of the error
    stays, if the table has such a column at all: libraries quote parts of rows, and whole ones.
    """
    return changed(text, partial(_masked_text, spec=spec, location=location))


@contextmanager
def failures_masked(spec: TableSpec | None, *, location: str = "") -> Iterator[None]:
    """Failures of the block, about a table, say nothing of values of columns that hold personal data.

    What they were raised from, whose words are a library's, goes where the table has such columns. What
    nobody expected is then told by its class, and by where it was raised.
    """
    try:
        yield
    except ParquetryError as failure:
        failure.reword(partial(masked_message, spec=spec, location=location))
        if has_personal_columns(spec):
            failure.__cause__ = failure.__context__ = None
        raise
    except OSError:  # names files, and no rows
        raise
    except Exception as bug:
        if not has_personal_columns(spec):
            raise
        condition = CONDITION.search(str(bug)[:4096])
        name = f"{type(bug).__name__} {condition[0]}" if condition else type(bug).__name__
        error = RuntimeError(f"{name}: its message is left out, as the table has columns with personal data")
        raise error.with_traceback(bug.__traceback__) from None


def _masked_text(text: str, spec: TableSpec | None, location: str) -> str:
    text = without_quotes(text) if has_personal_columns(spec) else with_quotes(text)
    if spec is None:
        return text
    pii = pii_columns(spec.columns)
    if any(field.partition(".")[0].lower() in pii for field in spec.record_key):
        text = _RECORD_KEY.sub(f"'{MASK}'", text)
    if not has_masked_partitions(spec):
        return text
    text = _PARTITION.sub(lambda found: f"'{masked_partition(found[0][1:-1], spec)}'", text)
    depth = len(spec.partition_by)
    if location:
        text = _masked_below(text, location, spec)
    text = re.sub(
        rf"(?<![^/\n])((?:[^/\n]+/){{{depth}}})(?={_BASE_FILE})",
        lambda found: _masked_folders(found[1], spec),
        text,
    )
    names = "|".join(re.escape(column) for column in spec.partition_by if column.lower() in pii)
    return re.sub(rf"(?<!\w)({names})=[^/\n'\"]*", rf"\1={MASK}", text)


def _masked_folders(folders: str, spec: TableSpec) -> str:
    """The folders above a base file.

    Words before a path that begins with them stay with ``column=value`` folders only: nothing else tells
    where such a path begins.
    """
    return f"{masked_partition(folders.removesuffix('/'), spec)}/"


def _masked_below(text: str, location: str, spec: TableSpec) -> str:
    """Folders of partitions in paths below the table, whose own folder ``.hoodie`` stays."""
    pii = pii_columns(spec.columns)
    root = re.escape(re.sub(r"^\w+://", "", location).rstrip("/"))

    def shown(found: re.Match[str]) -> str:
        folders = zip(spec.partition_by, found[0].split("/"), strict=False)
        return "/".join(_masked_folder(part) if name.lower() in pii else part for name, part in folders)

    below = rf"(?:{_FOLDER}/){{0,{len(spec.partition_by) - 1}}}{_FOLDER}"
    return re.sub(rf"(?<={root}/)(?!\.hoodie/){below}", shown, text)


def _masked_folder(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={MASK}" if equals else MASK
