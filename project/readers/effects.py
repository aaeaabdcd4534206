"""The effects of a spec on the declared readers of its table, by the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from parquetry.message import Message, Text, command
from parquetry.project.readers.matrix import MatrixCell, Reader, ReaderResult, matrix
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.paths import ColumnPath, types_by_path
from parquetry.runtime.spec.table_spec import DEFAULT_TABLE_VERSION, Operation, RetentionPolicy, TableSpec
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Struct, parse_type

READERS_PATH: Final = "readers"

_ONE_VERSION: Final = (
    "keep one version (retention.clean.keep_commits: null, keep_versions: 1), which leaves the time until "
    "each clean has ended"
)
_OTHERWISE: Final = "read it with another reader of the matrix, such as parquetry's own"
_OTHER_FILES: Final = frozenset({"unfinished", "upserted", "clustered", "partition_deleted"})
_OVERWRITES: Final = frozenset({Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE})
_TIMES: Final = frozenset({"date", "timestamp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """A property of a table that readers may fail at.

    Attributes:
        kind: The kind of tables in the matrix that have it.
        path: The setting that causes it.
        when: The circumstances in words.
        remedy: What to do for a reader that fails at it.
    """

    kind: str
    path: str
    when: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A trait of a table at which a reader fails."""

    reader: Reader
    trait: Trait
    cell: MatrixCell

    @property
    def is_wrong(self) -> bool:
        """True if the reader returns wrong rows, False if it refuses."""
        return self.cell.result is ReaderResult.WRONG

    @property
    def message(self) -> Message:
        """The failure of the reader, as a sentence."""
        reader, when, found = self.reader.title, self.trait.when, self.cell.detail or ""
        if self.is_wrong:
            return Message(
                "{reader} returns wrong rows {when} ({found})", reader=reader, when=when, found=found
            )
        return Message(
            "{reader} cannot read the table {when} ({found})", reader=reader, when=when, found=found
        )

    @property
    def remedy(self) -> Text:
        """The remedy for this reader."""
        if self.trait.kind not in _OTHER_FILES or not self.reader.lists_files:
            return self.trait.remedy
        return Message(
            "{remedy}, or give it the files that {command} lists",
            remedy=self.trait.remedy,
            command=command("inspect", "--files"),
        )


def effects(spec: TableSpec, readers: Iterable[str], *, since: TableSpec | None = None) -> tuple[Effect, ...]:
    """Return where readers fail at a table.

    Args:
        spec: The spec of the table.
        readers: The names of readers of the matrix.
        since: The spec before a change; then only what the change adds is returned.
    """
    known = matrix().readers
    return tuple(
        Effect(reader=known[name], trait=trait, cell=cell)
        for name in readers
        for trait in _added(spec, known[name], since)
        if (cell := _fault(known[name], trait.kind)) is not None
    )


def _added(spec: TableSpec, reader: Reader, since: TableSpec | None) -> list[Trait]:
    """Return the traits of a table that a reader meets, and did not meet before a change."""
    if since is None:
        return [*_traits(spec, reader)]
    before = {trait.kind for trait in _traits(since, reader)}
    if stopped := [*_traits_of_stopping(since, spec, reader)]:
        return stopped
    added = [trait for trait in _traits(spec, reader) if trait.kind not in before]
    return added if _misses_metadata(spec, reader) else [*added, *_traits_of_evolution(since, spec)]


def _fault(reader: Reader, kind: str) -> MatrixCell | None:
    """Return the cell of a reader that fails at a kind of tables, unless it fails so at all upserted ones."""
    cell = reader.cells.get(kind)
    if cell is None or cell.result is ReaderResult.RIGHT:
        return None
    return None if kind != "upserted" and cell == reader.cells.get("upserted") else cell


def _traits(spec: TableSpec, reader: Reader) -> Iterator[Trait]:
    """Yield the traits of a table that matter to a reader, by its spec."""
    if _misses_metadata(spec, reader):
        yield Trait(
            kind="unpublished",
            path=f"publish.{reader.published_as}",
            when=f"without publish.{reader.published_as}",
            remedy=f"set publish.{reader.published_as}: {{}}",
        )
        return
    for name in _published(spec):
        yield Trait(
            kind=f"published_{name}",
            path=f"publish.{name}",
            when=f"with publish.{name}",
            remedy=f"remove publish.{name}, or {_OTHERWISE}",
        )
    yield from _traits_of_files(spec)
    yield from _traits_of_columns(spec)
    if spec.files.encryption_key is not None:
        yield Trait(
            kind="encrypted",
            path="files.encryption_key",
            when="with encrypted files",
            remedy="remove files.encryption_key, or read it with parquetry",
        )
    if spec.files.meta_columns is not MetaColumns.ALL:
        yield Trait(
            kind="without_meta_columns",
            path="files.meta_columns",
            when="without all meta columns",
            remedy="use meta_columns: all",
        )
    if spec.table_version != DEFAULT_TABLE_VERSION:
        yield Trait(
            kind=f"version_{spec.table_version}",
            path="table_version",
            when=f"of version {spec.table_version}",
            remedy=f"keep table_version: {DEFAULT_TABLE_VERSION}",
        )


def _traits_of_files(spec: TableSpec) -> Iterator[Trait]:
    """Yield what files beside the live ones, and their clean, mean for readers."""
    yield Trait(
        kind="unfinished",
        path=READERS_PATH,
        when="while a write is not committed, and after one has died",
        remedy=_OTHERWISE,
    )
    if _keeps_one_version(spec.retention):
        yield Trait(
            kind="cleaned",
            path="retention.clean.keep_versions",
            when="after a clustering and its clean",
            remedy="set clustering.trigger: off, or keep more than one version",
        )
        return
    yield Trait(
        kind="upserted",
        path="retention.clean.keep_commits",
        when="after an update, whose older versions of files stay until they are cleaned",
        remedy=_ONE_VERSION,
    )
    if spec.clustering.trigger is not Trigger.OFF:
        yield Trait(
            kind="clustered",
            path="clustering.trigger",
            when="between a clustering and the clean of the files that it replaced",
            remedy=f"set clustering.trigger: off, or {_ONE_VERSION}",
        )
    for source in spec.sources:
        if source.operation in _OVERWRITES:
            yield Trait(
                kind="partition_deleted",
                path=f"sources.{source.name}.operation",
                when="between an overwrite and the clean of the files that it replaced",
                remedy=f"use operation: upsert, or {_ONE_VERSION}",
            )
            break


def _traits_of_columns(spec: TableSpec) -> Iterator[Trait]:
    """Yield what the types of columns and the values of partitions mean for readers."""
    found: dict[str, str] = {}
    for column in spec.columns:
        for kind in _kinds_of(parse_type(column.type)):
            found.setdefault(kind, column.name)
    words = {
        "nested": "with structs, arrays or maps",
        "nested_deeply": "with arrays or maps whose elements are structs, arrays or maps",
        "decimals": "with decimals",
        "before_1970": "with times before 1970",
    }
    for kind, column_name in found.items():
        yield Trait(kind=kind, path=f"columns.{column_name}.type", when=words[kind], remedy=_OTHERWISE)
    texts = {column.name for column in spec.columns if column.type == "string"}
    if texts & {*spec.partition_by}:
        yield Trait(
            kind="special_partitions",
            path="partition_by",
            when="with special characters or null in the values of partitions",
            remedy=f"keep the values plain, or {_OTHERWISE}",
        )


def _kinds_of(column_type: ColumnType) -> Iterator[str]:
    """Yield the kinds of tables in the matrix with which a type is tried, at any depth."""
    match column_type:
        case Struct():
            yield "nested"
            for field in column_type.fields:
                yield from _kinds_of(field.type)
        case Array(element=part) | Map(value=part):
            yield "nested"
            if isinstance(part, Struct | Array | Map):
                yield "nested_deeply"
            yield from _kinds_of(part)
        case Decimal():
            yield "decimals"
        case _ if str(column_type) in _TIMES:
            yield "before_1970"


def _published(spec: TableSpec) -> tuple[str, ...]:
    """Return the names of the formats in which a table is published."""
    publish = spec.publish
    given = {} if publish is None else {"delta": publish.delta, "iceberg": publish.iceberg}
    return tuple(name for name, form in given.items() if form is not None)


def _misses_metadata(spec: TableSpec, reader: Reader) -> bool:
    """Return whether a reader reads metadata that the table does not publish."""
    return reader.published_as is not None and reader.published_as not in _published(spec)


def _keeps_one_version(retention: RetentionPolicy) -> bool:
    """Return whether each write deletes the files that it replaces as soon as it is committed."""
    others = (retention.keep_commits, retention.max_age_seconds)
    return retention.keep_versions == 1 and others == (None, None)


def _traits_of_stopping(old: TableSpec, new: TableSpec, reader: Reader) -> Iterator[Trait]:
    """Yield what metadata that no write follows any more means for a reader of it."""
    form = reader.published_as
    if form in _published(old) and form not in _published(new):
        yield Trait(
            kind="publishing_stopped",
            path=f"publish.{form}",
            when=f"once publish.{form} is removed, as it sees no later write",
            remedy=f"keep publish.{form}, or {_OTHERWISE}",
        )


def _traits_of_evolution(old: TableSpec, new: TableSpec) -> Iterator[Trait]:
    """Yield what changed columns and fields mean for readers while files of the old spec are there."""
    before, after = types_by_path(old.columns), types_by_path(new.columns)
    changed: dict[str, list[ColumnPath]] = {}
    for path in after:
        kind = _kind_of_evolution(path, before, after)
        if kind is not None:
            changed.setdefault(kind, []).append(path)
    for kind, (first, *others) in changed.items():
        lacking = "lack" if kind.endswith("_added") else "have another type of"
        more = f" and {len(others)} more" if others else ""
        yield Trait(
            kind=kind,
            path=f"columns.{first[0]}",
            when=f"while older files {lacking} {'.'.join(first)}{more}",
            remedy=f"let a clustering rewrite the older files, or {_OTHERWISE}",
        )


def _kind_of_evolution(
    path: ColumnPath, before: Mapping[ColumnPath, ColumnType], after: Mapping[ColumnPath, ColumnType]
) -> str | None:
    """Return the kind of tables in which a column or field changes as this one does, None if it does not."""
    if path not in before:
        if len(path) == 1:
            return "column_added"
        return "field_added" if path[:1] in before else None
    if before[path] == after[path]:
        return None
    is_nested = isinstance(after[path], Struct | Array | Map)
    # The type of a struct, an array or a map also differs if a field in it does.
    if is_nested and any(
        other[: len(path)] == path and other != path and before.get(other) != after[other] for other in after
    ):
        return None
    return "field_widened" if is_nested or len(path) > 1 else "column_widened"
