"""A reader finds all rows of one moment while a write is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.read.files import files_to_read
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.stores import WrappedStore

pytestmark = pytest.mark.usefixtures("on_each_version")

BASE = {"k1": (0, "a"), "k2": (0, "b")}


class _Listing(WrappedStore):
    """Calls ``meanwhile`` once, before the first listing of a partition."""

    def __init__(self, inner: ObjectStore, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self._meanwhile = [meanwhile]

    def list_each(self, prefixes: Iterable[str]) -> dict[str, list[ObjectInfo]]:
        listed = [*prefixes]
        if self._meanwhile and "p=a" in listed:
            self._meanwhile.pop()()
        return super().list_each(listed)


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = make_table(tmp_path / "t")
    table.upsert(BASE)
    return table


def test_a_write_of_which_some_files_are_gone_is_not_read_in_part(table: SmallTable, tmp_path: Path) -> None:
    written = str(table.upsert({"k1": (1, "a"), "k2": (1, "b")}).instant)
    kept = next((tmp_path / "t" / "p=b").glob(f"*{written}.parquet"))
    content = kept.read_bytes()

    def half_rolled_back() -> None:
        rollback(table.handle, written, timing=FAST)
        kept.write_bytes(content)

    handle = replace(table.handle, store=_Listing(table.store, half_rolled_back))
    found = [file.path for file in files_to_read(handle, time_zone=None).files]
    assert not any(written in path for path in found)
    assert sorted(path.partition("/")[0] for path in found) == ["p=a", "p=b"]


def test_an_overwritten_partition_does_not_lose_both_its_states(table: SmallTable, tmp_path: Path) -> None:
    written = str(table.overwrite({"n": (1, "a")}).instant)
    handle = replace(
        table.handle, store=_Listing(table.store, lambda: rollback(table.handle, written, timing=FAST))
    )
    found = [file.path for file in files_to_read(handle, time_zone=None).files]
    assert not any(written in path for path in found)
    assert sorted(path.partition("/")[0] for path in found) == ["p=a", "p=b"]
