"""Iceberg's manifests: Avro files with an entry for each base file of a snapshot.

Our manifests have one Avro block, and their header lists the paths and lengths of the entries. So the paths
are read without decoding statistics, and an entry that stays is copied byte by byte. Other readers ignore the
list in the header. Sources: the section Manifests of Iceberg's specification, and the section Object
Container Files of Avro's.

This module needs pyiceberg. Only ``runtime.publish.iceberg`` imports it.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

import fastavro
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from parquetry.runtime.publish.iceberg_types import metrics, types_by_path
from parquetry.runtime.publish.model import PartitionValues, PublishedFile

FORMAT_VERSION: Final = 2
UNASSIGNED: Final = -1
"""The sequence number of a manifest until its snapshot's list of manifests is written."""

_LIST_KEY: Final = "parquetry.entries"
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_LIVE, _DELETED = "+", "-"
_CONTINUES, _LOW_BITS = 0x80, 0x7F
_UNION_OF_LONG: Final = 2
"""The byte by which Avro marks the second type of a union, as zigzag."""


class NotOurManifestError(ValueError):
    """A manifest that another program wrote."""


class EncodedEntry(NamedTuple):
    """An entry of a manifest in Avro. ``path`` is relative to the table, in the folder of its partition."""

    path: str
    is_live: bool
    content: bytes


def paths_in(content: bytes) -> frozenset[str]:
    """Return the paths of the live files in a manifest, relative to the table.

    Raises:
        NotOurManifestError: If another program wrote the manifest.
    """
    listed, _ = _listed(content)
    return frozenset(path for _, is_live, path in listed if is_live)


def live_counts(manifest: ManifestFile) -> tuple[int, int]:
    """Return the numbers of the live files in a manifest and of their rows."""
    return (
        (manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
        (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
    )


def partition_types(metadata: TableMetadata) -> list[PrimitiveType]:
    """Return the types of the partition fields. All are primitive."""
    fields = metadata.spec().partition_type(metadata.schema()).fields
    return [field.field_type for field in fields if isinstance(field.field_type, PrimitiveType)]


def may_hold(
    manifest: ManifestFile, kinds: Sequence[PrimitiveType], partitions: Iterable[PartitionValues]
) -> bool:
    """Return whether the bounds of a manifest include one of the partitions.

    Args:
        manifest: The manifest.
        kinds: The types of the partition fields.
        partitions: The values of the fields in each partition, or none if they are not known.
    """
    bounds = [
        (one.contains_null, _value(kind, one.lower_bound), _value(kind, one.upper_bound))
        for kind, one in zip(kinds, manifest.partitions or [], strict=True)
    ]
    return any(
        all(
            has_null if value is None else low is not None and low <= value <= high
            for value, (has_null, low, high) in zip(values, bounds, strict=False)
        )
        for values in partitions
    )


class ManifestWriter:
    """Writes the manifests of one snapshot.

    Args:
        metadata: The metadata with the schema and the partition spec of the snapshot.
        snapshot_id: The id of the snapshot.
        uri: The root of the table.

    """

    def __init__(self, metadata: TableMetadata, snapshot_id: int, uri: str) -> None:
        self._schema: Schema = metadata.schema()
        self._spec: PartitionSpec = metadata.spec()
        self._known = types_by_path(self._schema)
        self._kinds = partition_types(metadata)
        self._id = snapshot_id
        self._uri = uri
        file_type = data_file_with_partition(self._spec.partition_type(self._schema), FORMAT_VERSION)
        entry = manifest_entry_schema_with_data_file(FORMAT_VERSION, file_type)
        plain = AvroSchemaConversion().iceberg_to_avro(entry, schema_name="manifest_entry")
        self._text = json.dumps(plain)
        self._avro = fastavro.parse_schema(json.loads(self._text))

    def added(self, files: Sequence[PublishedFile], place: str) -> tuple[bytes, ManifestFile]:
        """Return a manifest with entries for added files, and its description.

        Args:
            files: The files.
            place: The location of the manifest.

        Raises:
            UnknownToIcebergError: If a file has a column in a type that readers do not convert.

        """
        entries = [EncodedEntry(file.path, is_live=True, content=self._encoded(file)) for file in files]
        summaries = construct_partition_summaries(
            self._spec, self._schema, [Record(*file.partition) for file in files]
        )
        counts = _counts(added=(len(files), sum(file.statistics.rows for file in files)))
        return self._manifest(entries, counts, summaries, UNASSIGNED, place)

    def rewritten(
        self, sources: Sequence[tuple[ManifestFile, bytes]], gone: frozenset[str], place: str
    ) -> tuple[bytes, ManifestFile] | None:
        """Return a manifest with the live entries of others, and its description; None if there are none.

        The entries of the files in ``gone`` are marked as deleted.
        """
        entries: list[EncodedEntry] = []
        kept_files = kept_rows = gone_files = gone_rows = 0
        for manifest, content in sources:
            files, rows = live_counts(manifest)
            kept_files, kept_rows = kept_files + files, kept_rows + rows
            for entry in _entries(content):
                if not entry.is_live:
                    continue
                is_gone = entry.path in gone
                if is_gone:
                    gone_files, gone_rows = gone_files + 1, gone_rows + self._rows_of(entry)
                entries.append(self._restated(entry, manifest, is_gone=is_gone))
        if not entries:
            return None
        counts = _counts(
            existing=(kept_files - gone_files, kept_rows - gone_rows), deleted=(gone_files, gone_rows)
        )
        found = zip(*(manifest.partitions or [] for manifest, _ in sources), strict=True)
        summaries = [_joined(kind, fields) for kind, fields in zip(self._kinds, found, strict=True)]
        oldest = min(manifest.min_sequence_number for manifest, _ in sources)
        return self._manifest(entries, counts, summaries, oldest, place)

    def _manifest(
        self,
        entries: Sequence[EncodedEntry],
        counts: Mapping[str, Any],
        summaries: Sequence[PartitionFieldSummary],
        oldest: int,
        place: str,
    ) -> tuple[bytes, ManifestFile]:
        content = self._container(entries)
        manifest = ManifestFile.from_args(
            manifest_path=place,
            manifest_length=len(content),
            partition_spec_id=self._spec.spec_id,
            content=ManifestContent.DATA,
            sequence_number=UNASSIGNED,
            min_sequence_number=oldest,
            added_snapshot_id=self._id,
            partitions=list(summaries),
            key_metadata=None,
            **counts,
        )
        return content, manifest

    def _container(self, entries: Sequence[EncodedEntry]) -> bytes:
        listed = "\0".join(
            f"{len(entry.content)}{_LIVE if entry.is_live else _DELETED}{entry.path}" for entry in entries
        )
        header = {
            "avro.schema": self._text,
            "avro.codec": "deflate",
            "schema": self._schema.model_dump_json(),
            "partition-spec": json.dumps([field.model_dump(by_alias=True) for field in self._spec.fields]),
            "partition-spec-id": str(self._spec.spec_id),
            "format-version": str(FORMAT_VERSION),
            "content": "data",
            _LIST_KEY: base64.b64encode(zlib.compress(listed.encode(), 1)).decode(),
        }
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        block = packer.compress(b"".join(entry.content for entry in entries)) + packer.flush()
        sync = os.urandom(_SYNC_BYTES)
        pairs = b"".join(_text(name) + _text(value) for name, value in header.items())
        head = _MAGIC + _long(len(header)) + pairs + _long(0) + sync
        return head + _long(len(entries)) + _long(len(block)) + block + sync

    def _encoded(self, file: PublishedFile) -> bytes:
        found = metrics(file, self._known)
        names = (field.name for field in self._spec.fields)
        data: dict[str, Any] = {
            "content": 0,
            "file_path": f"{self._uri}/{file.path}",
            "file_format": "PARQUET",
            "partition": dict(zip(names, file.partition, strict=True)),
            "record_count": file.statistics.rows,
            "file_size_in_bytes": file.size_bytes,
            **{name: _pairs(values) for name, values in found.items()},
        }
        entry = {"status": ManifestEntryStatus.ADDED.value, "snapshot_id": self._id, "data_file": data}
        target = BytesIO()
        fastavro.schemaless_writer(target, self._avro, entry)
        return target.getvalue()

    def _restated(self, entry: EncodedEntry, manifest: ManifestFile, *, is_gone: bool) -> EncodedEntry:
        """Return the entry with what it inherits from its manifest, as kept or deleted by this snapshot."""
        _, position = _read_long(entry.content, 0)
        inherited = []
        for default in (manifest.added_snapshot_id, manifest.sequence_number, manifest.sequence_number):
            value, has_value = default, entry.content[position] == _UNION_OF_LONG
            position += 1
            if has_value:
                value, position = _read_long(entry.content, position)
            if value is None:
                raise NotOurManifestError
            inherited.append(value)
        status = ManifestEntryStatus.DELETED if is_gone else ManifestEntryStatus.EXISTING
        first = self._id if is_gone else inherited[0]
        fields = b"".join(b"\x02" + _long(value) for value in (first, *inherited[1:]))
        content = _long(status.value) + fields + entry.content[position:]
        return EncodedEntry(entry.path, is_live=not is_gone, content=content)

    def _rows_of(self, entry: EncodedEntry) -> int:
        decoded: Any = fastavro.schemaless_reader(BytesIO(entry.content), self._avro, None)
        return int(decoded["data_file"]["record_count"])


def _counts(**pairs: tuple[int, int]) -> Mapping[str, Any]:
    """Return the fields of a ManifestFile for the files and rows that were added, kept and deleted."""
    return {
        f"{kind}_{unit}_count": count
        for kind in ("added", "existing", "deleted")
        for unit, count in zip(("files", "rows"), pairs.get(kind, (0, 0)), strict=True)
    }


def _joined(kind: PrimitiveType, summaries: Sequence[PartitionFieldSummary]) -> PartitionFieldSummary:
    """Return the summary of a partition field for several manifests together."""
    lower = [from_bytes(kind, one.lower_bound) for one in summaries if one.lower_bound is not None]
    upper = [from_bytes(kind, one.upper_bound) for one in summaries if one.upper_bound is not None]
    return PartitionFieldSummary.from_args(
        contains_null=any(one.contains_null for one in summaries),
        contains_nan=False,
        lower_bound=to_bytes(kind, min(lower)) if lower else None,
        upper_bound=to_bytes(kind, max(upper)) if upper else None,
    )


def _value(kind: PrimitiveType, bound: bytes | None) -> Any:
    return None if bound is None else from_bytes(kind, bound)


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _entries(content: bytes) -> Iterator[EncodedEntry]:
    listed, position = _listed(content)
    count, position = _read_long(content, position)
    length, position = _read_long(content, position)
    block = zlib.decompress(content[position : position + length], wbits=-zlib.MAX_WBITS)
    if count != len(listed) or sum(part[0] for part in listed) != len(block):
        raise NotOurManifestError
    start = 0
    for size, is_live, path in listed:
        yield EncodedEntry(path, is_live=is_live, content=block[start : start + size])
        start += size


def _listed(content: bytes) -> tuple[list[tuple[int, bool, str]], int]:
    """Return the length, state and path of each entry of a manifest, and the position of its block."""
    if not content.startswith(_MAGIC):
        raise NotOurManifestError
    try:
        position = len(_MAGIC)
        count, position = _read_long(content, position)
        found: dict[bytes, bytes] = {}
        for _ in range(count):
            name, position = _read_text(content, position)
            found[name], position = _read_text(content, position)
        text = zlib.decompress(base64.b64decode(found[_LIST_KEY.encode()])).decode()
        # The zero that ends the header's map is one byte.
        return [_part(part) for part in text.split("\0")], position + 1 + _SYNC_BYTES
    except (IndexError, KeyError, ValueError, zlib.error) as error:
        raise NotOurManifestError from error


def _part(text: str) -> tuple[int, bool, str]:
    digits = 0
    while text[digits].isdigit():
        digits += 1
    return int(text[:digits]), text[digits] == _LIVE, text[digits + 1 :]


def _long(value: int) -> bytes:
    """Return a number in Avro's variable length."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > _LOW_BITS:
        encoded.append(rest & _LOW_BITS | _CONTINUES)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_long(content: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position behind it."""
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & _LOW_BITS) << shift
        if byte < _CONTINUES:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _long(len(encoded)) + encoded


def _read_text(content: bytes, position: int) -> tuple[bytes, int]:
    length, position = _read_long(content, position)
    if length < 0 or position + length > len(content):
        raise NotOurManifestError
    return content[position : position + length], position + length
