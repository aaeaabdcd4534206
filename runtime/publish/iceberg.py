"""Iceberg's metadata in ``metadata``, over the files of a Hudi table.

Each published state is one snapshot. Manifests are written in parts of bounded size, so that a commit writes
those parts only whose files it removes, and one for the files that it adds. The metadata that names them is
replaced by a catalog (:mod:`parquetry.runtime.publish.iceberg_catalogs`). Source: Iceberg's specification,
format version 2.

This module needs pyiceberg. It is imported inside functions.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.manifest import ManifestFile, write_manifest_list
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import IdentityTransform

from parquetry.message import Message, Text, Value
from parquetry.runtime.errors import ForeignTableError, NotFoundError, UnsupportedTableError
from parquetry.runtime.publish.iceberg_catalogs import (
    EMPTY,
    OLD_VERSIONS,
    IcebergCatalogTable,
    MetadataCatalog,
    MetadataFolder,
    NewestMetadata,
    is_in_folder,
)
from parquetry.runtime.publish.iceberg_io import STORE_KEY, StoreIO
from parquetry.runtime.publish.iceberg_manifests import (
    FORMAT_VERSION,
    ManifestWriter,
    NotOurManifestError,
    live_counts,
    may_hold,
    partition_types,
    paths_in,
)
from parquetry.runtime.publish.iceberg_types import (
    NameTree,
    UnknownToIcebergError,
    iceberg_schema,
    name_mapping,
    names_of_columns,
    names_of_file,
    names_of_mapping,
)
from parquetry.runtime.publish.model import (
    INSTANT_KEY,
    LEFTOVER_MS,
    METADATA_FOLDER,
    AddedFiles,
    PartitionValues,
    Published,
    PublishedFile,
    Snapshot,
    is_too_slow,
    recorded_state,
    state_properties,
)
from parquetry.runtime.spec.table_spec import IcebergFormat
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import batches, map_each
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.table.applied import applied_history

TABLE_KEY: Final = "parquetry.table"
"""The property of published Iceberg tables. Its value is the id of the Hudi table, or empty."""

FILES_PER_MANIFEST: Final = 1000
_SMALL_MANIFESTS: Final = 32
_SMALL: Final = FILES_PER_MANIFEST // 4
_MAPPING_KEY: Final = "schema.name-mapping.default"
_TAG: Final = "savepoint_"
_OWN_FILE: Final = re.compile(r"snap-\d+-0-[0-9a-f]{32}\.avro|[0-9a-f]{32}-m\d+\.avro")
"""The names of our manifests and lists of manifests. Other programs write a UUID with dashes."""

_CODEC: Final = "deflate"
_NO_COLLECTION: Final = ("gc.enabled", "false")
"""Iceberg for Java then refuses to delete files: expire_snapshots, remove_orphan_files, DROP with PURGE."""

_PROPERTIES: Final = {
    **dict([_NO_COLLECTION]),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(OLD_VERSIONS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _State(Published):
    """The state of the newest metadata. ``parts`` are the paths in the manifests read so far, by location."""

    newest: NewestMetadata = field(repr=False)
    manifests: Sequence[ManifestFile] = field(repr=False)
    parts: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @property
    def metadata(self) -> TableMetadata:
        return self.newest.metadata


@dataclass(slots=True, kw_only=True)
class _Added:
    """Totals over the files that a snapshot adds, and the names of their columns."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    names: NameTree = field(default_factory=dict)

    def count(self, file: PublishedFile) -> None:
        self.files += 1
        self.rows += file.statistics.rows
        self.size_bytes += file.size_bytes
        names_of_file(file, self.names)


class IcebergMetadata:
    """The published format ``iceberg`` of the table in a store, as its spec declares it."""

    name: Final = "iceberg"

    def __init__(self, store: ObjectStore, declared: IcebergFormat) -> None:
        self._store = store
        self._io = StoreIO({STORE_KEY: store})
        self._catalog: MetadataCatalog = MetadataFolder(store)
        if declared.catalog is not None and declared.name is not None:
            self._catalog = IcebergCatalogTable(store, declared.name, declared.catalog)

    def published(self) -> _State | None:
        """Return the state of the newest metadata, or None if there is none."""
        newest = self._catalog.newest()
        if newest is None:
            return None
        current = self._own_snapshot(newest.metadata)
        return _State(
            **recorded_state(_summary(current)), newest=newest, manifests=current.manifests(self._io)
        )

    def paths(self, state: Published, folders: Mapping[str, PartitionValues] | None = None) -> frozenset[str]:
        """Return the paths of the files that the state names, in these folders or in all.

        Manifests whose bounds exclude the folders are not read.
        """
        if not isinstance(state, _State):
            raise TypeError(state)
        kinds = partition_types(state.metadata)
        unread = [
            one.manifest_path
            for one in state.manifests
            if one.manifest_path not in state.parts
            and live_counts(one)[0]
            and (folders is None or may_hold(one, kinds, folders.values()))
        ]
        state.parts.update(zip(unread, map_each(unread, self._paths_in), strict=True))
        found = (path for part in state.parts.values() for path in part)
        return frozenset(path for path in found if folders is None or path.rpartition("/")[0] in folders)

    def publish(
        self,
        snapshot: Snapshot,
        added: AddedFiles,
        removed: Sequence[str],
        *,
        before: Published | None,
    ) -> bool:
        """Write one version of the metadata with one more snapshot; return False if another came first."""
        state = before if isinstance(before, _State) else None
        try:
            return self._publish(snapshot, added, removed, state)
        except UnknownToIcebergError as error:
            column = Message("the column {column}", column=str(error))
            raise self._unsupported(
                column, "its type has changed", "give the column another name, or "
            ) from error

    def _publish(
        self, snapshot: Snapshot, added: Iterable[PublishedFile], removed: Sequence[str], state: _State | None
    ) -> bool:
        began_ms = self._store.now_ms()
        updates = self._new_table(snapshot) if state is None else self._schema_updates(snapshot, state)
        before = EMPTY if state is None else state.metadata
        metadata = update_table_metadata(before, updates, enforce_validation=state is None)
        number = metadata.new_snapshot_id()
        total = _Added()
        manifests = self._manifests(
            ManifestWriter(metadata, number, self._store.uri), added, total, removed, state
        )
        names = [total.names, names_of_mapping(metadata.properties.get(_MAPPING_KEY, "[]"))]
        if state is None:
            names += [names_of_columns(record.spec.columns) for record in applied_history(self._store)]
        mapping = name_mapping(metadata.schema(), names)
        if mapping != metadata.properties.get(_MAPPING_KEY):
            updates += (SetPropertiesUpdate(updates={_MAPPING_KEY: mapping}),)
        nonce = uuid.uuid4().hex
        place = f"{self._location}/snap-{number}-0-{nonce}.avro"
        parent = None if state is None else state.metadata.current_snapshot_id
        sequence = metadata.next_sequence_number()
        with write_manifest_list(
            FORMAT_VERSION, self._io.new_output(place), number, parent, sequence, _CODEC
        ) as writer:
            writer.add_manifests(manifests)
        shown = IcebergSnapshot.model_validate(
            {
                "snapshot-id": number,
                "parent-snapshot-id": parent,
                "sequence-number": sequence,
                "timestamp-ms": max(metadata.last_updated_ms, self._store.now_ms()),
                "manifest-list": place,
                "summary": _new_summary(snapshot, total, len(removed), manifests),
                "schema-id": metadata.current_schema_id,
            }
        )
        known = {_summary(one).get(INSTANT_KEY): one.snapshot_id for one in (*metadata.snapshots, shown)}
        updates += (AddSnapshotUpdate(snapshot=shown), _reference(MAIN_BRANCH, "branch", number))
        updates += tuple(_tag_updates(metadata, snapshot.savepoints, known))
        if is_too_slow(self._store, began_ms):
            return False
        return self._catalog.commit(None if state is None else state.newest, updates, nonce=nonce)

    def repair(self, before: Published) -> None:
        """Put the version hint if a killed process left it behind."""
        if isinstance(before, _State):
            self._catalog.repair(before.newest)

    def expire(self, earliest: str, savepoints: Sequence[str]) -> None:
        """Forget the snapshots before the instant ``earliest``, without those of savepoints and the newest.

        Afterwards the manifests that only they have are deleted, and old ones that no snapshot ever had.
        """
        newest = self._catalog.newest()
        if newest is None:
            return
        current = self._own_snapshot(newest.metadata)
        snapshots = newest.metadata.snapshots
        known = {_summary(one).get(INSTANT_KEY): one.snapshot_id for one in snapshots}
        kept = {current.snapshot_id, *(known.get(instant) for instant in savepoints)}
        old = [
            one
            for one in snapshots
            if one.snapshot_id not in kept and _summary(one).get(INSTANT_KEY, earliest) < earliest
        ]
        updates = tuple(_tag_updates(newest.metadata, savepoints, known))
        if old:
            removed = [one.snapshot_id for one in old]
            updates += (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": removed}),)
        if updates and not self._catalog.commit(newest, updates):
            return
        unneeded = {file for one in old for file in self._files_of(one)}.union(self._leftovers())
        if unneeded:
            needed = {file for one in snapshots if one not in old for file in self._files_of(one)}
            self._store.delete_all(sorted(unneeded - needed))

    def _leftovers(self) -> Iterator[str]:
        """Yield our own manifests and lists of manifests that are old, and unfinished files."""
        latest_ms = self._store.now_ms() - LEFTOVER_MS
        for info in self._store.list(METADATA_FOLDER):
            unfinished = finished_name(info.path)
            name = info.path.rpartition("/")[2] if unfinished is None else unfinished
            is_own = _OWN_FILE.fullmatch(name) or (unfinished is not None and is_in_folder(name))
            if is_own and info.modified_ms < latest_ms:
                yield info.path

    @property
    def _location(self) -> str:
        return f"{self._store.uri}/{METADATA_FOLDER}"

    def _own_snapshot(self, metadata: TableMetadata) -> IcebergSnapshot:
        """Return the current snapshot. Raise ForeignTableError if somebody else has written."""
        current = metadata.current_snapshot()
        if (
            current is None
            or TABLE_KEY not in metadata.properties
            or metadata.location != self._store.uri
            or _NO_COLLECTION not in metadata.properties.items()
            or len(metadata.partition_specs) != 1
            or any(INSTANT_KEY not in _summary(one) for one in metadata.snapshots)
        ):
            raise self._foreign()
        return current

    def _foreign(self) -> ForeignTableError:
        return ForeignTableError(
            "{table}: another program has written to its Iceberg metadata ({place}), so it is not published "
            "any more; the Hudi table is unharmed. Stop that program; {remedy}",
            table=self._store.uri,
            place=self._catalog.place,
            remedy=self._catalog.remedy,
        )

    def _paths_in(self, place: str) -> frozenset[str]:
        try:
            return paths_in(self._content(place))
        except NotOurManifestError as error:
            raise self._foreign() from error

    def _content(self, place: str) -> bytes:
        return self._store.read(self._io.path(place), most_bytes=MOST_BYTES)

    def _check_file(self, file: PublishedFile) -> None:
        """Raise UnsupportedTableError if Iceberg's readers cannot read the file."""
        if file.statistics.encrypted:
            raise self._unsupported(Value.file(file.path), "it is encrypted")
        if "?" in file.path or "#" in file.path or not _is_utf8(file.path):
            raise self._unsupported(
                Value.file(file.path),
                "its name contains ? or #, or is not UTF-8",
                "create the table with url_encode: true (the default), or ",
            )

    def _unsupported(self, what: Text | Value, reason: str, remedy: str = "") -> UnsupportedTableError:
        return UnsupportedTableError(
            "{table}: Iceberg's readers cannot read {what}: {reason}; {remedy}remove publish.iceberg from "
            "the table",
            table=self._store.uri,
            what=what,
            reason=reason,
            remedy=remedy,
        )

    def _new_table(self, snapshot: Snapshot) -> tuple[TableUpdate, ...]:
        """Return the updates that create the table, with its one partition spec."""
        schema = iceberg_schema(snapshot.columns, None, 0)
        return (
            AssignUUIDUpdate(uuid=uuid.uuid4()),
            UpgradeFormatVersionUpdate.model_validate({"format-version": FORMAT_VERSION}),
            AddSchemaUpdate.model_validate({"schema": schema}),
            SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
            AddPartitionSpecUpdate(spec=_partition_spec(schema, snapshot.partition_by)),
            SetDefaultSpecUpdate.model_validate({"spec-id": -1}),
            AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}),
            SetDefaultSortOrderUpdate.model_validate({"sort-order-id": -1}),
            SetLocationUpdate(location=self._store.uri),
            SetPropertiesUpdate(updates={TABLE_KEY: snapshot.table_id or "", **_PROPERTIES}),
        )

    def _schema_updates(self, snapshot: Snapshot, state: _State) -> tuple[TableUpdate, ...]:
        """Return the updates after which the table has the columns of the snapshot."""
        metadata, former = state.metadata, state.metadata.schema()
        schema = iceberg_schema(snapshot.columns, former, metadata.last_column_id)
        names = tuple(schema.find_column_name(part.source_id) for part in metadata.spec().fields)
        if names != snapshot.partition_by:
            raise UnsupportedTableError(
                "{table}: its Iceberg metadata ({place}) has the partition columns {found}, and the table "
                "has {expected}; {remedy}",
                table=self._store.uri,
                place=self._catalog.place,
                found=names,
                expected=snapshot.partition_by,
                remedy=self._catalog.remedy,
            )
        if schema.as_struct() == former.as_struct():
            return ()
        newest = max(one.schema_id for one in metadata.schemas)
        schema = Schema(*schema.fields, schema_id=newest + 1)
        return (
            AddSchemaUpdate.model_validate({"schema": schema}),
            SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
        )

    def _manifests(
        self,
        writer: ManifestWriter,
        added: Iterable[PublishedFile],
        total: _Added,
        removed: Sequence[str],
        state: _State | None,
    ) -> list[ManifestFile]:
        """Write the manifests that change, one after the other; return all of the snapshot."""
        prefix = f"{self._location}/{uuid.uuid4().hex}-m"
        written: list[ManifestFile] = []

        def place() -> str:
            return f"{prefix}{len(written)}.avro"

        def write(made: tuple[bytes, ManifestFile]) -> None:
            content, manifest = made
            self._store.put(self._io.path(manifest.manifest_path), content)
            written.append(manifest)

        for files in batches(added, FILES_PER_MANIFEST):
            for file in files:
                self._check_file(file)
                total.count(file)
            write(writer.added(files, place()))
        gone = frozenset(removed)
        kept: list[ManifestFile] = []
        for group in _groups(() if state is None else state.manifests, state, gone):
            # A manifest without live files has reported its deletions.
            if isinstance(group, ManifestFile):
                kept.append(group)
            else:
                made = writer.rewritten(
                    [(one, self._content(one.manifest_path)) for one in group], gone, place()
                )
                if made is not None:
                    write(made)
        return kept + written

    def _files_of(self, snapshot: IcebergSnapshot) -> Iterator[str]:
        """Yield the paths of the metadata files of a snapshot."""
        yield self._io.path(snapshot.manifest_list)
        try:
            for manifest in snapshot.manifests(self._io):
                yield self._io.path(manifest.manifest_path)
        except NotFoundError:
            return


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _summary(snapshot: IcebergSnapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _partition_spec(schema: Schema, names: Sequence[str]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(name).field_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=IdentityTransform(),
                name=name,
            )
            for position, name in enumerate(names)
        )
    )


def _groups(
    manifests: Sequence[ManifestFile], state: _State | None, gone: frozenset[str]
) -> Iterator[ManifestFile | Sequence[ManifestFile]]:
    """Yield manifests that stay, and groups of manifests that are rewritten as one.

    Those are the ones with a removed file, each alone, and the small ones when they are many. A manifest
    without live files is left out.
    """
    live = [(one, live_counts(one)[0]) for one in manifests]
    small = [(one, files) for one, files in live if 0 < files <= _SMALL]
    merged = {one.manifest_path for one, _ in small} if len(small) >= _SMALL_MANIFESTS else set()
    group: list[ManifestFile] = []
    size = 0
    for one, files in live:
        if one.manifest_path in merged:
            if size + files > FILES_PER_MANIFEST:
                yield group
                group, size = [], 0
            group.append(one)
            size += files
        elif state is not None and not gone.isdisjoint(state.parts.get(one.manifest_path, ())):
            yield [one]
        elif files:
            yield one
    if group:
        yield group


def _new_summary(
    snapshot: Snapshot, added: _Added, removed: int, manifests: Iterable[ManifestFile]
) -> Summary:
    totals = [live_counts(manifest) for manifest in manifests]
    counts: dict[str, Any] = {
        "added-data-files": added.files,
        "added-records": added.rows,
        "added-files-size": added.size_bytes,
        "deleted-data-files": removed,
        "total-data-files": sum(files for files, _ in totals),
        "total-records": sum(rows for _, rows in totals),
    }
    operation = Operation.OVERWRITE
    if not removed:
        operation = Operation.APPEND
    elif snapshot.same_rows:
        operation = Operation.REPLACE
    return Summary(
        operation=operation,
        **{name: str(number) for name, number in counts.items()},
        **state_properties(snapshot),
    )


def _tag_updates(
    metadata: TableMetadata, savepoints: Iterable[str], known: Mapping[str | None, int]
) -> Iterator[TableUpdate]:
    """Yield the updates after which each savepoint whose state was published is a tag, and no other.

    ``known`` are the snapshots by instant.
    """
    wanted = set(savepoints)
    for name in metadata.refs:
        if name.startswith(_TAG) and name.removeprefix(_TAG) not in wanted:
            yield RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
    for instant in sorted(wanted & known.keys()):
        if f"{_TAG}{instant}" not in metadata.refs:
            yield _reference(f"{_TAG}{instant}", "tag", known[instant])


def _reference(name: str, kind: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": kind, "snapshot-id": snapshot_id})
