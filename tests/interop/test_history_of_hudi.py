"""The archive of layout 2: what we make of files of real Hudi, and Hudi of ours. Its commits too, as Avro."""

from __future__ import annotations

import io
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.avro_model import record_schema
from parquetry.runtime.timeline.clean import CleanerPlan
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from parquetry.runtime.timeline.commit_avro import decode_commit, encode_commit, encode_profile
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.lsm_history import (
    HistoryRow,
    append,
    completion_times,
    live_files,
    newest_files_first,
    read_rows,
)
from tests.support.hudi_spark import HudiSpark, HudiTable

pytestmark = pytest.mark.interop

TIMELINE = ".hoodie/timeline"
FOLDER = f"{TIMELINE}/history"
NO_METADATA = {"hoodie.metadata.enable": "false"}
VERSION_9 = NO_METADATA | {
    "hoodie.write.table.version": "9",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "2",
    "hoodie.commits.archival.batch": "1",
    "hoodie.timeline.compaction.batch.size": "3",
}
WRITES = {"commit", "replacecommit"}


@dataclass(slots=True)
class TableOfVersion9:
    """A table that real Hudi writes, merging its files of the archive by threes."""

    hudi: HudiSpark
    path: Path
    writes: int = 0

    def write(self, operation: str = "upsert", **settings: str) -> None:
        """Write two rows, of which one is new."""
        first, self.writes = self.writes, self.writes + 1
        rows = pa.table(
            {
                "id": [f"k{first}", f"k{first + 1}"],
                "p": ["a", "a"],
                "v": pa.array([self.writes] * 2, pa.int64()),
            }
        )
        table = HudiTable(
            path=str(self.path), name="t", key=("id",), ordering="v", partition_by=("p",), options=VERSION_9
        )
        self.hudi.write(table, rows, operation, guarded=False, **settings)

    def call(self, procedure: str, **arguments: object) -> list[dict[str, object]]:
        """Call a procedure without the metadata table."""
        return self.hudi.call_with(NO_METADATA, procedure, str(self.path), **arguments)

    def shown(self) -> dict[str, str]:
        """The archived commits that Hudi lists: their completion times by their times."""
        found = self.call(
            "show_archived_commits", start_ts="20000101000000", end_ts="29991231235959", limit=99
        )
        return {str(row["commit_time"]): str(row["state_transition_time"]) for row in found}

    def keys(self) -> list[str]:
        """The record keys that Hudi reads."""
        return sorted(self.hudi.read(str(self.path)).column("id").to_pylist())

    @property
    def store(self):
        return open_store(self.path)

    def completed(self) -> list[tuple[str, str, str]]:
        """Time, completion time and action of the completed instants on the timeline, ascending."""
        names = (name.partition(".") for name in os.listdir(self.path / TIMELINE) if name[0] != ".")
        return sorted((*times.split("_"), action) for times, _, action in names if "_" in times)

    def archived(self) -> set[tuple[str, str]]:
        """Time and action of the archived instants, by our reading."""
        files = [instants for _, instants in newest_files_first(self.store, FOLDER)]
        assert None not in files
        return {(instant.time, instant.action) for instants in files for instant in instants or ()}

    def copy(self, path: Path) -> TableOfVersion9:
        """The table at another place, with its own future."""
        shutil.copytree(self.path, path)
        return TableOfVersion9(self.hudi, path, self.writes)


@pytest.fixture(scope="module")
def made(hudi_12, tmp_path_factory):
    table = TableOfVersion9(hudi_12, tmp_path_factory.mktemp("version9") / "t")
    table.write(mode="overwrite")
    table.write()
    table.write()
    table.call("run_clean", retain_commits=1)
    table.write("insert_overwrite")
    table.call("run_clustering")
    for _ in range(6):
        table.write()
    return table


def rows_of(table):
    return [row for file in live_files(table.store, FOLDER) for row in read_rows(table.store, FOLDER, file)]


def test_the_archive_of_hudi_is_read_also_where_it_merged_files(made):
    assert any(file.name.endswith("_1.parquet") for file in live_files(made.store, FOLDER))
    shown = made.shown()
    assert completion_times(made.store, FOLDER).items() >= shown.items()
    assert {time for time, action in made.archived() if action == "commit"} <= shown.keys()
    assert {action for _, action in made.archived()} == {"commit", "replacecommit", "clean"}
    assert not made.archived() & {(time, action) for time, _, action in made.completed()}
    operations = {
        instant.commit_metadata().operation
        for _, instants in newest_files_first(made.store, FOLDER)
        for instant in instants or ()
        if instant.is_completed_write
    }
    assert operations == {"UPSERT", "INSERT_OVERWRITE", "CLUSTER"}


def test_the_plan_of_a_row_is_the_requested_file_or_a_profile(made):
    plans = {(row.action, record_name(row.plan)) for row in rows_of(made) if row.plan}
    assert plans == {
        ("clean", "HoodieCleanerPlan"),
        ("replacecommit", "HoodieCommitMetadata"),
        ("replacecommit", "HoodieRequestedReplaceMetadata"),
    }
    assert {row.action for row in rows_of(made) if row.plan is None} == {"commit"}
    for row in rows_of(made):
        if row.action == "clean":
            CleanerPlan.decode(row.plan, place="plan")
        elif row.plan and record_name(row.plan) == "HoodieRequestedReplaceMetadata":
            assert RequestedReplace.decode(row.plan, place="plan").is_clustering


def test_commits_have_the_schemas_of_hudi(made):
    schemas = {record_name(row.metadata): schema_of(row.metadata) for row in rows_of(made)}
    for name in ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata"):
        ours = record_schema(f"commit/{name}")
        assert notation(schemas[name]) == notation(ours)


def test_hudi_reads_and_extends_a_table_whose_commits_we_wrote(made, tmp_path):
    table = made.copy(tmp_path / "t")
    before = table.keys()
    for name in os.listdir(table.path / TIMELINE):
        file = table.path / TIMELINE / name
        if name[0] != "." and name.endswith((".commit", ".replacecommit", ".inflight")) and file.read_bytes():
            is_completed = "_" in name
            encode = encode_commit if is_completed else encode_profile
            if is_completed or "clean" not in name:
                metadata = decode_commit(file.read_bytes())
                file.write_bytes(encode(metadata))
                file.with_name(f".{name}.crc").unlink(missing_ok=True)
                assert decode_commit(file.read_bytes()) == metadata
    assert table.keys() == before
    assert len(table.call("show_commits", limit=99)) >= 3
    for _ in range(3):
        table.write()
    assert table.keys() == sorted({*before, *(f"k{n}" for n in range(table.writes - 3, table.writes + 1))})
    for rows in rows_of(table):
        if rows.action in WRITES:
            decode_commit(rows.metadata)


def archive_oldest(table, count):
    """Move the oldest completed instants to the archive as our service does."""
    leaving = table.completed()[:count]
    rows, paths = [], []
    for time, completed_at, action in leaving:
        pending = [
            f"{TIMELINE}/{name}" for name in os.listdir(table.path / TIMELINE) if name.startswith(f"{time}.")
        ]
        requested = next((path for path in pending if path.endswith(".requested")), None)
        completed = f"{TIMELINE}/{time}_{completed_at}.{action}"
        plan = (
            table.store.read(requested)
            if requested and action in (Action.CLEAN, Action.REPLACECOMMIT)
            else None
        )
        rows.append(
            HistoryRow(
                time=time,
                completed_at=completed_at,
                action=action,
                metadata=table.store.read(completed),
                plan=plan or None,
            )
        )
        paths += [*pending, completed]
    append(table.store, FOLDER, rows)
    table.store.delete_all(paths)
    return {(row.time, row.action) for row in rows}


def test_hudi_lists_our_file_and_its_archiver_goes_on_and_merges_it(made, tmp_path):
    table = made.copy(tmp_path / "t")
    before, keys = table.archived(), table.keys()
    ours = archive_oldest(table, 3)
    assert table.archived() == before | ours
    assert table.keys() == keys
    ours_commits = {time for time, action in ours if action == "commit"}
    assert ours_commits
    assert ours_commits <= table.shown().keys()
    our_file = live_files(table.store, FOLDER)[-1].name
    for _ in range(12):
        table.write()
        if our_file not in {file.name for file in live_files(table.store, FOLDER)}:
            break
    assert our_file not in {file.name for file in live_files(table.store, FOLDER)}
    assert table.archived() > before | ours
    merged = [row for row in rows_of(table) if (row.time, row.action) in ours]
    assert len(merged) == len(ours)
    assert ours_commits <= table.shown().keys()
    assert archive_oldest(table, 1) <= table.archived()
    assert table.archived() >= before | ours


def test_without_the_version_hudi_takes_the_greatest_manifest_as_we_do(made, tmp_path):
    table = made.copy(tmp_path / "t")
    shown, archived = table.shown(), table.archived()
    table.store.delete(f"{FOLDER}/_version_")
    assert table.shown() == shown
    assert table.archived() == archived


def record_name(content):
    return schema_of(content)["name"].rpartition(".")[2]


def schema_of(content):
    return json.loads(fastavro.reader(io.BytesIO(content)).metadata["avro.schema"])


def notation(schema, name=""):
    """A schema without namespaces, documentation and the defaults that Avro does not use."""
    match schema:
        case list():
            return [notation(branch) for branch in schema]
        case {"type": "record", "fields": fields, "name": name}:
            described = [(f["name"], notation(f["type"]), f.get("default", "none")) for f in fields]
            return {"name": name.rpartition(".")[2], "fields": described}
        case dict():
            kept = schema.keys() - {"doc", "default", "namespace"}
            return {key: notation(schema[key]) for key in sorted(kept)}
        case str():
            return schema.rpartition(".")[2]
    return schema
