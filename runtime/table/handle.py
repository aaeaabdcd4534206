"""An open table: its store, its configuration and what was applied to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from parquetry.runtime.errors import NotFoundError, TableNotFoundError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.key_generator import KeyEncoding, KeyGenerator, key_encoding_of
from parquetry.runtime.spec.masking import failures_masked
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.admission_to_read import check_readable
from parquetry.runtime.table.applied import (
    AppliedRef,
    TableIdentity,
    check_faults,
    check_owner,
    fault_of,
    read_applied,
    read_identity,
    seal_of,
)
from parquetry.runtime.table.config import TIMEZONE_KEY, TableConfig
from parquetry.runtime.table.creation import finish_creation
from parquetry.runtime.table.key_encoding import detect_key_encoding
from parquetry.runtime.table.properties import PROPERTIES_PATH, read_table_properties, update_table_properties
from parquetry.runtime.table.schema import live_columns, reconcile, recorded_schema, schema_json
from parquetry.runtime.table.signing import RecordFault, RecordSignature
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Timezone

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table as it was when it was opened. ``spec`` and ``applied`` are None before the first apply.

    ``table_id`` and ``project`` are None for a table that parquetry neither made nor adopted;
    ``first_instant`` is that of the creation and None for a table that it did not make. ``owner`` is whose it
    has to be when it is changed, None for a table that was opened by its place. ``fault`` is why nobody is to
    act by the table's identity or applied record: who only reads goes on; ``seal`` is the record's signature.
    """

    store: ObjectStore
    config: TableConfig
    spec: TableSpec | None
    applied: AppliedRef | None
    table_id: str | None
    project: str | None
    first_instant: str | None = None
    owner: TableOwner | None = None
    fault: RecordFault | None = None
    seal: RecordSignature | None = None

    @property
    def name(self) -> str:
        """The name by which a project knows the table; its own before the first apply."""
        return self.config.name if self.spec is None else self.spec.name

    @property
    def paths_hold_values(self) -> bool:
        """Whether partition paths spell the partition columns' own values, not times formatted from them.

        The properties of a table with Hudi's custom generator do not say which fields it formats:
        only where parquetry made the table is it known that it formats none.
        """
        generator = self.config.key_generator
        if generator is KeyGenerator.CUSTOM:
            return self.first_instant is not None
        return generator not in (None, KeyGenerator.TIMESTAMP)

    def reopen(self) -> TableHandle:
        """The same table as it is now; ForeignTableError when it is not its owner's any more."""
        return open_table(self.store, owner=self.owner)

    def confirm_owner(self) -> None:
        """Return while the table is its owner's project's, for who holds the lock; else ForeignTableError.

        One request where it has an owner; CorruptTableError where its identity is not to be acted by.
        """
        if self.owner is not None:
            identity = read_identity(self.store)
            project = None if identity is None else identity.project
            check_owner(self.store.uri, self.owner, project=project, applied=None)
            check_faults(identity, None)

    def confirmed_config(self) -> TableConfig:
        """The configuration as it is now, for a writer that holds the table's lock.

        The time zone of a table that parquetry made is put back where it is missing: Hudi 0.15 drops it
        in CREATE TABLE over an existing table, and takes local time from then on.
        """
        raw = read_table_properties(self.store)
        if self.first_instant is not None and TIMEZONE_KEY not in raw:
            comment = f"{TIMEZONE_KEY} put back by parquetry"
            raw = update_table_properties(self.store, {TIMEZONE_KEY: str(Timezone.UTC)}, comment=comment)
        return TableConfig.from_properties(raw, place=self.store.uri)

    def timeline(self) -> Timeline:
        """The table's timeline as it is now."""
        return Timeline.load(self.store)

    def view(self, timeline: Timeline) -> FileSystemView:
        """The table's files under that timeline."""
        return FileSystemView(self.store, timeline, self.config)

    def effective_spec(self, timeline: Timeline) -> TableSpec:
        """The spec in force: the applied one with the live columns, else what the table says itself."""
        live = live_columns(self.store, timeline, self.config)
        if self.spec is not None:
            return self.spec.with_columns(reconcile(self.spec.columns, live))
        return TableSpec(
            name=self.config.name,
            columns=live,
            record_key=self.config.record_key,
            ordering=self.config.ordering,
            partition_by=self.config.partition_by,
            hive_style=self.config.hive_style,
            url_encode=self.config.url_encode,
        )

    def schema_json(self, timeline: Timeline, columns: Iterable[Column]) -> str:
        """The Avro schema that a commit with these columns carries, in the table's own names."""
        keys = {field.partition(".")[0] for field in self.config.record_key}
        return schema_json(self.config.name, columns, recorded_schema(timeline, self.config), keys=keys)

    def key_encoding(self, view: FileSystemView) -> KeyEncoding:
        """How record keys are spelled; one file is read where the key generator leaves it open."""
        known = key_encoding_of(self.config.key_generator, self.config.record_key)
        return known or detect_key_encoding(self.store, view, self.config.record_key)


def open_table(store: ObjectStore, *, owner: TableOwner | None = None) -> TableHandle:
    """The table in ``store``, for reading; a half-made one is finished first.

    ForeignTableError for a table that is not the ``owner``'s, TableNotFoundError when there is none,
    UnsupportedTableError for what is no copy-on-write table of version 6 with parquet files.
    """
    identity = read_identity(store)
    project = None if identity is None else identity.project
    if identity is not None:
        check_owner(store.uri, owner, project=project, applied=None)
    config = read_config(store, identity)
    applied = read_applied(store)
    check_owner(store.uri, owner, project=project, applied=None if applied is None else applied.ref)
    return TableHandle(
        store=store,
        config=config,
        spec=None if applied is None else applied.spec,
        applied=None if applied is None else applied.ref,
        table_id=None if identity is None else identity.table_id,
        project=project,
        first_instant=None if identity is None else identity.first_instant,
        owner=owner,
        fault=fault_of(identity, applied),
        seal=seal_of(store, identity, applied),
    )


def read_config(store: ObjectStore, identity: TableIdentity | None) -> TableConfig:
    """The table's configuration, checked for reading; with an identity a half-made table is finished.

    A table that parquetry made has its instants in UTC, also when another program lost that property.
    """
    try:
        raw = read_table_properties(store)
    except NotFoundError:
        if identity is None or identity.spec is None:
            raise TableNotFoundError(
                f"{store.uri}: no Hudi table is there (no {PROPERTIES_PATH}); check the location or create it"
            ) from None
        finish_creation(store, identity)
        raw = read_table_properties(store)
    if identity is not None and identity.first_instant is not None:
        raw = {TIMEZONE_KEY: str(Timezone.UTC), **raw}
    config = TableConfig.from_properties(raw, place=store.uri)
    check_readable(store, config)
    return config


def masks_failures(
    service: Callable[Concatenate[TableHandle, _Parameters], _Result],
) -> Callable[Concatenate[TableHandle, _Parameters], _Result]:
    """A service of a table whose failures lose its personal values."""

    @wraps(service)
    def run(table: TableHandle, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with failures_masked(table.spec, location=table.store.uri):
            return service(table, *args, **kwargs)

    return run
