"""A table as a dictionary: what each operation must leave behind, to be compared with any reader.

State is `{(partition path, record key): copies}`; a key has several copies only where rows were inserted without
looking. Every completed instant keeps its state, so the model answers the latest state, the state as of an instant
and the changes between two instants.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
Place = tuple[str, str]
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
ESCAPED = set("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


@dataclass(frozen=True, slots=True)
class Stored:
    """One row and the instant that wrote this version of it."""

    row: Row
    commit: str


State = Mapping[Place, tuple[Stored, ...]]


@dataclass(frozen=True, slots=True)
class Version:
    instant: str
    state: State


@dataclass(slots=True)
class TableModel:
    """The expected content of one table. `key` and `partition_by` may be dotted."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    ordering: str | None = None
    partition_by: tuple[str, ...] = ()
    hive_style: bool = True
    url_encode: bool = True
    key_scope: str = "partition"
    prefixed_single_key: bool = False
    versions: list[Version] = field(default_factory=list)

    # -- what writers do

    def upsert(self, instant: str, rows: Iterable[Row], *, compares_ordering: bool = True) -> None:
        """One row per key of the batch wins, then meets the stored one.

        With `compares_ordering` a stored row of a larger ordering value stays; without, the newest write wins.
        Rows whose `_hoodie_is_deleted` is true delete.
        """
        state = dict(self.latest_state())
        for place, row in self._newest_per_key(rows).items():
            self._merge_one(state, place, row, instant, compares_ordering=compares_ordering)
        self._record(instant, state)

    def insert(self, instant: str, rows: Iterable[Row]) -> None:
        """Every row is added, also beside a stored one of the same key (insert, bulk_insert)."""
        self._record(instant, self._added(self.latest_state(), instant, rows))

    def insert_overwrite(self, instant: str, rows: Sequence[Row]) -> None:
        """The partitions that the rows touch hold just these rows."""
        touched = {self.place(row)[0] for row in rows}
        kept = {place: copies for place, copies in self.latest_state().items() if place[0] not in touched}
        self._record(instant, self._added(kept, instant, rows))

    def insert_overwrite_table(self, instant: str, rows: Sequence[Row]) -> None:
        """The table holds just these rows."""
        self._record(instant, self._added({}, instant, rows))

    def delete_partition(self, instant: str, paths: Iterable[str]) -> None:
        """The partitions are empty."""
        gone = set(paths)
        self._record(instant, {k: v for k, v in self.latest_state().items() if k[0] not in gone})

    def delete(self, instant: str, rows: Iterable[Row], *, compares_ordering: bool = True) -> None:
        """The keys are gone, where a row has the ordering column only if the stored value is not larger."""
        state = dict(self.latest_state())
        for row in rows:
            for place in self._same_key(state, self.place(row)):
                with_order = compares_ordering and self.ordering is not None and self.ordering in row
                left = tuple(s for s in state[place] if with_order and self._is_later(s.row, row))
                _put(state, place, left)
        self._record(instant, state)

    def delete_where(self, instant: str, condition: Callable[[Row], bool]) -> None:
        """The rows for which the condition holds are gone."""
        state = dict(self.latest_state())
        for place, copies in self.latest_state().items():
            _put(state, place, tuple(s for s in copies if not condition(s.row)))
        self._record(instant, state)

    def unchanged(self, instant: str) -> None:
        """A commit that changes no row: clustering, schema change, empty commit."""
        self._record(instant, self.latest_state())

    def restore(self, instant: str) -> None:
        """Everything after `instant` never happened (restore, rollback of the newest)."""
        self.versions = [version for version in self.versions if version.instant <= instant]

    def add_column(self, name: str) -> None:
        """A new column, null in every stored row."""
        self.columns = (*self.columns, name)

    # -- what readers must see

    def instants(self) -> list[str]:
        return [version.instant for version in self.versions]

    def latest_state(self) -> State:
        return self.versions[-1].state if self.versions else {}

    def latest(self) -> Counter[tuple[Any, ...]]:
        return self._frozen(self.latest_state(), lambda _: True)

    def as_of(self, instant: str) -> Counter[tuple[Any, ...]]:
        return self._frozen(self._state_at(instant), lambda _: True)

    def between(self, since: str, until: str | None = None) -> Counter[tuple[Any, ...]]:
        """The rows written in (since, until] that stand at `until`."""
        end = until or self.versions[-1].instant
        return self._frozen(self._state_at(end), lambda stored: since < stored.commit <= end)

    # -- keys and places

    def place(self, row: Row) -> Place:
        values = [_text(_dotted(row, name)) for name in self.partition_by]
        return self._partition_path(values), self.record_key(row)

    def record_key(self, row: Row) -> str:
        if len(self.key) == 1 and not self.prefixed_single_key:
            return str(_text(_dotted(row, self.key[0])))
        parts = [(name, _text(_dotted(row, name))) for name in self.key]
        return ",".join(f"{n}:{'__null__' if v is None else v or '__empty__'}" for n, v in parts)

    def _partition_path(self, values: Sequence[str | None]) -> str:
        levels = []
        for name, value in zip(self.partition_by, values, strict=True):
            text = value or DEFAULT_PARTITION
            if self.url_encode:
                text = "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in text)
            levels.append(f"{name}={text}" if self.hive_style else text)
        return "/".join(levels)

    # -- how

    def _record(self, instant: str, state: State) -> None:
        assert not self.versions or instant > self.versions[-1].instant, "instants ascend"
        self.versions.append(Version(instant, state))

    def _state_at(self, instant: str) -> State:
        return next((v.state for v in reversed(self.versions) if v.instant <= instant), {})

    def _added(self, state: State, instant: str, rows: Iterable[Row]) -> State:
        grown = dict(state)
        for row in rows:
            place = self.place(row)
            grown[place] = (*grown.get(place, ()), Stored(dict(row), instant))
        return grown

    def _newest_per_key(self, rows: Iterable[Row]) -> dict[Place, Row]:
        newest: dict[Place, Row] = {}
        seen: dict[Any, Place] = {}
        for row in rows:
            place = self.place(row)
            scope: Any = place if self.key_scope == "partition" else place[1]
            other = seen.get(scope)
            if other is not None:
                if self._is_later(newest[other], row):
                    continue
                if not self._is_later(row, newest[other]):
                    assert _frozen_row(row) == _frozen_row(newest[other]), (
                        "a tie inside a batch has no defined winner"
                    )
                del newest[other]
            newest[place], seen[scope] = row, place
        return newest

    def _merge_one(
        self,
        state: dict[Place, tuple[Stored, ...]],
        place: Place,
        row: Row,
        instant: str,
        *,
        compares_ordering: bool,
    ) -> None:
        stored_at = self._same_key(state, place)
        if not stored_at:
            if not row.get("_hoodie_is_deleted"):
                state[place] = (Stored(dict(row), instant),)
            return
        for old in stored_at:
            copies: list[Stored] = []
            for stored in state[old]:
                if compares_ordering and self._is_later(stored.row, row):
                    copies.append(stored)
                elif not row.get("_hoodie_is_deleted"):
                    copies.append(Stored(dict(row), instant))
            here = tuple(copy for copy in copies if copy.commit != instant)
            moved = tuple(copy for copy in copies if copy.commit == instant)
            _put(state, old, here)
            if moved:
                state[place] = (*state.get(place, ()), *moved)

    def _same_key(self, state: State, place: Place) -> list[Place]:
        if self.key_scope == "partition":
            return [place] if place in state else []
        return [other for other in state if other[1] == place[1]]

    def _is_later(self, one: Row, other: Row) -> bool:
        """Whether `one` has a strictly larger ordering value; null is smallest."""
        if self.ordering is None:
            return False
        first, second = _dotted(one, self.ordering), _dotted(other, self.ordering)
        if first is None or second is None:
            return first is not None and second is None
        return bool(first > second)

    def _frozen(self, state: State, wanted: Callable[[Stored], bool]) -> Counter[tuple[Any, ...]]:
        return Counter(
            (stored.commit, *place[::-1], *(freeze(stored.row.get(name)) for name in self.columns))
            for place, copies in state.items()
            for stored in copies
            if wanted(stored)
        )


def frozen_table(rows: pa.Table, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """What a reader gave, in the form of `TableModel.latest()`: commit time, key, partition path, columns.

    A column that the reader does not have yet is null.
    """
    if rows.num_rows == 0:
        return Counter()
    names = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path", *columns)
    missing = [None] * rows.num_rows
    found = [rows.column(name).to_pylist() if name in rows.schema.names else missing for name in names]
    return Counter(tuple(freeze(value) for value in row) for row in zip(*found, strict=True))


def differences(expected: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]], limit: int = 4) -> str:
    """Empty when equal, else a few rows that are missing and that are too many."""
    missing, surplus = expected - found, found - expected
    if not missing and not surplus:
        return ""
    lines = [f"{missing.total()} rows missing, {surplus.total()} too many of {expected.total()}"]
    lines += [f"  missing {row}" for row in sorted(missing, key=repr)[:limit]]
    lines += [f"  surplus {row}" for row in sorted(surplus, key=repr)[:limit]]
    return "\n".join(lines)


def freeze(value: Any) -> Any:
    """A hashable value that is equal where two readers mean the same."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None)
        case dict():
            return tuple(sorted((name, freeze(part)) for name, part in value.items()))
        case list() if value and all(isinstance(part, tuple) for part in value):
            return tuple(sorted((name, freeze(part)) for name, part in value))
        case list():
            return tuple(freeze(part) for part in value)
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return value


def _frozen_row(row: Row) -> tuple[Any, ...]:
    return tuple(sorted((name, repr(freeze(value))) for name, value in row.items()))


def _put(state: dict[Place, tuple[Stored, ...]], place: Place, copies: tuple[Stored, ...]) -> None:
    if copies:
        state[place] = copies
    else:
        state.pop(place, None)


def _dotted(row: Row, name: str) -> Any:
    value: Any = row
    for part in name.split("."):
        value = None if value is None else value.get(part)
    return value


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
