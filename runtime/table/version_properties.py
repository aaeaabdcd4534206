"""The properties that depend on the table version, for new tables and for a change of the version.

Source: HoodieTableConfig, HoodieTableVersion and the upgrade and downgrade handlers of Hudi 1.2, and the
properties that Hudi 0.15.0, 1.0.2 and 1.2.0 wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.spec.key_generator import KeyGenerator, infer_key_generator

VERSION_KEY: Final = "hoodie.table.version"
LAYOUT_KEY: Final = "hoodie.timeline.layout.version"
ORDERING_KEY: Final = "hoodie.table.ordering.fields"
PRECOMBINE_KEY: Final = "hoodie.table.precombine.field"
PARTITIONS_KEY: Final = "hoodie.table.partition.fields"
GENERATOR_CLASS_KEY: Final = "hoodie.table.keygenerator.class"
GENERATOR_TYPE_KEY: Final = "hoodie.table.keygenerator.type"
ARCHIVE_KEY: Final = "hoodie.archivelog.folder"
INITIAL_VERSION_KEY: Final = "hoodie.table.initial.version"

_MODE_KEY: Final = "hoodie.record.merge.mode"
_STRATEGY_KEY: Final = "hoodie.record.merge.strategy.id"
_PAYLOAD_KEY: Final = "hoodie.compaction.payload.class"
_LEGACY_PAYLOAD_KEY: Final = "hoodie.table.legacy.payload.class"
_MERGER_KEY: Final = "hoodie.compaction.record.merger.strategy"
_TIMELINE_KEY: Final = "hoodie.timeline.path"
_HISTORY_KEY: Final = "hoodie.timeline.history.path"
_HISTORY: Final = "history"
_FOLDERS: Final[Mapping[str, str]] = {_TIMELINE_KEY: "timeline", _HISTORY_KEY: _HISTORY}
"""The folders of layout 2. An upgrade by Hudi leaves them out where they are the default ones."""
_BY_TIME: Final = "EVENT_TIME_ORDERING"
_BY_COMMIT: Final = "COMMIT_TIME_ORDERING"
MERGE_STRATEGIES: Final[Mapping[str, str]] = {
    _BY_TIME: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    _BY_COMMIT: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
"""Hudi's merge modes that keep one of two rows as it is, and the ids of their strategies."""

_PAYLOADS: Final[Mapping[str, str]] = {
    _BY_TIME: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    _BY_COMMIT: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The parts of a table that the versions spell differently.

    ``generator`` is None for a key generator that is not part of Hudi. ``mode`` is Hudi's name of the rule by
    which one of several rows with a key is kept. If it is None, the ordering decides.
    """

    ordering: tuple[str, ...]
    partition_by: tuple[str, ...]
    generator: KeyGenerator | None
    mode: str | None = None

    @property
    def merge_mode(self) -> str:
        """The merge mode: by event time if there is an ordering field, unless the table has another one."""
        return self.mode or (_BY_TIME if self.ordering else _BY_COMMIT)

    @classmethod
    def from_properties(cls, raw: Mapping[str, str]) -> Fields:
        """Return the fields in the properties of a table."""
        ordering = _names(raw.get(ORDERING_KEY, "")) or _names(raw.get(PRECOMBINE_KEY, ""))
        partition_by = tuple(name.partition(":")[0] for name in _names(raw.get(PARTITIONS_KEY, "")))
        record_key = _names(raw.get("hoodie.table.recordkey.fields", ""))
        generator = infer_key_generator(raw, record_key, partition_by)
        by_payload = {payload: mode for mode, payload in _PAYLOADS.items()}.get(raw.get(_PAYLOAD_KEY, ""))
        return cls(
            ordering=ordering,
            partition_by=partition_by,
            generator=generator,
            mode=raw.get(_MODE_KEY) or by_payload,
        )


def new_properties(version: int, fields: Fields) -> dict[str, str]:
    """Return the properties of a new table that depend on its version."""
    initial = (
        {} if version in _LAYOUT_1 else {ARCHIVE_KEY: _HISTORY, INITIAL_VERSION_KEY: str(version), **_FOLDERS}
    )
    generator = {} if fields.generator is None else generator_property(version, fields.generator)
    return initial | generator | required_properties(version, fields)


def required_properties(version: int, fields: Fields) -> dict[str, str]:
    """Return the properties that every table of a version needs, also one that got it by a change."""
    found = {VERSION_KEY: str(version), **_OF_VERSION[version](fields)}
    return {key: value for key, value in found.items() if value}


def changed_properties(raw: Mapping[str, str], version: int) -> dict[str, str]:
    """Return all properties of a table after a change to another version.

    Hudi keeps the class of the key generator and the archive folder of version 6 in upgraded tables, and so
    does this function. They are used again after a downgrade.
    """
    fields = Fields.from_properties(raw)
    is_layout_1 = version in _LAYOUT_1
    kept = {key: value for key, value in raw.items() if key not in _VERSIONED}
    if fields.generator is not None:
        kept |= generator_property(version, fields.generator)
    if is_layout_1:
        kept = {
            key: value for key, value in kept.items() if key not in (GENERATOR_TYPE_KEY, INITIAL_VERSION_KEY)
        }
        folder = raw.get(ARCHIVE_KEY)
        folders = {} if folder in (None, _HISTORY) else {ARCHIVE_KEY: folder}
    else:
        kept.setdefault(INITIAL_VERSION_KEY, raw[VERSION_KEY])
        folders = {key: raw.get(key, default) for key, default in _FOLDERS.items()}
        if raw.get(LAYOUT_KEY) == "2" and PARTITIONS_KEY in raw:
            folders[PARTITIONS_KEY] = raw[PARTITIONS_KEY]
    payload = raw.get(_PAYLOAD_KEY) or raw.get(_LEGACY_PAYLOAD_KEY)
    if payload:
        kept[_PAYLOAD_KEY if is_layout_1 else _LEGACY_PAYLOAD_KEY] = payload
    return kept | required_properties(version, fields) | folders


def ordering_key(version: int) -> str:
    """Return the property with the ordering field in tables of a version."""
    return ORDERING_KEY if version in _LATEST else PRECOMBINE_KEY


def generator_property(version: int, generator: KeyGenerator) -> dict[str, str]:
    """Return the property with the key generator, as tables of a version spell it."""
    if version in _LAYOUT_1:
        return {GENERATOR_CLASS_KEY: generator.class_name}
    return {GENERATOR_TYPE_KEY: generator.name}


def _version_6(fields: Fields) -> dict[str, str]:
    return {
        LAYOUT_KEY: "1",
        ARCHIVE_KEY: "archived",
        PRECOMBINE_KEY: ",".join(fields.ordering),
        PARTITIONS_KEY: ",".join(fields.partition_by),
    }


def _layout_2(fields: Fields) -> dict[str, str]:
    return {
        LAYOUT_KEY: "2",
        _MODE_KEY: fields.merge_mode,
        # Hudi adds types for its custom key generator (`a:SIMPLE,b:SIMPLE`), which hudi-rs 0.5 cannot read.
        # Without them Hudi reads and upserts rightly; only its SQL refuses to update the table.
        PARTITIONS_KEY: ",".join(fields.partition_by),
    }


def _version_8(fields: Fields) -> dict[str, str]:
    # Hudi 1.0 knows the older name of the ordering field alone; Hudi 1.2 reads both.
    return _layout_2(fields) | {
        PRECOMBINE_KEY: ",".join(fields.ordering),
        _STRATEGY_KEY: MERGE_STRATEGIES.get(fields.merge_mode, ""),
        _PAYLOAD_KEY: _PAYLOADS.get(fields.merge_mode, ""),
    }


def _version_9(fields: Fields) -> dict[str, str]:
    return _layout_2(fields) | {ORDERING_KEY: ",".join(fields.ordering)}


_OF_VERSION: Final[Mapping[int, Callable[[Fields], dict[str, str]]]] = {
    6: _version_6,
    8: _version_8,
    9: _version_9,
}
_LAYOUT_1: Final = frozenset({6})
_LATEST: Final = frozenset({9})
_VERSIONED: Final = frozenset(
    {
        *(VERSION_KEY, LAYOUT_KEY, ORDERING_KEY, PRECOMBINE_KEY, PARTITIONS_KEY),
        *(_TIMELINE_KEY, _HISTORY_KEY, _MODE_KEY, _STRATEGY_KEY),
        *(_PAYLOAD_KEY, _LEGACY_PAYLOAD_KEY, _MERGER_KEY),
    }
)
"""The properties that a change of the version removes before it adds those of the new version."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
