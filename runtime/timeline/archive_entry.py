"""The conversion of the state files of an instant to entries of the archive log.

State files of any writer are converted. Every field of a foreign commit is kept if the log has a field for
it. Source: MetadataConversionUtils.createMetaWrapper of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from parquetry.runtime.spec.codec import json_object
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.timeline.avro_model import decode_container, record_schema
from parquetry.runtime.timeline.instant import Action, Instant, State, Timezone, format_instant

ARCHIVED_ENTRY: Final = "HoodieArchivedMetaEntry"

_ROLLING_STAT: Final = "ROLLING_STAT"
_COMMITS = frozenset({Action.COMMIT, Action.DELTACOMMIT})


def archive_entries(
    store: ObjectStore, files: Mapping[str, ObjectInfo], instants: Iterable[Instant], timezone: Timezone
) -> Iterator[dict[str, Any]]:
    """Yield the log entries of all state files of the instants.

    Args:
        store: The store of the table.
        files: The state files of the timeline, by name.
        instants: The instants, whose order is kept. The states of an instant follow each other from requested
            to completed.
        timezone: The time zone of the table's instants.

    Raises:
        CorruptTableError: If a state file does not have the content of its action. It must not leave the
            timeline.

    """
    for instant in instants:
        for instant_state in (*instant.pending_states, instant):
            info = files.get(instant_state.file_name)
            if info is None:
                continue
            yield archive_entry(
                instant_state,
                store.read(instant_state.path),
                changed_at=format_instant(info.modified_ms, timezone),
                place=f"{store.uri}/{instant_state.path}",
            )


def archive_entry(instant: Instant, content: bytes, *, changed_at: str, place: str) -> dict[str, Any]:
    """Return the log entry of one state of an instant.

    Args:
        instant: The instant in that state.
        content: The content of its state file in layout 1.
        changed_at: The time at which the instant got that state.
        place: The location of the file for error messages.

    """
    entry = {
        "commitTime": instant.time,
        "actionType": str(instant.action),
        "actionState": instant.state.upper(),
        "stateTransitionTime": changed_at,
        "version": None,
    }
    return entry | _branch(instant, content, place=place)


def projected(record: Mapping[str, Any], name: str) -> Any:
    """Return a record of any Hudi version with exactly the fields of our schema of that name."""
    return _project(record, record_schema(name), {})


def _branch(instant: Instant, content: bytes, *, place: str) -> dict[str, Any]:
    """Return the part of a log entry for this action and state: the content under the name of its field."""
    match instant.action, instant.state:
        case action, _ if action in _COMMITS:
            return {"hoodieCommitMetadata": _commit(content, place)}
        case Action.REPLACECOMMIT, State.COMPLETED:
            return {"hoodieReplaceCommitMetadata": _replace(content, place)}
        case Action.REPLACECOMMIT, State.INFLIGHT:
            return {"HoodieInflightReplaceMetadata": _commit(content, place) if content else None}
        case ((Action.COMPACTION | Action.LOGCOMPACTION), State.REQUESTED):
            return _record("hoodieCompactionPlan", "HoodieCompactionPlan", content, place)
        case action, state if (action, state) in _AVRO_BRANCHES:
            return _record(*_AVRO_BRANCHES[action, state], content, place)
    return {}


_AVRO_BRANCHES: Final[Mapping[tuple[Action, State], tuple[str, str]]] = {
    (Action.REPLACECOMMIT, State.REQUESTED): (
        "hoodieRequestedReplaceMetadata",
        "HoodieRequestedReplaceMetadata",
    ),
    (Action.CLEAN, State.REQUESTED): ("hoodieCleanerPlan", "HoodieCleanerPlan"),
    (Action.CLEAN, State.INFLIGHT): ("hoodieCleanerPlan", "HoodieCleanerPlan"),
    (Action.CLEAN, State.COMPLETED): ("hoodieCleanMetadata", "HoodieCleanMetadata"),
    (Action.ROLLBACK, State.COMPLETED): ("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
    (Action.SAVEPOINT, State.COMPLETED): ("hoodieSavePointMetadata", "HoodieSavepointMetadata"),
    (Action.INDEXING, State.COMPLETED): ("hoodieIndexCommitMetadata", "HoodieIndexCommitMetadata"),
}


def _record(branch: str, name: str, content: bytes, place: str) -> dict[str, Any]:
    """Return the record of an Avro file with the fields of the log, under the name ``branch``."""
    if not content:
        return {branch: None}
    return {branch: projected(decode_container(content, place=place), name)}


def _project(value: Any, schema: Any, named: dict[str, Any]) -> Any:
    """Return a value with exactly the fields of our schema.

    Other fields are dropped, and missing ones get their defaults. ``named`` collects the records of the
    schema by name.
    """
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    match schema:
        case list():
            (branch,) = (member for member in schema if member != "null")
            return None if value is None else _project(value, branch, named)
        case {"type": "record", "namespace": namespace, "name": name, "fields": fields}:
            named[f"{namespace}.{name}"] = schema
            return {
                field["name"]: _project(value.get(field["name"], field.get("default")), field["type"], named)
                for field in fields
            }
        case {"type": "array", "items": items}:
            return [_project(member, items, named) for member in value]
        case {"type": "map", "values": values}:
            return {key: _project(member, values, named) for key, member in value.items()}
    return value


def _commit(content: bytes, place: str) -> dict[str, Any]:
    document = _json(content, place)
    return {
        "partitionToWriteStats": {
            partition: [_stat(stat) for stat in stats]
            for partition, stats in (document.get("partitionToWriteStats") or {}).items()
        },
        "extraMetadata": {**_string_values(document.get("extraMetadata") or {}), _ROLLING_STAT: ""},
        "version": None,
        "operationType": document.get("operationType") or "UNKNOWN",
    }


def _replace(content: bytes, place: str) -> dict[str, Any]:
    replaced = _json(content, place).get("partitionToReplaceFileIds") or {}
    return {**_commit(content, place), "partitionToReplaceFileIds": replaced}


def _stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a write statistic of a commit's JSON as the archive log stores it.

    The log's ``totalLogFiles`` has the value of the JSON's ``totalLogFilesCompacted``.
    """
    fields = (field["name"] for field in record_schema("HoodieWriteStat")["fields"])
    return {**{name: stat.get(name) for name in fields}, "totalLogFiles": stat.get("totalLogFilesCompacted")}


def _string_values(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries whose values are strings."""
    return {key: value for key, value in extra.items() if isinstance(value, str)}


def _json(content: bytes, place: str) -> dict[str, Any]:
    return json_object(content, place=place) if content else {}
