"""What a reader finds while writers clean the table: all rows of one moment, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.table.consistent_read import read_consistently
from parquetry.runtime.table.view import FileSystemView, IncrementalSlices
from tests.support.small_table import FAST, Rows, SmallTable, make_table

pytestmark = pytest.mark.usefixtures("on_each_version")

BASE = {"k1": (0, "a"), "z": (0, "b")}
BY_NUMBER = RetentionPolicy(keep_commits=None, keep_versions=1)


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = make_table(tmp_path / "t")
    table.upsert(BASE)
    return table


def paths_found(table: SmallTable, meanwhile: Callable[[], object]) -> set[str]:
    """The files that a reader finds who has read the timeline when ``meanwhile`` happens."""

    def look(view: FileSystemView) -> tuple[IncrementalSlices, None]:
        meanwhile()
        return IncrementalSlices(
            begin="", end=view.newest, slices=tuple(view.all_slices()), as_of=view.newest
        ), None

    changes, _ = read_consistently(table.handle, look)
    return {part.path for part in changes.slices}


def current(table: SmallTable) -> set[str]:
    handle = table.handle
    return {part.path for part in handle.view(handle.timeline()).all_slices()}


@pytest.mark.parametrize(
    ("operation", "rows"), [("upsert", {"k1": (1, "a")}), ("overwrite", {"n": (1, "a")})]
)
def test_a_version_that_a_clean_takes_before_its_folder_is_listed_is_not_missing(
    operation: str, rows: Rows, table: SmallTable
) -> None:
    pending = [
        lambda: getattr(table, operation)(rows),
        lambda: clean(table.handle, policy=BY_NUMBER, timing=FAST),
    ]

    def write_and_clean() -> None:
        while pending:
            pending.pop(0)()

    assert paths_found(table, write_and_clean) == current(table)
    assert len(current(table)) == 2


def test_a_clean_that_leaves_what_the_reader_sees_changes_nothing(table: SmallTable) -> None:
    for n in (1, 2):
        table.upsert({"k1": (n, "a")})
    seen = current(table)
    looks: list[int] = []

    def clean_older() -> None:
        looks.append(1)
        if len(looks) == 1:
            table.upsert({"k1": (3, "a")})
            kept = clean(table.handle, policy=RetentionPolicy(keep_commits=2), timing=FAST)
            assert kept.files_deleted == 1

    assert paths_found(table, clean_older) == seen
    assert len(looks) == 1


def test_a_table_that_is_cleaned_each_time_is_refused(table: SmallTable) -> None:
    def write_and_clean() -> None:
        table.upsert({"k1": (1, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)

    with pytest.raises(ConflictError, match=r"cleaned or rolled back 5 times .*retention\.clean"):
        paths_found(table, write_and_clean)


def test_a_clean_by_number_that_takes_nothing_the_reader_sees_changes_nothing(table: SmallTable) -> None:
    three = RetentionPolicy(keep_commits=None, keep_versions=3)
    for n in (1, 2, 3):
        table.upsert({"k1": (n, "a")})
    looks: list[int] = []

    def write_and_clean() -> None:
        looks.append(1)
        table.upsert({"k1": (9 + len(looks), "a")})
        assert clean(table.handle, policy=three, timing=FAST).files_deleted

    seen = current(table)
    assert paths_found(table, write_and_clean) == seen
    assert len(looks) == 1
