"""The stage of incoming rows, materialised once; all later steps of a write read only the stage.

Spark does not guarantee that it computes the same rows twice. So each task writes its rows to a stage, under
a name that is unique to its attempt, and returns that name; only files that successful tasks named are used.
Rows keep their order of arrival. Within a run of bounded size they are grouped by table partition into Arrow
batches, and an index contains the byte range of each batch. A row is identified by its reference: the number
of its task, shifted left by 40 bits, plus its position. In a store, that is its position among the rows of
its partition, after those of the previous partitions. On one machine, it is its position in its run, after
previous runs.

No base file may contain nulls in required struct fields, or text that is not valid UTF-8. Spark accepts any
bytes as text, but other readers refuse a file that contains such text. So the stage finds rows with them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.message import Message, Value, message_json
from parquetry.runtime.arrow.columns import values_at
from parquetry.runtime.arrow.conform import conform
from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING
from parquetry.runtime.spec.key_generator import EMPTY_KEY_PART, NULL_KEY_PART
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.batches import GroupedFile
from parquetry.runtime.stage.index import BATCHES, REFERENCE_SHIFT
from parquetry.runtime.stage.keys_file import KeysFile
from parquetry.runtime.stage.location import StageLocation
from parquetry.runtime.stage.partition_paths import PartitionPaths
from parquetry.runtime.table.partition_path import NULL_FOLDER_TEXTS, NULL_PARTITION

REFERENCE = "__ref"
ARRIVAL = "__arrival"
"""A text column that sorts rows by their order of arrival, if they have one."""
PARTITION = "__partition"
GENERATED_FAULT = "__generated_wrong"

_TEXTS = {RECORD_KEY: "the record key", PARTITION: "the partition path"}

RUN_BYTES = 48 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """The settings with which a task stages its rows.

    ``schema`` are the columns to keep, in the types of the base files. ``key_column`` contains the record
    key: one of these columns, or ``_hoodie_record_key`` in addition; None if keys are generated later.
    ``paths`` computes the partition path, unless the rows have it. ``rows`` requests the file with whole
    rows, as Arrow batches. ``keys`` requests the file with keys and control columns, in Parquet, which Spark
    reads too; with ``matched`` it also contains the columns to keep. ``required`` columns must not be null in
    rows that are not deletes. ``ordering`` may be a dotted path. ``has_arrival``: rows have an order of
    arrival. Two settings are for the readers of the stage. ``drop_duplicates``: one row per key wins, where
    keys are unique. ``refuses_ties``: different rows of one key that no rule ranks are an error. ``declared``
    maps faults of generated columns to the position of their SQL in the spec. ``overwrites`` are the
    partition columns if whole partitions are replaced. ``key_fields`` are the fields of a record key that has
    several.
    """

    location: StageLocation
    schema: pa.Schema
    key_column: str | None
    ordering: str | None
    required: tuple[str, ...]
    rows: bool
    keys: bool
    matched: bool = False
    has_arrival: bool = False
    drop_duplicates: bool = False
    refuses_ties: bool = False
    key_fields: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()
    paths: PartitionPaths | None = None
    declared: Mapping[str, str] = field(default_factory=dict)
    run_bytes: int = RUN_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFault:
    """A fault of incoming rows: the number of rows that have it, and a description of the first."""

    description: str
    rows: int
    example: Message


SUMMARY_SQL = "part int, name string, rows bigint, fault string, example string"
"""The schema of a task's summary for Spark: its number, the name of its files, and the faults of its rows."""

_SUMMARY = pa.schema(
    [
        ("part", pa.int32()),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("fault", pa.string()),
        ("example", pa.string()),
    ]
)
TOTALS = pa.schema(
    [
        ("partition", pa.string()),
        ("rows", pa.int64()),
        ("deletes", pa.int64()),
        ("hash_sum", pa.int64()),
        ("size_bytes", pa.int64()),
        ("text_bytes", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("batches", BATCHES),
    ]
)


def rows_name(name: str) -> str:
    """Return the name of the file with the whole rows of a task attempt."""
    return f"{name}.rows"


def keys_name(name: str) -> str:
    """Return the name of the file with the keys and control columns of a task attempt."""
    return f"{name}.keys"


def totals_name(name: str) -> str:
    """Return the name of the file with a task attempt's totals and batch positions by partition."""
    return f"{name}.totals"


def rows_schema(spec: StageSpec) -> pa.Schema:
    """Return the schema of the batches with whole rows: the columns to keep, and the row hash."""
    kept = [stored.with_nullable(nullable=True) for stored in spec.schema]
    return pa.schema([*kept, pa.field(HASH, pa.int64())])


def stage_rows(spec: StageSpec, part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task to the stage, and yield one batch that summarises them."""
    with ExitStack() as stack:
        writer = _PartWriter(spec, part, f"{part:06d}-{uuid.uuid4().hex[:12]}", stack)
        run: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if run and size + batch.nbytes > spec.run_bytes:
                writer.add(run)
                run, size = [], 0
            run.append(batch)
            size += batch.nbytes
        if run:
            writer.add(run)
    writer.write_totals()
    yield writer.summary()


def fault_batch(part: int, fault: str) -> pa.RecordBatch:
    """Return the summary of a task that could not stage its rows."""
    row = {"part": part, "rows": 0, "fault": fault, "example": json.dumps(message_json(Message("")))}
    return pa.RecordBatch.from_pylist([row], schema=_SUMMARY)


class _PartWriter:
    """A writer of one task's files, run by run."""

    def __init__(self, spec: StageSpec, part: int, name: str, stack: ExitStack) -> None:
        self._spec = spec
        partition_by = spec.paths.rules.partition_by if spec.paths else ()
        self._naming = {*_TEXTS, spec.key_column, *partition_by}
        self._part = part
        self._name = name
        self._stack = stack
        self._totals: dict[str, _Totals] = {}
        self._faults: dict[str, tuple[int, Message]] = {}
        self._next = part << REFERENCE_SHIFT
        self._rows: GroupedFile | None = None
        self._keys: KeysFile | None = None

    def add(self, run: list[pa.RecordBatch]) -> None:
        """Check a run, convert it, group it by partition and write it; the list ``run`` is emptied."""
        table = pa.concat_batches(run) if len(run) > 1 else run[0]
        run.clear()
        table, unreadable = with_valid_text(table)
        table = self._with_paths(table)
        for name, mask in unreadable.items():
            if name not in self._naming and DELETE in table.schema.names:
                # Of a delete, only the columns that identify the row are used.
                mask = pc.and_(mask, pc.invert(table.column(DELETE)))  # noqa: PLW2901
            self._count(f"{_TEXTS.get(name, f'column {name!r}')} is not valid UTF-8", table, mask)
        codes = table.column(PARTITION)
        partitions = codes.dictionary.to_pylist()
        counts = np.bincount(codes.indices.to_numpy(zero_copy_only=False), minlength=len(partitions))
        if len(partitions) > 1:
            # The sort is stable: rows of one partition keep their order of arrival.
            table = table.take(pc.sort_indices(codes.indices))
        table = self._with_control(table)
        self._check(table)
        rows, keys = self._rows_batch(table), self._keys_batch(table)
        if self._rows is None and self._keys is None:
            self._open(keys.schema)
        offset = 0
        for partition, count in zip(partitions, counts.tolist(), strict=True):
            part = rows.slice(offset, count)
            self._total(partition, part, keys.slice(offset, count))
            if self._rows is not None:
                self._rows.write(partition, part, first=self._next + offset)
            offset += count
        self._next += table.num_rows
        if self._keys is not None:
            self._keys.write(keys, list(zip(partitions, counts.tolist(), strict=True)))

    def summary(self) -> pa.RecordBatch:
        """Return one row with the name of the files, if there are any, and one row per kind of fault."""
        rows: list[dict[str, Any]] = [
            {"part": self._part, "rows": count, "fault": fault, "example": json.dumps(message_json(example))}
            for fault, (count, example) in self._faults.items()
        ]
        if self._totals:
            rows.append({"part": self._part, "name": self._name})
        return pa.RecordBatch.from_pylist(rows, schema=_SUMMARY)

    def write_totals(self) -> None:
        """Write the totals and batches of each partition, which the driver adds up over all tasks."""
        if not self._totals:
            return
        rows = [
            {
                "partition": partition,
                "rows": total.rows,
                "deletes": total.deletes,
                "hash_sum": total.hash_sum - (1 << 64 if total.hash_sum >> 63 else 0),
                "size_bytes": total.size_bytes,
                "text_bytes": total.text_bytes,
                "min_key": total.min_key,
                "max_key": total.max_key,
                "batches": self._rows.batches[partition] if self._rows is not None else [],
            }
            for partition, total in self._totals.items()
        ]
        with (
            self._spec.location.create(totals_name(self._name)) as sink,
            pa.ipc.new_file(sink, TOTALS) as file,
        ):
            file.write_batch(pa.RecordBatch.from_pylist(rows, schema=TOTALS))

    def _total(self, partition: str, rows: pa.RecordBatch, keys: pa.RecordBatch) -> None:
        total = self._totals.setdefault(partition, _Totals())
        total.rows += rows.num_rows
        total.deletes += pc.sum(keys.column(DELETE)).as_py() or 0
        total.hash_sum = (total.hash_sum + hash_sum(keys.column(HASH))) % (1 << 64)
        total.size_bytes += rows.nbytes
        if self._spec.key_column:
            total.add_keys(keys.column(RECORD_KEY))
        for name in {RECORD_KEY, ORDERING, ARRIVAL} & set(keys.schema.names):
            kind = keys.schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_binary(kind):
                total.text_bytes += pc.sum(pc.binary_length(keys.column(name))).as_py() or 0

    def _open(self, keys: pa.Schema) -> None:
        spec = self._spec
        if spec.rows:
            self._rows = self._stack.enter_context(
                GroupedFile(spec.location, rows_name(self._name), rows_schema(spec))
            )
        if spec.keys:
            self._keys = self._stack.enter_context(
                KeysFile(
                    spec.location,
                    keys_name(self._name),
                    keys,
                    rows=self._rows,
                    reference=REFERENCE,
                    dictionaries=[PARTITION],
                )
            )

    def _rows_batch(self, table: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [conform(table.column(field.name), field.type) for field in self._spec.schema]
        return pa.RecordBatch.from_arrays([*arrays, table.column(HASH)], schema=rows_schema(self._spec))

    def _keys_batch(self, table: pa.RecordBatch) -> pa.RecordBatch:
        spec = self._spec
        columns = {
            REFERENCE: self._references(table.num_rows),
            PARTITION: pc.cast(table.column(PARTITION), pa.string()),
            HASH: table.column(HASH),
            DELETE: table.column(DELETE),
        }
        if key := spec.key_column:
            columns[RECORD_KEY] = table.column(key)
        if spec.ordering:
            columns[ORDERING] = values_at(table, spec.ordering)
        if spec.has_arrival:
            columns[ARRIVAL] = table.column(ARRIVAL)
        if spec.matched:
            columns |= {kept.name: conform(table.column(kept.name), kept.type) for kept in spec.schema}
        return pa.RecordBatch.from_pydict(columns)

    def _with_paths(self, table: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their partition paths as a dictionary column."""
        paths = self._spec.paths
        encoded = paths.of_rows(table) if paths else table.column(PARTITION).dictionary_encode()
        if PARTITION not in table.schema.names:
            return table.append_column(PARTITION, encoded)
        at = table.schema.get_field_index(PARTITION)
        return table.set_column(at, pa.field(PARTITION, encoded.type), encoded)

    def _with_control(self, table: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with a hash and a delete flag.

        The hash of a row without one is that of its reference.
        """
        if HASH not in table.schema.names:
            table = table.append_column(
                HASH, pa.array(splitmix64(self._references(table.num_rows).to_numpy()))
            )
        if DELETE not in table.schema.names:
            table = table.append_column(DELETE, pa.array(np.zeros(table.num_rows, bool)))
        return table

    def _references(self, count: int) -> pa.Array:
        return pa.array(np.arange(self._next, self._next + count, dtype=np.int64))

    def _check(self, table: pa.RecordBatch) -> None:
        """Count the faults of the rows."""
        written = pc.invert(table.column(DELETE))
        if key := self._spec.key_column:
            is_empty = pc.fill_null(pc.equal(pc.binary_length(table.column(key)), 0), fill_value=True)
            self._count("the record key is null or empty", table, is_empty)
            self._check_unambiguous(table, table.column(key))
        self._check_null_partition(table)
        for name in self._spec.required:
            column = table.column(name)
            if column.null_count:
                self._count(f"column {name!r} is null", table, pc.and_(pc.is_null(column), written))
        for stored in self._spec.schema:
            for path, nulls in required_nulls(table.column(stored.name), stored, stored.name):
                self._count(f"field {path!r} is null", table, nulls)
        if GENERATED_FAULT in table.schema.names:
            messages = table.column(GENERATED_FAULT)
            for fault in pc.unique(messages.drop_null()).to_pylist():
                self._count(fault, table, pc.fill_null(pc.equal(messages, fault), fill_value=False))

    def _check_null_partition(self, table: pa.RecordBatch) -> None:
        """Count the rows with a partition value that is not null but has the same path as null.

        An insert overwrite of such rows would replace the partition of null.
        """
        for name in self._spec.overwrites:
            values = values_at(table, name)
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                shared = pc.is_in(values, value_set=pa.array(NULL_FOLDER_TEXTS, values.type))
                fault = f"column {name!r} is an empty text or {NULL_PARTITION} (the partition of null)"
                self._count(fault, table, shared)

    def _check_unambiguous(self, table: pa.RecordBatch, keys: pa.Array) -> None:
        """Count rows whose composite key is ambiguous.

        ``a:x,b:y`` can be two fields, or a single field ``a`` whose value contains a comma. Values that equal
        a placeholder are ambiguous too.
        """
        for name in self._spec.key_fields[1:]:
            is_repeated = pc.greater(pc.count_substring(keys, f",{name}:"), 1)
            fault = f"the record key is ambiguous (one of its values contains ',{name}:')"
            self._count(fault, table, pc.fill_null(is_repeated, fill_value=False))
        placeholders = (NULL_KEY_PART, EMPTY_KEY_PART)
        for name in self._spec.key_fields if self._spec.rows else ():
            values = values_at(table, name)
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                is_placeholder = pc.is_in(values, value_set=pa.array(placeholders, values.type))
                fault = f"column {name!r} is {' or '.join(placeholders)} (reserved in record keys)"
                self._count(fault, table, is_placeholder)

    def _count(self, fault: str, table: pa.RecordBatch, mask: pa.Array) -> None:
        """Add the rows of the mask to the count of a fault. The first of them becomes its example."""
        count = pc.sum(mask).as_py() or 0
        if count:
            if fault not in self._faults:
                self._faults[fault] = (0, self._describe(table, pc.index(mask, value=True).as_py()))
            before, example = self._faults[fault]
            self._faults[fault] = (before + count, example)

    def _describe(self, table: pa.RecordBatch, row: int) -> Message:
        """Return a description of the row: its record key or input partition, and its table partition."""
        partition = table.column(PARTITION)[row].as_py()
        key = self._spec.key_column and table.column(self._spec.key_column)[row].as_py()
        name = (
            Message("record key {key}", key=Value.record_key(key))
            if key
            else Message("a row of input partition {input_partition}", input_partition=self._part)
        )
        if not partition:
            return name
        return Message("{row} in partition {partition}", row=name, partition=Value.partition(partition))


@dataclass(slots=True)
class _Totals:
    rows: int = 0
    deletes: int = 0
    hash_sum: int = 0
    size_bytes: int = 0
    text_bytes: int = 0
    min_key: str | None = None
    max_key: str | None = None

    def add_keys(self, keys: pa.Array) -> None:
        ends = pc.min_max(keys).as_py()
        if ends["min"] is not None:
            self.min_key = min((self.min_key or ends["min"], ends["min"]), key=str.encode)
            self.max_key = max((self.max_key or ends["max"], ends["max"]), key=str.encode)


def hash_sum(hashes: pa.Array) -> int:
    """Return the sum of 64-bit hashes modulo 2**64."""
    return int(np.add.reduce(hashes.to_numpy(zero_copy_only=False).view(np.uint64), dtype=np.uint64))


def splitmix64(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a hash of each number: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        z = numbers.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes: npt.NDArray[np.int64] = (z ^ (z >> np.uint64(31))).view(np.int64)
    return hashes


def type_at(schema: pa.Schema, path: str) -> pa.DataType:
    """Return the type of a dotted column path."""
    name, *inner = path.split(".")
    kind = schema.field(name).type
    for part in inner:
        kind = kind.field(part).type
    return kind


def required_nulls(array: pa.Array, field: pa.Field, parent: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield the required struct fields that are null in some rows: the path of each and a mask of these rows.

    Structs within structs are checked row by row. Elements of lists and maps are checked as a whole; the mask
    then selects all rows that are not null.
    """
    kind = field.type
    if not has_required(kind):
        return
    if pa.types.is_struct(kind):
        present = pc.is_valid(array)
        for index in range(kind.num_fields):
            child = kind.field(index)
            at = array.type.get_field_index(child.name)
            if at < 0:
                continue
            values, path = pc.struct_field(array, [at]), f"{parent}.{child.name}"
            if not child.nullable and values.null_count:
                yield path, pc.and_(present, pc.is_null(values))
            yield from required_nulls(values, child, path)
        return
    inner = array.items if pa.types.is_map(kind) else array.values
    child = kind.item_field if pa.types.is_map(kind) else kind.value_field
    for path, nulls in required_nulls(inner, child, f"{parent}.{child.name}"):
        if pc.any(nulls).as_py():
            yield path, pc.is_valid(array)


def has_required(kind: pa.DataType) -> bool:
    """Return whether the type contains a struct with a field that must not be null."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return any(not f.nullable or has_required(f.type) for f in fields)
    if pa.types.is_map(kind):
        return has_required(kind.item_type)
    return bool(pa.types.is_list(kind)) and has_required(kind.value_type)


def with_valid_text(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[str, pa.Array]]:
    """Return the rows with valid UTF-8 in text columns, and masks of the rows that had invalid text.

    Invalid bytes of text columns are replaced by escapes, so that the text can be shown. The masks are by
    column name. Within lists, maps and structs invalid bytes stay, and the mask selects all rows that are not
    null.
    """
    found: dict[str, pa.Array] = {}
    for number, column_field in enumerate(rows.schema):
        column = rows.column(number)
        if not _holds_text(column_field.type) or _is_utf8(column):
            continue
        if pa.types.is_nested(column_field.type):
            found[column_field.name] = pc.is_valid(column)
            continue
        as_bytes = pa.binary() if pa.types.is_string(column_field.type) else pa.large_binary()
        values = pc.cast(column, as_bytes).to_pylist()
        texts = [None if value is None else value.decode(errors="backslashreplace") for value in values]
        readable = pa.array(texts, column_field.type)
        found[column_field.name] = pc.fill_null(
            pc.not_equal(pc.cast(readable, as_bytes), pa.array(values, as_bytes)), fill_value=False
        )
        rows = rows.set_column(number, column_field, readable)
    return rows, found


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
