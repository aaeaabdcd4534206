"""The table of conflicts, row by row: what was done meanwhile, and what becomes of the second write."""

from __future__ import annotations

import pytest

from parquetry.runtime.commit.conflicts import (
    Conflict,
    Verdict,
    WriteEffects,
    conflicting_groups,
    effects_of_commit,
    effects_of_write,
    find_conflict,
)
from parquetry.runtime.commit.outcome import Footprint, KeyRange
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.spec.table_spec import KeyScope
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat

OLD = '{"type": "record", "name": "r", "fields": []}'
NEW = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'


def stat(file_id: str, *, partition: str = "p", merges: bool = False, inserts: int = 0) -> WriteStat:
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{file_id}",
        partition_path=partition,
        prev_commit="1" if merges else None,
        num_inserts=inserts,
    )


def commit(
    operation: str, *stats: WriteStat, replaced: dict | None = None, schema: str = OLD
) -> CommitMetadata:
    by_partition: dict[str, tuple[WriteStat, ...]] = {}
    for one in stats:
        by_partition[one.partition_path] = (*by_partition.get(one.partition_path, ()), one)
    return CommitMetadata(
        operation=operation, stats=by_partition, replaced=replaced or {}, extra={"schema": schema}
    )


def taken(*paths: str, source: str = "landing") -> Consumption:
    return Consumption(
        source=source, files=tuple(SourceFile(path=p, size_bytes=1, modified_ms=1) for p in paths)
    )


UPSERT = commit("UPSERT", stat("f1", merges=True), stat("new-mine", inserts=5))
INSERT = commit("INSERT", stat("new-mine", inserts=5))
FILLING = commit("INSERT", stat("f1", merges=True, inserts=5))
OVERWRITE = commit("INSERT_OVERWRITE", stat("new-mine", inserts=5), replaced={"p": ("f1", "f2")})
DELETE_PARTITION = commit("DELETE_PARTITION", replaced={"p": ("f1", "f2")})
CLUSTERING = commit("CLUSTER", stat("new-mine"), replaced={"p": ("f1", "f2")})

WROTE_MINE = commit("UPSERT", stat("f1", merges=True))
WROTE_OTHER = commit("UPSERT", stat("f9", merges=True))
REPLACED_MINE = commit("CLUSTER", stat("c"), replaced={"p": ("f1",)})
CLUSTERED_OTHER = commit("CLUSTER", stat("c"), replaced={"p": ("f9",)})
INSERTED_HERE = commit("INSERT", stat("n", inserts=3))
INSERTED_ELSEWHERE = commit("INSERT", stat("n", partition="q", inserts=3))
FILLED_OTHER = commit("INSERT", stat("f9", merges=True, inserts=3))
OVERWROTE_HERE = commit("INSERT_OVERWRITE", stat("n", inserts=3), replaced={"p": ("f9",)})
OVERWROTE_ELSEWHERE = commit("INSERT_OVERWRITE", stat("n", partition="q", inserts=3), replaced={"q": ("f9",)})
DELETED_HERE = commit("DELETE_PARTITION", replaced={"p": ("f9",)})
OVERWROTE_TABLE = commit(
    "INSERT_OVERWRITE_TABLE", stat("n", partition="q", inserts=3), replaced={"q": ("f9",)}
)
CHANGED_SCHEMA = commit("ALTER_SCHEMA", schema=NEW)

RETRY, REFUSED, FINE = Verdict.RETRY, Verdict.REFUSED, None

TABLE = {
    "upsert": (
        UPSERT,
        Footprint(looks_up_keys=True),
        {
            "wrote mine": RETRY, "wrote other": FINE, "replaced mine": RETRY, "clustered other": FINE,
            "inserted here": RETRY, "inserted elsewhere": FINE, "filled other": RETRY, "overwrote here": RETRY,
            "overwrote elsewhere": FINE, "deleted here": RETRY, "overwrote table": RETRY, "schema": RETRY,
        },
    ),
    "delete": (
        commit("DELETE", stat("f1", merges=True)),
        Footprint(),
        {
            "wrote mine": RETRY, "wrote other": FINE, "replaced mine": RETRY, "clustered other": FINE,
            "inserted here": FINE, "inserted elsewhere": FINE, "filled other": FINE, "overwrote here": RETRY,
            "overwrote elsewhere": FINE, "deleted here": RETRY, "overwrote table": RETRY, "schema": RETRY,
        },
    ),
    "insert into new files": (
        INSERT,
        Footprint(),
        {
            "wrote mine": FINE, "wrote other": FINE, "replaced mine": FINE, "clustered other": FINE,
            "inserted here": FINE, "inserted elsewhere": FINE, "filled other": FINE, "overwrote here": RETRY,
            "overwrote elsewhere": FINE, "deleted here": RETRY, "overwrote table": RETRY, "schema": RETRY,
        },
    ),
    "insert that fills a file": (
        FILLING,
        Footprint(),
        {
            "wrote mine": RETRY, "wrote other": FINE, "replaced mine": RETRY, "clustered other": FINE,
            "inserted here": FINE, "inserted elsewhere": FINE, "filled other": FINE, "overwrote here": RETRY,
            "overwrote elsewhere": FINE, "deleted here": RETRY, "overwrote table": RETRY, "schema": RETRY,
        },
    ),
    "overwrite": (
        OVERWRITE,
        Footprint(overwritten=frozenset({"p"})),
        {
            "wrote mine": RETRY, "wrote other": FINE, "replaced mine": RETRY, "clustered other": FINE,
            "inserted here": RETRY, "inserted elsewhere": FINE, "filled other": RETRY, "overwrote here": REFUSED,
            "overwrote elsewhere": FINE, "deleted here": REFUSED, "overwrote table": REFUSED, "schema": RETRY,
        },
    ),
    "delete partition": (
        DELETE_PARTITION,
        Footprint(overwritten=frozenset({"p"})),
        {
            "wrote mine": RETRY, "wrote other": FINE, "replaced mine": RETRY, "clustered other": FINE,
            "inserted here": RETRY, "inserted elsewhere": FINE, "filled other": RETRY, "overwrote here": REFUSED,
            "overwrote elsewhere": FINE, "deleted here": REFUSED, "overwrote table": REFUSED, "schema": RETRY,
        },
    ),
    "overwrite of the table": (
        commit("INSERT_OVERWRITE_TABLE", stat("new-mine", inserts=5), replaced={"p": ("f1",)}),
        Footprint(overwrites_table=True),
        {
            "wrote mine": RETRY, "wrote other": FINE, "replaced mine": RETRY, "clustered other": FINE,
            "inserted here": RETRY, "inserted elsewhere": RETRY, "filled other": RETRY, "overwrote here": REFUSED,
            "overwrote elsewhere": REFUSED, "deleted here": REFUSED, "overwrote table": REFUSED, "schema": RETRY,
        },
    ),
}  # fmt: skip

THEIRS = {
    "wrote mine": WROTE_MINE,
    "wrote other": WROTE_OTHER,
    "replaced mine": REPLACED_MINE,
    "clustered other": CLUSTERED_OTHER,
    "inserted here": INSERTED_HERE,
    "inserted elsewhere": INSERTED_ELSEWHERE,
    "filled other": FILLED_OTHER,
    "overwrote here": OVERWROTE_HERE,
    "overwrote elsewhere": OVERWROTE_ELSEWHERE,
    "deleted here": DELETED_HERE,
    "overwrote table": OVERWROTE_TABLE,
    "schema": CHANGED_SCHEMA,
}


@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("mine", TABLE)
def test_the_table(mine: str, theirs: str) -> None:
    metadata, footprint, expected = TABLE[mine]
    conflict = verdict(metadata, THEIRS[theirs], footprint)
    assert (None if conflict is None else conflict.verdict) == expected[theirs]
    assert conflict is None or "20 (" in conflict.reason


def verdict(
    mine: CommitMetadata, theirs: CommitMetadata, footprint: Footprint, *, before: str | None = OLD
) -> Conflict | None:
    return find_conflict(
        effects_of_write("10", mine, footprint),
        effects_of_commit("20", theirs),
        footprint=footprint,
        schema_before=before,
    )


def test_a_key_that_is_unique_in_the_table_may_be_inserted_in_any_partition() -> None:
    scope = Footprint(looks_up_keys=True, key_scope=KeyScope.TABLE)
    assert verdict(UPSERT, INSERTED_ELSEWHERE, scope) is not None
    assert verdict(UPSERT, WROTE_OTHER, scope) is None


def test_key_ranges_that_lie_apart_are_no_conflict() -> None:
    footprint = Footprint(looks_up_keys=True, inserted_keys={"p": KeyRange(smallest="a", largest="f")})
    mine = effects_of_write("10", UPSERT, footprint)

    def theirs(smallest: str, largest: str) -> WriteEffects:
        keys = {"p": KeyRange(smallest=smallest, largest=largest)}
        return WriteEffects(instant="20", operation="INSERT", inserted=frozenset({"p"}), inserted_keys=keys)

    def conflict(work: WriteEffects) -> Conflict | None:
        return find_conflict(mine, work, footprint=footprint, schema_before=OLD)

    assert conflict(theirs("g", "z")) is None
    assert conflict(theirs("f", "z")) is not None
    assert conflict(WriteEffects(instant="20", operation="INSERT", inserted=frozenset({"p"}))) is not None


@pytest.mark.parametrize(
    ("mine", "theirs", "overlap"),
    [
        (taken("a", "b"), taken("b", "c"), True),
        (taken("a"), taken("b"), False),
        (taken("a"), taken("a", source="other"), False),
        (Consumption(source="s", until="20"), Consumption(source="s", until="30"), True),
        (
            Consumption(source="s", query_id="q", batch_id=1),
            Consumption(source="s", query_id="q", batch_id=1),
            True,
        ),
        (
            Consumption(source="s", query_id="q", batch_id=2),
            Consumption(source="s", query_id="q", batch_id=1),
            False,
        ),
    ],
)
def test_what_was_consumed_is_not_consumed_again(
    mine: Consumption, theirs: Consumption, overlap: bool
) -> None:
    footprint = Footprint(consumed=(mine,))
    conflict = find_conflict(
        effects_of_write("10", INSERT, footprint),
        effects_of_commit("20", OVERWROTE_TABLE if overlap else WROTE_OTHER, (theirs,)),
        footprint=footprint,
        schema_before=OLD,
    )
    assert (conflict is not None and conflict.verdict is Verdict.SUPERSEDED) == overlap


@pytest.mark.parametrize(
    ("mine", "theirs", "before", "moved"),
    [
        (OLD, OLD, OLD, False),
        (NEW, OLD, OLD, False),
        (OLD, NEW, OLD, True),
        (NEW, NEW, OLD, False),
        (OLD, OLD, None, False),
        (OLD, "avro:record", OLD, True),
        (OLD, "[1,", None, True),
        (OLD, "[1,", "[1,", False),
    ],
)
def test_the_schema_that_is_written_is_the_one_valid_now(mine, theirs, before, moved) -> None:
    conflict = verdict(
        commit("INSERT", stat("a", inserts=1), schema=mine),
        commit("INSERT", stat("b", inserts=1), schema=theirs.replace(" ", "")),
        Footprint(),
        before=before,
    )
    assert (conflict is not None) == moved


def test_clustering_leaves_out_what_others_changed() -> None:
    mine = effects_of_commit("10", CLUSTERING)
    assert conflicting_groups(mine, effects_of_commit("20", WROTE_MINE)) == {("p", "f1")}
    assert conflicting_groups(mine, effects_of_commit("20", REPLACED_MINE)) == {("p", "f1")}
    assert conflicting_groups(mine, effects_of_commit("20", INSERTED_HERE)) == frozenset()
    assert conflicting_groups(mine, effects_of_commit("20", DELETED_HERE)) == {("p", "f1"), ("p", "f2")}
    assert conflicting_groups(mine, effects_of_commit("20", OVERWROTE_TABLE)) == {("p", "f1"), ("p", "f2")}
