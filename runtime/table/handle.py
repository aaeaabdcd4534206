"""An open table: its store, its configuration, and the spec that was applied to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from parquetry.runtime.errors import NotFoundError, StaleTimelineError, TableNotFoundError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.key_generator import KeyEncoding, KeyGenerator, key_encoding_of
from parquetry.runtime.spec.masking import cleared, failures_masked, masked_by
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.admission_to_read import check_readable
from parquetry.runtime.table.applied import (
    AppliedRef,
    TableIdentity,
    check_faults,
    check_owner,
    fault_of,
    read_applied,
    read_identity,
    record_signature_of,
)
from parquetry.runtime.table.config import TIMEZONE_KEY, TableConfig
from parquetry.runtime.table.creation import begin_creation, finish_creation
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
    """A table as of its opening. ``spec`` and ``applied`` are None before the first apply.

    ``table_id`` and ``project`` are None for a table that parquetry neither created nor adopted.
    ``first_instant`` is the instant of the creation, and None for a table that parquetry did not create.
    ``owner`` is the required owner of the table, checked before changes; it is None for a table that was
    opened by its location. ``declared`` is the spec that the project declares, if the opener knows it.
    ``fault`` is the reason why the identity or the applied record must not be used,
    or None; reads are still allowed. ``record_signature`` is the signature of the applied record.
    """

    store: ObjectStore
    config: TableConfig
    spec: TableSpec | None
    applied: AppliedRef | None
    table_id: str | None
    project: str | None
    first_instant: str | None = None
    owner: TableOwner | None = None
    declared: TableSpec | None = None
    fault: RecordFault | None = None
    record_signature: RecordSignature | None = None

    @property
    def name(self) -> str:
        """The name of the table in its project, or its own name before the first apply."""
        return self.config.name if self.spec is None else self.spec.name

    @property
    def shown_by(self) -> TableSpec | None:
        """The spec by which values of the table are masked: a column is personal if either spec says so."""
        return masked_by(self.spec, self.declared)

    def cleared(self, outcome: _Result) -> _Result:
        """Return a message or a result about the table, with personal values masked, for an exit."""
        return cleared(outcome, self.shown_by, location=self.store.uri)

    def failures_masked(self) -> AbstractContextManager[None]:
        """Return a context in which failures lose the personal values of the table."""
        return failures_masked(self.shown_by, location=self.store.uri)

    @property
    def paths_hold_values(self) -> bool:
        """True if partition paths contain the values of the partition columns, and not formatted times.

        The properties of a table with Hudi's custom key generator do not record which fields it formats. Only
        for a table that parquetry created is it certain that it formats none.
        """
        generator = self.config.key_generator
        if generator is KeyGenerator.CUSTOM:
            return self.first_instant is not None
        return generator not in (None, KeyGenerator.TIMESTAMP)

    def reopen(self) -> TableHandle:
        """Open the table again and return its current state.

        Raises:
            ForeignTableError: If the table no longer belongs to ``owner``.

        """
        return open_table(self.store, owner=self.owner, declared=self.declared)

    def check_owner(self) -> None:
        """Check, under the lock, that the table still belongs to the project of its owner.

        This takes one request if the handle has an owner, and none otherwise.

        Raises:
            ForeignTableError: If the table belongs to another project.
            CorruptTableError: If the identity of the table must not be used.

        """
        if self.owner is not None:
            identity = read_identity(self.store)
            project = None if identity is None else identity.project
            check_owner(self.store.uri, self.owner, project=project, applied=None)
            check_faults(identity, None)

    def config_under_lock(self) -> TableConfig:
        """Return the current configuration. The caller is a writer that holds the lock of the table.

        If the time zone of a table that parquetry created is missing, it is restored: Hudi 0.15 drops it in
        CREATE TABLE over an existing table, and then assumes local time.

        Raises:
            StaleTimelineError: If the table got another timeline layout since it was opened.

        """
        raw = read_table_properties(self.store)
        if self.first_instant is not None and TIMEZONE_KEY not in raw:
            comment = f"{TIMEZONE_KEY} restored by parquetry"
            raw = update_table_properties(self.store, {TIMEZONE_KEY: str(Timezone.UTC)}, comment=comment)
        return self._with_same_layout(raw)

    def check_layout(self) -> None:
        """Check that a timeline that was listed before this call was the whole timeline of the table.

        A change of the version replaces the properties first and then deletes the former timeline, file by
        file. This takes one request.

        Raises:
            StaleTimelineError: If the table got another timeline layout since it was opened.

        """
        self._with_same_layout(read_table_properties(self.store))

    def _with_same_layout(self, raw: Mapping[str, str]) -> TableConfig:
        """Return the configuration in the current properties, or raise StaleTimelineError."""
        config = TableConfig.from_properties(raw, location=self.store.uri)
        if config.layout != self.config.layout:
            raise StaleTimelineError(
                "{table}: another process changed the table from version {version} to {found}; run again",
                table=self.store.uri,
                version=self.config.version,
                found=config.version,
            )
        return config

    def timeline(self, known: Timeline | None = None) -> Timeline:
        """Return the current timeline of the table. Contents that ``known`` has read are not read again."""
        layout = self.config.timeline_layout
        if known is not None and known.layout == layout:
            return known.reload()
        return Timeline.load(self.store, layout)

    def view(self, timeline: Timeline) -> FileSystemView:
        """Return the files of the table as of that timeline."""
        return FileSystemView(self.store, timeline, self.config)

    def effective_spec(self, timeline: Timeline) -> TableSpec:
        """Return the applied spec with the live columns and the meta columns that the properties name.

        If none is applied, return a spec made from the table.
        """
        live = live_columns(self.store, timeline, self.config)
        if self.spec is not None:
            files = replace(self.spec.files, meta_columns=self.config.meta_columns)
            return replace(self.spec, columns=reconcile(self.spec.columns, live), files=files)
        return TableSpec(
            name=self.config.name,
            columns=live,
            record_key=self.config.record_key,
            ordering=self.config.ordering,
            partition_by=self.config.partition_by,
            hive_style=self.config.hive_style,
            url_encode=self.config.url_encode,
            files=FilesPolicy(meta_columns=self.config.meta_columns),
            table_version=self.config.version,
            locks=self.config.locks,
        )

    def schema_json(self, timeline: Timeline, columns: Iterable[Column]) -> str:
        """Return the Avro schema of a commit with these columns. It keeps the record names of the table."""
        keys = {field.partition(".")[0] for field in self.config.record_key}
        return schema_json(self.config.name, columns, recorded_schema(timeline, self.config), keys=keys)

    def key_encoding(self, view: FileSystemView) -> KeyEncoding:
        """Return the encoding of record keys. If the key generator is ambiguous, one file is read.

        If no keys are stored, they are compared only with each other, and any encoding will do.
        """
        if not self.config.meta_columns.has_keys:
            return KeyEncoding.PREFIXED if len(self.config.record_key) > 1 else KeyEncoding.BARE
        declared = key_encoding_of(self.config.key_generator, self.config.record_key)
        return declared or detect_key_encoding(self.store, view, self.config.record_key)


def create_table(
    store: ObjectStore, spec: TableSpec, *, project: str, clock: Callable[[], int] | None = None
) -> TableHandle:
    """Create the table of this spec, or finish a creation that was interrupted, and return the table.

    If the process is killed, the next call, or any opener of the table, continues. The errors are those of
    :func:`~parquetry.runtime.table.creation.begin_creation`.

    Args:
        store: The store of the table.
        spec: The spec of the table.
        project: The name of the project that will own the table.
        clock: Returns ms since the epoch. By default, the clock of the store.

    """
    now_ms = store.now_ms() if clock is None else clock()
    identity = begin_creation(store, spec, project=project, now_ms=now_ms)
    finish_creation(store, identity)
    return open_table(store)


def open_table(
    store: ObjectStore, *, owner: TableOwner | None = None, declared: TableSpec | None = None
) -> TableHandle:
    """Open the table in ``store`` for reading. An unfinished creation is finished first.

    ``declared`` is the declared spec of the table, if the caller knows it.

    Raises:
        ForeignTableError: If the table does not belong to ``owner``.
        TableNotFoundError: If there is no table.
        UnsupportedTableError: If the table cannot be read (see ``check_readable``).

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
        declared=declared,
        fault=fault_of(identity, applied),
        record_signature=record_signature_of(store, identity, applied),
    )


def read_config(store: ObjectStore, identity: TableIdentity | None) -> TableConfig:
    """Return the configuration of the table, and check that the table can be read.

    If there is an identity, an unfinished creation is finished. The instants of a table that parquetry
    created are in UTC, even if another program has dropped that property.

    Raises:
        TableNotFoundError: If there is no table.
        UnsupportedTableError: If the table cannot be read (see ``check_readable``).

    """
    try:
        raw = read_table_properties(store)
    except NotFoundError:
        if identity is None or identity.spec is None:
            raise TableNotFoundError(
                "{table}: there is no Hudi table (no {file}); check the location or create it",
                table=store.uri,
                file=PROPERTIES_PATH,
            ) from None
        finish_creation(store, identity)
        raw = read_table_properties(store)
    if identity is not None and identity.first_instant is not None:
        raw = {TIMEZONE_KEY: str(Timezone.UTC), **raw}
    config = TableConfig.from_properties(raw, location=store.uri)
    check_readable(store, config)
    return config


def with_masked_failures(
    service: Callable[Concatenate[TableHandle, _Parameters], _Result],
) -> Callable[Concatenate[TableHandle, _Parameters], _Result]:
    """Wrap a table service so that its failures show no personal values of the table."""

    @wraps(service)
    def run(table: TableHandle, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with table.failures_masked():
            return service(table, *args, **kwargs)

    return run
