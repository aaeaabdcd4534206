"""A layout that `inspect --out` saved, read back: for estimates where no table may be looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from parquetry.compiler.reports.inspection import LayoutReport, PartitionReport
from parquetry.compiler.workspace.named_file import read_named
from parquetry.errors import UsageError
from parquetry.runtime.spec.codec import parsed_json


def read_layouts(files: Iterable[Path]) -> dict[str, LayoutReport]:
    """The layouts by table; UsageError for a file that holds none, or a table that is there twice."""
    found: dict[str, LayoutReport] = {}
    for file in files:
        layout = _layout(file)
        if layout.table in found:
            raise UsageError(f"{file} is the second layout of table {layout.table}; give one per table")
        found[layout.table] = layout
    return found


def _layout(file: Path) -> LayoutReport:
    try:
        document = parsed_json(read_named(file))
        return LayoutReport(
            table=_text(document["table"]),
            instant=document["instant"],
            partitions=tuple(_partition(entry) for entry in document["partitions"]),
            queries=(),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{file} is no saved layout; write one with `parquetry inspect TABLE --out FILE`"
        ) from error


def _partition(entry: Mapping[str, Any]) -> PartitionReport:
    sizes = tuple(int(size) for size in entry["file_sizes_bytes"])
    instants, layouts = (entry.get(key, ()) for key in ("file_instants", "file_layouts"))
    if any(said and len(said) != len(sizes) for said in (instants, layouts)):
        raise ValueError("it does not say the same number of files everywhere")
    return PartitionReport(
        path=_text(entry["path"]),
        small_files=int(entry["small_files"]),
        rows=int(entry["rows"]),
        file_sizes_bytes=sizes,
        file_instants=tuple(map(_text, instants)),
        file_layouts=tuple(None if digest is None else _text(digest) for digest in layouts),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
