"""The Avro schemas of Hudi's timeline files, and the encoding of single records as Avro containers.

A short notation lists the records: ``?T`` is a union with null whose default is null, ``T = x`` has a
default, ``int|null = 1`` is a union whose first branch gives the default. Each schema defines a nested record
where it is first used, as Avro requires. Every string has ``avro.java.string``, without which Hudi 1.2 cannot
read an archive log. Some records of Hudi have two forms under one name: ``commit/`` marks the form in the
commits of layout 2, and the other one is in the archive log. Source: hudi-common/src/main/avro of Hudi 0.15,
for the commits of layout 2 of Hudi 1.2.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import Any, ClassVar, Final, Self

import fastavro
import fastavro.schema

from parquetry.errors import message_of
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.codec import MAX_DEPTH, parsed_json

NAMESPACE: Final = "org.apache.hudi.avro.model"

_RECORDS: Final[Mapping[str, str]] = {
    "HoodieInstantInfo": "commitTime: string; action: string",
    "HoodieActionInstant": "timestamp: string; action: string; state: string",
    # clustering
    "HoodieRequestedReplaceMetadata": """
        operationType: ?string; clusteringPlan: ?HoodieClusteringPlan; extraMetadata: ?map<string>;
        version: int|null = 1""",
    "HoodieClusteringPlan": """
        inputGroups: ?array<HoodieClusteringGroup>; strategy: ?HoodieClusteringStrategy;
        extraMetadata: ?map<string>; version: int|null = 1; preserveHoodieMetadata: ?boolean""",
    "HoodieClusteringGroup": """
        slices: ?array<HoodieSliceInfo>; metrics: ?map<double>; numOutputFileGroups: int|null = 1;
        extraMetadata: ?map<string>; version: int|null = 1""",
    "HoodieSliceInfo": """
        dataFilePath: ?string; deltaFilePaths: ?array<string>; fileId: null|string;
        partitionPath: ?string; bootstrapFilePath: ?string; version: int|null = 1""",
    "HoodieClusteringStrategy": """
        strategyClassName: ?string; strategyParams: ?map<string>; version: int|null = 1""",
    # clean
    "HoodieCleanerPlan": """
        earliestInstantToRetain: ?HoodieActionInstant; lastCompletedCommitTimestamp: string = "";
        policy: string; filesToBeDeletedPerPartition: ?map<array<string>>; version: int|null = 1;
        filePathsToBeDeletedPerPartition: ?map<array<HoodieCleanFileInfo>>;
        partitionsToBeDeleted: ?array<string>; extraMetadata: ?map<string>""",
    "HoodieCleanFileInfo": "filePath: ?string; isBootstrapBaseFile: ?boolean",
    "HoodieCleanMetadata": """
        startCleanTime: string; timeTakenInMillis: long; totalFilesDeleted: int;
        earliestCommitToRetain: string; lastCompletedCommitTimestamp: string = "";
        partitionMetadata: map<HoodieCleanPartitionMetadata>; version: int|null = 1;
        bootstrapPartitionMetadata: ?map<HoodieCleanPartitionMetadata>; extraMetadata: ?map<string>""",
    "HoodieCleanPartitionMetadata": """
        partitionPath: string; policy: string; deletePathPatterns: array<string>;
        successDeleteFiles: array<string>; failedDeleteFiles: array<string>; isPartitionDeleted: ?boolean""",
    # rollback, savepoint, restore
    "HoodieRollbackPlan": """
        instantToRollback: ?HoodieInstantInfo; RollbackRequests: ?array<HoodieRollbackRequest>;
        version: int|null = 1""",
    "HoodieRollbackRequest": """
        partitionPath: string; fileId: ?string; latestBaseInstant: ?string;
        filesToBeDeleted: array<string> = []; logBlocksToBeDeleted: ?map<long>""",
    "HoodieRollbackMetadata": """
        startRollbackTime: string; timeTakenInMillis: long; totalFilesDeleted: int;
        commitsRollback: array<string>; partitionMetadata: map<HoodieRollbackPartitionMetadata>;
        version: int|null = 1; instantsRollback: array<HoodieInstantInfo> = []""",
    "HoodieRollbackPartitionMetadata": """
        partitionPath: string; successDeleteFiles: array<string>; failedDeleteFiles: array<string>;
        rollbackLogFiles: ?map<long>; logFilesFromFailedCommit: ?map<long>""",
    "HoodieSavepointMetadata": """
        savepointedBy: string; savepointedAt: long; comments: string;
        partitionMetadata: map<HoodieSavepointPartitionMetadata>; version: int|null = 1""",
    "HoodieSavepointPartitionMetadata": "partitionPath: string; savepointDataFile: array<string>",
    "HoodieRestorePlan": """
        instantsToRollback: array<HoodieInstantInfo> = []; version: int|null = 2;
        savepointToRestoreTimestamp: ?string""",
    "HoodieRestoreMetadata": """
        startRestoreTime: string; timeTakenInMillis: long; instantsToRollback: array<string>;
        hoodieRestoreMetadata: map<array<null|HoodieRollbackMetadata>>; version: int|null = 1;
        restoreInstantInfo: array<HoodieInstantInfo> = []""",
    # the archive log
    "HoodieArchivedMetaEntry": """
        hoodieCommitMetadata: ?HoodieCommitMetadata; hoodieCleanMetadata: ?HoodieCleanMetadata;
        hoodieCompactionMetadata: ?HoodieCompactionMetadata;
        hoodieRollbackMetadata: ?HoodieRollbackMetadata;
        hoodieSavePointMetadata: ?HoodieSavepointMetadata; commitTime: ?string; actionType: ?string;
        version: int|null = 1; hoodieCompactionPlan: ?HoodieCompactionPlan;
        hoodieCleanerPlan: ?HoodieCleanerPlan; actionState: ?string;
        hoodieReplaceCommitMetadata: ?HoodieReplaceCommitMetadata;
        hoodieRequestedReplaceMetadata: ?HoodieRequestedReplaceMetadata;
        HoodieInflightReplaceMetadata: ?HoodieCommitMetadata;
        hoodieIndexCommitMetadata: ?HoodieIndexCommitMetadata; stateTransitionTime: ?string""",
    "HoodieCommitMetadata": """
        partitionToWriteStats: ?map<array<HoodieWriteStat>>; extraMetadata: ?map<string>;
        version: int|null = 1; operationType: ?string""",
    "HoodieReplaceCommitMetadata": """
        partitionToWriteStats: ?map<array<HoodieWriteStat>>; extraMetadata: ?map<string>;
        version: int|null = 1; operationType: ?string; partitionToReplaceFileIds: ?map<array<string>>""",
    "HoodieWriteStat": """
        fileId: ?string; path: ?string; prevCommit: ?string; numWrites: ?long; numDeletes: ?long;
        numUpdateWrites: ?long; totalWriteBytes: ?long; totalWriteErrors: ?long; partitionPath: ?string;
        totalLogRecords: ?long; totalLogFiles: ?long; totalUpdatedRecordsCompacted: ?long;
        numInserts: ?long; totalLogBlocks: ?long; totalCorruptLogBlock: ?long; totalRollbackBlocks: ?long;
        fileSizeInBytes: ?long""",
    "HoodieCompactionMetadata": "partitionToCompactionWriteStats: null|map<array<HoodieCompactionWriteStat>>",
    "HoodieCompactionWriteStat": """
        partitionPath: ?string; totalLogRecords: ?long; totalLogFiles: ?long;
        totalUpdatedRecordsCompacted: ?long; hoodieWriteStat: ?HoodieWriteStat""",
    "HoodieCompactionPlan": """
        operations: ?array<HoodieCompactionOperation>; extraMetadata: ?map<string>; version: int|null = 1;
        strategy: ?HoodieCompactionStrategy; preserveHoodieMetadata: boolean|null = false""",
    "HoodieCompactionOperation": """
        baseInstantTime: null|string; deltaFilePaths: ?array<string>; dataFilePath: ?string;
        fileId: null|string; partitionPath: ?string; metrics: ?map<double>; bootstrapFilePath: ?string""",
    "HoodieCompactionStrategy": """
        compactorClassName: ?string; strategyParams: ?map<string>; version: int|null = 1""",
    "HoodieIndexCommitMetadata": """
        version: int|null = 1; operationType: ?string;
        indexPartitionInfos: ?array<HoodieIndexPartitionInfo>""",
    "HoodieIndexPartitionInfo": """
        version: int|null = 1; metadataPartitionPath: ?string; indexUptoInstant: ?string""",
    # commits of layout 2
    "commit/HoodieCommitMetadata": """
        partitionToWriteStats: ?map<array<commit/HoodieWriteStat>>; compacted: ?boolean;
        extraMetadata: ?map<string>; version: int|null = 1; operationType: ?string""",
    "commit/HoodieReplaceCommitMetadata": """
        partitionToWriteStats: ?map<array<commit/HoodieWriteStat>>; compacted: ?boolean;
        extraMetadata: ?map<string>; version: int|null = 1; operationType: ?string;
        partitionToReplaceFileIds: ?map<array<string>>""",
    "commit/HoodieWriteStat": """
        fileId: ?string; path: ?string; prevCommit: ?string; numWrites: ?long; numDeletes: ?long;
        numUpdateWrites: ?long; totalWriteBytes: ?long; totalWriteErrors: ?long; partitionPath: ?string;
        totalLogRecords: ?long; totalLogFiles: ?long; totalUpdatedRecordsCompacted: ?long;
        numInserts: ?long; totalLogBlocks: ?long; totalCorruptLogBlock: ?long; totalRollbackBlocks: ?long;
        fileSizeInBytes: ?long; logVersion: ?int; logOffset: ?long; baseFile: ?string;
        logFiles: ?array<string>; cdcStats: ?map<long>; prevBaseFile: ?string; minEventTime: ?long;
        maxEventTime: ?long; runtimeStats: ?commit/HoodieRuntimeStats; totalLogFilesCompacted: ?long;
        totalLogReadTimeMs: ?long; totalLogSizeCompacted: ?long; tempPath: ?string; numUpdates: ?long""",
    "commit/HoodieRuntimeStats": "totalScanTime: ?long; totalCreateTime: ?long; totalUpsertTime: ?long",
    # the archive of layout 2
    "HoodieLSMTimelineInstant": """
        instantTime: ?string; completionTime: ?string; action: ?string; metadata: ?bytes; plan: ?bytes;
        version: int = 1""",
}

AVRO_FAILURES: Final = (
    fastavro.schema.SchemaParseException,
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
)
"""The exceptions that fastavro raises for bytes that are not Avro or have another schema."""

_COMPLEX: Final = ("record", "error", "array", "map", "fixed", "enum")
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "double", "bytes"})
_JAVA_STRING = {"avro.java.string": "String"}

_MAGIC: Final = b"Obj\x01"
_HEADER: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        ],
    }
)
_BLOCK: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Block",
        "fields": [{"name": "count", "type": "long"}, {"name": "content", "type": "bytes"}],
    }
)
_MOST_REMEMBERED_BYTES: Final = 1 << 16
"""The maximum size of a schema text whose schema is remembered: Hudi's longest one has about 10 KiB."""


def record_schema(name: str) -> dict[str, Any]:
    """Return the Avro schema of a record of Hudi. Nested records are defined at their first use.

    Args:
        name: Hudi's name of the record, with ``commit/`` in front for the form in commits of layout 2.

    """
    return _record(name, set())


def encode_container(name: str, record: Mapping[str, Any]) -> bytes:
    """Return an Avro container with one record. Equal records give equal bytes.

    Args:
        name: The name of the record, as for :func:`record_schema`.
        record: The Avro value of the record.

    """
    schema = _parsed(name)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, record)
    marker = hashlib.md5(body.getvalue(), usedforsecurity=False).digest()
    container = io.BytesIO()
    fastavro.writer(container, schema, [record], codec="null", sync_marker=marker)
    return container.getvalue()


def encoded_again(content: bytes, record: Mapping[str, Any]) -> bytes:
    """Return an Avro container with another record of the schema that the container ``content`` has.

    The container must be one that :func:`decode_container` accepts.
    """
    schema = fastavro.reader(io.BytesIO(content)).writer_schema
    container = io.BytesIO()
    marker = hashlib.md5(content, usedforsecurity=False).digest()
    fastavro.writer(container, schema, [record], codec="null", sync_marker=marker)
    return container.getvalue()


def decode_container(content: bytes, *, place: str) -> dict[str, Any]:
    """Return the first record of an Avro container.

    The record is read with the writer's schema, which supports files of every Hudi version.

    Args:
        content: The bytes of the container.
        place: The location of the file for error messages.

    Raises:
        CorruptTableError: If the content is not an uncompressed Avro container with a record.

    """
    try:
        source = io.BytesIO(content)
        header: Any = fastavro.schemaless_reader(source, _HEADER, None)
        if header["magic"] != _MAGIC:
            raise ValueError("it does not begin as Avro files do")
        codec = header["meta"].get("avro.codec", b"null").decode()
        if codec != "null":
            # Hudi does not compress these files. A few compressed bytes could expand to any size.
            raise CorruptTableError(
                "{place}: an Avro file in codec {codec!r}; restore it from a copy", place=place, codec=codec
            )
        schema = _schema_of_writer(header["meta"]["avro.schema"])
        record = _first_record(source, schema)
    except AVRO_FAILURES as error:
        raise CorruptTableError(
            "{place}: not an Avro file ({reason})", place=place, reason=message_of(error)
        ) from error
    if not isinstance(record, dict):
        raise CorruptTableError("{place}: an Avro file without a record", place=place)
    return record


def _first_record(source: io.BytesIO, schema: Any) -> Any:
    """Return the first record of a container whose header has been read, or None if it has no record."""
    while source.tell() < len(source.getbuffer()):
        block: Any = fastavro.schemaless_reader(source, _BLOCK, None)
        if block["count"] > 0:
            return fastavro.schemaless_reader(io.BytesIO(block["content"]), schema, None)
        source.seek(16, io.SEEK_CUR)
    return None


def _schema_of_writer(text: bytes) -> Any:
    """Return the parsed schema of an untrusted container. The same few schemas come again and again."""
    return _remembered_schema(text) if len(text) <= _MOST_REMEMBERED_BYTES else _checked_schema(text)


def _checked_schema(text: bytes) -> Any:
    document = parsed_json(text)
    check_bounded(document)
    return fastavro.parse_schema(document)


_remembered_schema = lru_cache(maxsize=64)(_checked_schema)


def check_bounded(schema: Any) -> None:
    """Raise ValueError if reading values of an untrusted schema could overflow the stack or the memory.

    The Avro reader is written in C. A record inside itself overflows its stack, and an array whose items take
    no bytes can claim any number of items.
    """
    _least_bytes(schema, within=(), known={})


def _least_bytes(schema: Any, *, within: tuple[str, ...], known: dict[str, int]) -> int:
    """Return the minimum number of bytes of a value of the schema, and add named records to ``known``.

    Raise ValueError if the schema is nested too deeply, or has a type that :func:`check_bounded` forbids.

    Args:
        schema: The schema, or a part of it.
        within: The names of the records around this part.
        known: The minimum number of bytes by the name of the record.

    """
    if len(within) > MAX_DEPTH:
        raise ValueError(f"its schema has more than {MAX_DEPTH} levels")
    least_bytes = partial(_least_bytes, within=(*within, ""), known=known)
    match schema:
        case list():
            least = min((1, *(1 + least_bytes(branch) for branch in schema)))
        case {"type": "record" | "error", "fields": list(fields)}:
            name = str(schema.get("name")).rpartition(".")[2]
            inner = partial(_least_bytes, within=(*within, name), known=known)
            least = sum(inner(field["type"]) for field in fields)
            known[name] = min(least, known.get(name, least))
        case {"type": "array", "items": items}:
            if least_bytes(items) == 0:
                raise ValueError("its schema has an array of items without bytes")
            least = 1
        case {"type": "map", "values": values}:
            least = min(1, 1 + least_bytes(values))
        case {"type": "fixed", "size": int(size)} if size > 0:
            least = size
        case {"type": "enum", "symbols": list()}:
            least = 1
        case {"type": inner} if inner not in _COMPLEX:
            least = least_bytes(inner)
        case str() if (name := schema.rpartition(".")[2]) not in within:
            least = 0 if schema == "null" else known.get(name, 1)
        case _:
            raise ValueError(f"its schema has {schema!r:.60}, which Hudi does not use")
    return least


@cache
def _parsed(name: str) -> Any:
    return fastavro.parse_schema(record_schema(name))


def _record(name: str, defined: set[str]) -> dict[str, Any]:
    defined.add(name)
    return {
        "type": "record",
        "name": name.rpartition("/")[2],
        "namespace": NAMESPACE,
        "fields": [_field(field, defined) for field in _statements(_RECORDS[name])],
    }


def _statements(notation: str) -> Iterator[str]:
    return (" ".join(statement.split()) for statement in notation.split(";"))


def _field(statement: str, defined: set[str]) -> dict[str, Any]:
    name, _, rest = statement.partition(": ")
    notation, has_default, default = rest.partition(" = ")
    if notation.startswith("?"):
        return {"name": name, "type": ["null", _type(notation[1:], defined)], "default": None}
    field = {"name": name, "type": _type(notation, defined)}
    if has_default:
        field["default"] = json.loads(default)
    return field


def _type(notation: str, defined: set[str]) -> Any:
    if notation.endswith(">"):
        kind, _, inner = notation[:-1].partition("<")
        if kind == "array":
            return {"type": "array", "items": _type(inner, defined)}
        if kind == "map":
            return {"type": "map", "values": _type(inner, defined), **_JAVA_STRING}
    if "|" in notation:
        return [_type(branch, defined) for branch in notation.split("|", 1)]
    if notation == "string":
        return {"type": "string", **_JAVA_STRING}
    if notation in _PRIMITIVES:
        return notation
    known = f"{NAMESPACE}.{notation.rpartition('/')[2]}"
    return known if notation in defined else _record(notation, defined)


def checked_text(value: Any) -> str:
    """Return a value that is a string, or raise TypeError, which happens only with an untrusted schema."""
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, not a {type(value).__name__}")
    return value


def checked_texts(values: Iterable[Any] | None) -> tuple[str, ...]:
    """Return the strings of a list, or an empty tuple for None, as :func:`checked_text` does."""
    return tuple(map(checked_text, values or ()))


class AvroRecord(ABC):
    """A record of a timeline file.

    ``RECORD`` is Hudi's name of the record. ``decode`` reads files of any Hudi version.
    """

    __slots__ = ()
    RECORD: ClassVar[str]

    @abstractmethod
    def to_avro(self) -> dict[str, Any]:
        """Return the Avro value of the record."""

    @classmethod
    @abstractmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the record of an Avro value. Fields that old versions lack get defaults."""

    def encode(self) -> bytes:
        """Return the content of the state file. Equal records give equal bytes."""
        return encode_container(self.RECORD, self.to_avro())

    @classmethod
    def decode(cls, content: bytes, *, place: str) -> Self:
        """Return the record of a state file.

        Raises:
            CorruptTableError: If the content is not such a record. The message starts with ``place``.

        """
        value = decode_container(content, place=place)
        try:
            return cls.from_avro(value)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptTableError(
                "{place}: not a {record} ({reason})",
                place=place,
                record=cls.RECORD,
                reason=quoted_library_text(repr(error), kind=type(error).__name__),
            ) from error
