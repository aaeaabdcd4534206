"""Removed rows of a table are found, also if the write that removed them completed late, or was archived."""

from __future__ import annotations

import pytest

from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.commit.rollback import remove_completed
from parquetry.runtime.sources.removals import removal_between
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.small_table import FAST, SmallTable, make_table


def test_a_late_delete_in_an_older_file_of_the_archive_is_found(tmp_path):
    path = tmp_path / "t"
    make_table(path)
    change_version(open_store(path), 9, timing=FAST)
    small = SmallTable(open_store(path))
    small.upsert({"a": (1, "a"), "b": (1, "a")})
    small.delete(["b"])
    for key in "cde":
        small.upsert({key: (1, key)})
    late, _, since, last = open_table(open_store(path)).timeline().completed_writes[-4:]
    completed_at = str(int(since.position) + 1)
    assert since.position < completed_at < last.position
    (path / late.path).rename(path / f".hoodie/timeline/{late.time}_{completed_at}.commit")

    handle = open_table(open_store(path))
    timeline = handle.timeline()
    expected = removal_between(handle, since.position, last.position)
    assert late.time in str(expected)
    older = timeline.completed_writes[:-1]
    for batch in (older[:-2], older[-2:]):
        timeline.layout.archive(handle.store, timeline.files, batch)
    remove_completed(timeline, older)
    assert removal_between(handle, since.position, last.position) == expected


@pytest.mark.parametrize("version", [6, 9])
def test_a_damaged_archive_says_nothing_about_removed_rows(tmp_path, version):
    path = tmp_path / "t"
    make_table(path)
    change_version(open_store(path), version, timing=FAST)
    small = SmallTable(open_store(path))
    for key in "abcd":
        small.upsert({key: (1, key)})
    handle = open_table(open_store(path))
    timeline = handle.timeline()
    *older, since, between, last = timeline.completed_writes
    timeline.layout.archive(handle.store, timeline.files, [*older, since, between])
    remove_completed(timeline, [*older, since, between])
    assert removal_between(handle, since.position, last.position) is None
    for file in (path / timeline.layout.archive_folder).iterdir():
        if file.suffix == ".parquet" or file.name.startswith(".commits_"):
            file.write_bytes(file.read_bytes()[:100])
    removal = removal_between(handle, since.position, last.position)
    assert str(removal).endswith("are archived, and no archive log says what they removed")
