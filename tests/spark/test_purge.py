"""Purged rows are in no file of the table, whatever held them before, and all other rows stay."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.sources.ledger import Consumption, SourceFile, record
from parquetry.runtime.spark.purge import FoundValue, PurgeReport, PurgeRequest, Survey, purge, survey
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, RetentionPolicy, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.table import Table
from tests.support.hudi_rs import read

pytestmark = pytest.mark.spark

ANNA, OTHER = "anna@example.com", "anna@example.com.au"
SPEC = TableSpec(
    name="people",
    columns=(
        Column(name="mail", type="string", nullable=False),
        Column(name="name", type="string", pii=True),
        Column(name="at", type="bigint"),
        Column(name="land", type="string"),
    ),
    record_key=("mail",),
    ordering="at",
    partition_by=("land",),
    files=FilesPolicy(compression="none"),
)
KEEP_ONE = RetentionPolicy(keep_commits=1, archive_keep_commits=1)


class People:
    """A table of people, with a row for Anna in its first file."""

    def __init__(
        self, spark, path: Path, spec: TableSpec = SPEC, *, allowed: Allowed = NOTHING_ALLOWED
    ) -> None:
        self.spark, self.path = spark, path
        self.store: ObjectStore = open_store(str(path), None, allowed)
        self.apply(spec)
        self.upsert(
            (ANNA, "Anna Lindqvist", 1, "se"), (OTHER, "Annabel", 1, "se"), ("z@x.org", "Zoe", 1, "de")
        )

    @property
    def handle(self) -> TableHandle:
        return open_table(self.store)

    def apply(self, spec: TableSpec, *, number: int | None = None) -> None:
        known = Requirements(exists=number is not None, applied_number=number)
        apply_change(
            self.store, TableChange(spec=spec, requirements=known, alters_schema=False, project="people")
        )

    def upsert(self, *rows: tuple[str, str, int, str]) -> None:
        names = ("mail", "name", "at", "land")
        Table(self.store).upsert(pa.table({n: [row[i] for row in rows] for i, n in enumerate(names)}))

    def delete(self, *mails: str) -> None:
        Table(self.store).delete(pa.table({"mail": list(mails)}))

    def purge(self, **wish) -> PurgeReport:
        return self.handle.cleared(purge(self.spark, self.handle, self.survey(**wish)))

    def survey(self, **wish) -> Survey:
        return survey(self.spark, self.handle, PurgeRequest(**wish))

    def mails(self) -> list[str]:
        return sorted(row["mail"] for row in read(str(self.path)).to_pylist())

    def holding(self, value: str) -> list[str]:
        """The files in whose bytes, or in whose path, the value stands and does not go on."""
        pattern = re.compile(re.escape(value.encode()) + rb"(?![\w.])")
        files = [file for file in self.path.rglob("*") if file.is_file()]
        return sorted(
            str(file.relative_to(self.path))
            for file in files
            if pattern.search(file.read_bytes()) or pattern.search(str(file).encode())
        )


@pytest.fixture
def people(spark, tmp_path) -> People:
    return People(spark, tmp_path / "people")


def test_nothing_is_left_of_a_row_that_was_deleted_cleaned_and_archived(
    people: People, tmp_path: Path
) -> None:
    people.delete(ANNA)
    for number in range(4):
        people.upsert((OTHER, "Annabel", 2 + number, "se"))
    clean(people.handle, policy=KEEP_ONE)
    archive(people.handle, policy=KEEP_ONE)
    assert any("archived" in file for file in people.holding(ANNA))
    keys = tmp_path / "keys.csv"
    keys.write_text(f"mail\n{ANNA}\n")

    report = people.purge(keys=keys)

    assert report.found == ()
    assert people.holding(ANNA) == []
    assert people.mails() == [OTHER, "z@x.org"]


@pytest.mark.parametrize("meta_columns", [MetaColumns.ALL, MetaColumns.NONE])
def test_rows_are_deleted_and_go_from_old_versions(spark, tmp_path: Path, meta_columns: MetaColumns) -> None:
    files = replace(SPEC.files, meta_columns=meta_columns)
    people = People(spark, tmp_path / "people", replace(SPEC, files=files))
    people.upsert((ANNA, "Anna Berg", 2, "se"))
    assert people.holding(ANNA)
    surveyed = people.survey(where="name = 'Anna Berg'")
    assert (surveyed.rows, surveyed.files, surveyed.older_rows, surveyed.older_files) == (1, 1, 1, 1)
    assert surveyed.sources == (() if meta_columns.has_commit_times else None)

    report = people.purge(where="name = 'Anna Berg'")

    assert (report.rows_deleted, report.found) == (1, ())
    assert [people.holding(value) for value in (ANNA, "Anna Berg", "Anna Lindqvist")] == [[], [], []]
    assert people.mails() == [OTHER, "z@x.org"]


def test_rows_that_do_not_match_now_stay_with_their_keys(people: People) -> None:
    people.upsert((ANNA, "Anna Berg", 2, "se"))

    report = people.purge(where="name = 'Anna Lindqvist'")

    assert (report.rows_deleted, report.files_deleted, report.shared_values, report.found) == (0, 1, 0, ())
    assert people.holding("Anna Lindqvist") == []
    assert people.mails() == [ANNA, OTHER, "z@x.org"]


def test_values_that_other_rows_have_too_are_not_searched_for(people: People) -> None:
    people.upsert(("a@x.org", "Zoe", 2, "de"))

    report = people.purge(where="mail = 'a@x.org'")

    assert (report.shared_values, report.found) == (1, ())
    assert people.holding("a@x.org") == []


def test_a_purge_that_ended_early_is_run_again(people: People, monkeypatch) -> None:
    def end(*_, **__):
        raise KeyboardInterrupt

    for step in ("clean_groups", "scrub"):
        people.upsert((ANNA, "Anna Lindqvist", 3, "se"))
        with monkeypatch.context() as patch:
            patch.setattr(f"parquetry.runtime.spark.purge.{step}", end)
            with pytest.raises(KeyboardInterrupt):
                people.purge(where=f"mail = '{ANNA}'")
        assert people.mails() == [OTHER, "z@x.org"]
        assert people.holding(ANNA)
        assert people.purge(where=f"mail = '{ANNA}'").found == ()
        assert people.holding(ANNA) == []


def test_files_of_a_savepoint_are_named_before_anything_is_done(people: People) -> None:
    savepoint = create_savepoint(people.handle).instant
    people.delete(ANNA)
    before = people.holding(ANNA)
    with pytest.raises(InvalidDataError, match=rf"savepoint {savepoint} protects 1 files .*--delete"):
        people.purge(where=f"mail = '{ANNA}'")
    assert people.holding(ANNA) == before
    delete_savepoint(people.handle, savepoint)
    assert people.purge(where=f"mail = '{ANNA}'").found == ()
    assert people.holding(ANNA) == []


def test_keys_that_prefix_one_another(spark, tmp_path: Path) -> None:
    people = People(spark, tmp_path / "people")
    people.upsert(("user-1", "One", 1, "se"), ("user-10", "Ten", 1, "se"), ("user", "None", 1, "se"))
    keys = tmp_path / "keys.csv"
    keys.write_text("mail\nuser-1\n")

    assert people.purge(keys=keys).found == ()

    assert people.holding("user-1") == []
    assert people.mails() == [ANNA, OTHER, "user", "user-10", "z@x.org"]


def test_a_partition_and_a_file_that_hold_a_value_are_found(spark, tmp_path: Path) -> None:
    columns = tuple(replace(c, pii=c.name in ("mail", "land")) for c in SPEC.columns)
    people = People(spark, tmp_path / "people", replace(SPEC, columns=columns))
    people.upsert(("lind@x.org", "Anna", 3, "Lindqvist street"))
    people.store.put(".hoodie/notes.txt", b"call lind@x.org back")

    report = people.purge(where="land = 'Lindqvist street'")

    assert not report.is_proven
    assert FoundValue(file=".hoodie/notes.txt", place="text") in report.found
    places = {(one.file.partition("/")[0], one.place) for one in report.found}
    assert ("land=***", "path") in places
    assert "Lindqvist" not in str([one.file for one in report.found])


def test_an_encrypted_table(spark, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(base64.b64encode(os.urandom(32)))
    key = f"file:{tmp_path}/key"
    people = People(spark, tmp_path / "people", allowed=Allowed(keys=frozenset([key])))
    encrypted = replace(SPEC, files=replace(SPEC.files, encryption_key=key))
    people.apply(encrypted, number=1)
    people.upsert((ANNA, "Anna Berg", 2, "se"))
    assert people.holding(ANNA)

    report = people.purge(where="name = 'Anna Berg'")

    assert (report.rows_deleted, report.found) == (1, ())
    assert people.holding(ANNA) == []
    assert sorted(row.mail for row in Table(people.store).read(spark).collect()) == [OTHER, "z@x.org"]


def test_sources_of_the_rows_are_named_and_a_bad_condition_refused(people: People) -> None:
    commit = people.handle.timeline().completed_writes[-1].time
    file = SourceFile(path="landing/anna.csv", size_bytes=1, modified_ms=1)
    record(people.store, commit, Consumption(source="crm", files=(file,)))
    (source,) = people.survey(where=f"mail = '{ANNA}'").sources
    assert (source.source, source.files, source.paths) == ("crm", 1, ("landing/anna.csv",))
    with pytest.raises(InvalidDataError):
        people.survey(where="no_such_column = 1")
