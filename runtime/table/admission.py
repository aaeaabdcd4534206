"""Checks for tables to which a write would lose rows or mislead readers.

Each refused feature either caused silent data loss in tests, or needs maintenance that a writer must not
skip.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from parquetry.message import Message, Value, command
from parquetry.runtime.errors import InvalidDataError, UnsupportedTableError
from parquetry.runtime.spec.key_generator import KeyGenerator
from parquetry.runtime.table.admission_to_read import check_readable
from parquetry.runtime.table.applied import check_declared_spec
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.key_encoding import sampled_row
from parquetry.runtime.table.partition_path import KeyRules, partition_path
from parquetry.runtime.table.schema import recorded_schema
from parquetry.runtime.table.signing import check_signed
from parquetry.runtime.table.version_properties import MERGE_STRATEGIES
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Timezone, parse_instant_ms

MAX_CLOCK_SKEW_MS: Final = 5_000

_LATEST_INTERNAL_SCHEMA: Final = "latest_schema"
_SAMPLED_PARTITIONS: Final = 8
_MILLISECONDS: Final = '"timestamp-millis"'
_MODEL: Final = "org.apache.hudi.common.model"
_PAYLOADS: Final = frozenset(
    f"{_MODEL}.{name}"
    for name in ("DefaultHoodieRecordPayload", "EventTimeAvroPayload", "OverwriteWithLatestAvroPayload")
)
_STRATEGIES: Final = frozenset(MERGE_STRATEGIES.values())
_WHOLE_ROWS: Final[Mapping[str, Collection[str]]] = {
    "hoodie.record.merge.mode": MERGE_STRATEGIES.keys(),
    "hoodie.record.merge.strategy.id": _STRATEGIES,
    "hoodie.compaction.record.merger.strategy": _STRATEGIES,
    "hoodie.compaction.payload.class": _PAYLOADS,
    "hoodie.table.legacy.payload.class": _PAYLOADS,
    "hoodie.table.partial.update.mode": (),
}
"""The values of properties with which Hudi's writers keep either the stored row or the new one as a whole."""

_MERGE_PROPERTY: Final = "hoodie.record.merge.property."


def check_writable(
    handle: TableHandle, timeline: Timeline, now_ms: int, *, drops_metadata_table: bool = False
) -> None:
    """Raise an error if the table cannot be written safely.

    An instant up to :data:`MAX_CLOCK_SKEW_MS` ahead of ``now_ms`` is accepted, and the caller has to wait,
    see :func:`ahead_ms`. An instant further ahead is refused.

    Args:
        handle: The table.
        timeline: The current timeline of the table.
        now_ms: The time of the store's clock, in ms since the epoch.
        drops_metadata_table: If True, a metadata table is no obstacle, because it is dropped before the
            table is written.

    Raises:
        UnsupportedTableError: If writing is unsafe. The message has the location, the value and one remedy.
        CorruptTableError: If the identity or the applied record must not be used.
        StalePlanError: If the applied spec is not the one that the owner declares.

    """
    if handle.fault is not None:
        raise handle.fault.error()
    if handle.owner is not None:
        check_signed(handle.store.uri, handle.record_signature, handle.owner.keys, signs=handle.owner.signs)
    check_declared_spec(handle.store.uri, handle.owner, handle.applied, handle.spec)
    check_readable(handle.store, handle.config)
    _check_version(handle)
    if not drops_metadata_table and (reason := metadata_table_problem(handle.config)) is not None:
        raise UnsupportedTableError("{table}: {reason}", table=handle.store.uri, reason=reason)
    for problem in writing_problems(handle.config):
        raise UnsupportedTableError("{table}: {reason}", table=handle.store.uri, reason=problem)
    if handle.spec is None and handle.config.key_generator is KeyGenerator.CUSTOM:
        # Version 6 does not record which fields the generator formats as times.
        check_partition_paths(handle, timeline)
    _check_schema(handle, timeline)
    ahead = ahead_ms(timeline, handle.config.timezone, now_ms)
    if ahead > MAX_CLOCK_SKEW_MS:
        raise UnsupportedTableError(_future_instant(handle, timeline, ahead))


def _check_version(handle: TableHandle) -> None:
    """Raise UnsupportedTableError if a job would write to a table whose version another program changed."""
    is_job = handle.owner is not None and handle.owner.rules is not None
    if is_job and handle.spec is not None and handle.spec.table_version != handle.config.version:
        raise UnsupportedTableError(
            "{table}: its version is {found}, but {applied} is applied: another program has changed it; "
            "{plan_command} and {apply_command} change it back",
            table=handle.store.uri,
            found=handle.config.version,
            applied=handle.spec.table_version,
            plan_command=command("plan"),
            apply_command=command("apply"),
        )


def check_stored_columns(handle: TableHandle) -> None:
    """Raise UnsupportedTableError if rows may lack meta columns that the properties promise.

    A write would look rows up by keys that they do not store, and add them once more. A plan, which can
    change the properties back, is not a write.
    """
    if handle.spec is None:
        return
    applied, found = handle.spec.files.meta_columns, handle.config.meta_columns
    if not applied.may_become(found):
        raise UnsupportedTableError(
            "{table}: its properties name meta_columns: {found}, but {applied} is applied: another program "
            "has changed them, and rows lack what they promise; {plan_command} and {apply_command} change "
            "them back",
            table=handle.store.uri,
            found=str(found),
            applied=str(applied),
            plan_command=command("plan"),
            apply_command=command("apply"),
        )


def ahead_ms(timeline: Timeline, timezone: Timezone, now_ms: int) -> int:
    """Return by how many milliseconds the newest instant, in any state, is ahead of the clock, or 0.

    Hudi itself takes instants from the clock alone: its commits before such an instant are invisible.
    """
    newest = timeline.last_instant
    return 0 if newest is None else max(0, parse_instant_ms(newest, timezone) - now_ms)


def metadata_table_problem(config: TableConfig) -> Message | None:
    """Return a message with a remedy if the properties declare a metadata table, else None."""
    if not config.metadata_partitions:
        return None
    return Message(
        "hoodie.table.metadata.partitions={partitions}: readers that use the metadata table would miss rows; "
        "{plan_command} shows that {apply_command} drops it, or write once with Hudi and "
        "hoodie.metadata.enable=false, which removes it; keep that setting in every Hudi writer",
        partitions=",".join(config.metadata_partitions),
        plan_command=command("plan"),
        apply_command=command("apply"),
    )


def writing_problems(config: TableConfig) -> Iterator[str]:
    """Yield a message with a remedy for each property that makes writing unsafe.

    A metadata table is no such property, because `apply` drops it (:func:`metadata_table_problem`).
    """
    if config.drop_partition_columns:
        yield (
            "hoodie.datasource.write.drop.partition.columns=true: files lack the partition columns; "
            "rewrite the table without that setting"
        )
    if not config.meta_columns.has_keys and not config.record_key:
        yield (
            "hoodie.populate.meta.fields=false without hoodie.table.recordkey.fields: rows have no record "
            "keys; rewrite the table with one of them"
        )
    if len(config.ordering_fields) > 1:
        yield (
            f"hoodie.table.ordering.fields={','.join(config.ordering_fields)}: one ordering field is "
            f"supported; rewrite the table with one"
        )
    if config.ordering is not None and "." in config.ordering:
        yield (
            f"the ordering field {config.ordering} is part of a struct; rewrite the table, ordered by a "
            f"column of its own"
        )
    yield from _merge_problems(config)
    yield from _key_generator_problems(config)


def _merge_problems(config: TableConfig) -> Iterator[str]:
    """Yield a message for each rule by which Hudi's writers would combine two rows, or delete one."""
    for key, value in config.raw.items():
        is_known = key not in _WHOLE_ROWS or value in ("", *_WHOLE_ROWS[key])
        if key.startswith(_MERGE_PROPERTY) or not is_known:
            yield (
                f"{key}={value}: Hudi's writers merge a new row with the stored one by this rule, and "
                f"parquetry replaces whole rows; rewrite the table without that setting"
            )


def _key_generator_problems(config: TableConfig) -> Iterator[str]:
    if config.key_generator is None:
        supported = ", ".join(
            generator for generator in KeyGenerator if generator is not KeyGenerator.TIMESTAMP
        )
        yield (
            f"unknown key generator {config.key_generator_class}, so parquetry cannot write the same keys "
            f"and partition paths; rewrite the table with one of {supported}"
        )
    fields = config.raw.get("hoodie.table.partition.fields", "").upper().split(",")
    time_based = any(".keygen.timebased." in key for key in config.raw) or any(
        field.endswith(":TIMESTAMP") for field in fields
    )
    if config.key_generator is KeyGenerator.TIMESTAMP or (
        config.key_generator is KeyGenerator.CUSTOM and time_based
    ):
        yield (
            f"key generator {config.key_generator_class} makes partition paths from times, by settings that "
            f"the table does not record; rewrite the table, partitioned by a column that holds the "
            f"formatted time"
        )


def check_partition_paths(handle: TableHandle, timeline: Timeline) -> None:
    """Compare the partition paths of a few files with those to which their rows would be written.

    A row that is written to another path is there twice.

    Raises:
        UnsupportedTableError: If the paths differ.

    """
    config = handle.config
    if not config.partition_by:
        return
    rules = KeyRules.of(config, named_key=False)
    view = handle.view(timeline)
    for partition in view.partitions()[:_SAMPLED_PARTITIONS]:
        newest = max(view.slices(partition), key=lambda part: part.instant, default=None)
        row = None if newest is None else sampled_row(handle.store, newest.path, config.partition_by)
        if row is None:
            continue
        try:
            expected = partition_path(rules, row)
        except InvalidDataError:
            # Floats: their text depends on the writer. `validate` warns about that.
            continue
        if expected != partition:
            raise UnsupportedTableError(
                "{table}: a row of partition {partition} would be written to {expected_partition}, so "
                "{key_generator} does not name its folders by the values of {columns}; "
                "rewrite the table, partitioned by a column that contains the names of the folders",
                table=handle.store.uri,
                partition=Value.partition(partition),
                expected_partition=Value.partition(expected),
                key_generator=config.key_generator_class or "the table",
                columns=config.partition_by,
            )


def _check_schema(handle: TableHandle, timeline: Timeline) -> None:
    if _MILLISECONDS in (recorded_schema(timeline, handle.config) or ""):
        raise UnsupportedTableError(
            "{table}: its schema has timestamp-millis, and readers would take the microseconds that "
            "are written here for milliseconds; rewrite the table with timestamp-micros",
            table=handle.store.uri,
        )
    if not timeline.completed_writes:
        return
    newest = timeline.completed_writes[-1]
    if timeline.commit_metadata(newest.time).extra.get(_LATEST_INTERNAL_SCHEMA):
        raise UnsupportedTableError(
            "{table}: the commit {instant} has a schema history (hoodie.schema.on.read.enable), which a "
            "write without it would cut off; rewrite the table without that setting",
            table=handle.store.uri,
            instant=newest.time,
        )


def _future_instant(handle: TableHandle, timeline: Timeline, ahead: int) -> Message:
    remedy = (
        "set TZ to the zone of the machines that write this table"
        if handle.config.timezone is Timezone.LOCAL
        else "correct the clock of this machine, or wait until then"
    )
    return Message(
        "{table}: the newest instant {instant} is {ahead_seconds:.0f} s ahead of the clock (time zone of "
        "the table: {timezone}), so readers would not see rows that are written now; {remedy}",
        table=handle.store.uri,
        instant=timeline.last_instant,
        ahead_seconds=ahead / 1000,
        timezone=handle.config.timezone,
        remedy=remedy,
    )
