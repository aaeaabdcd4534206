from __future__ import annotations

import pytest

from parquetry.runtime.errors import CorruptTableError, StalePlanError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.table_spec import Extra
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import AppliedRef, read_applied, read_identity, write_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER, IDENTITY_PATH
from tests.support.applied_records import RECORD, edit
from tests.support.handmade import HandmadeTable, spec
from tests.support.stores import CountingStore, Kind


@pytest.fixture
def table(tmp_path):
    return HandmadeTable(tmp_path / "t")


def test_the_newest_record_is_in_force(table):
    assert read_applied(table.store) is None
    for number in (1, 2, 10):
        write_applied(
            table.store,
            spec(extra=Extra(owner=str(number))),
            number=number,
            plan_id="p",
            git_commit="c" * 40,
        )
    table.store.put(f"{APPLIED_FOLDER}/notes.txt", b"")
    record = read_applied(table.store)
    assert record.ref == AppliedRef(
        number=10, digest=digest_of(spec(extra=Extra(owner="10")).to_json()), plan_id="p", git_commit="c" * 40
    )
    assert record.spec == spec(extra=Extra(owner="10"))
    handle = open_table(table.store)
    assert (handle.applied, handle.spec) == (record.ref, record.spec)


def test_reading_the_record_takes_two_requests(table, tmp_path):
    for number in (1, 2, 3):
        write_applied(table.store, spec(), number=number)
    store = CountingStore(table.store, tmp_path / "log")
    read_applied(store)
    assert store.counts() == {Kind.LIST: 1, Kind.READ: 1}


def test_a_number_is_taken_once(table):
    first = write_applied(table.store, spec(), number=1, plan_id="p")
    assert write_applied(table.store, spec(), number=1, plan_id="p") == first
    with pytest.raises(
        StalePlanError,
        match=r"record 1 was applied by another user or process \(plan p, commit none\); plan again",
    ):
        write_applied(table.store, spec(ordering="n"), number=1, plan_id="q")
    assert read_applied(table.store).spec == spec()


def test_whoever_repeats_an_apply_finishes_it(table):
    first = write_applied(table.store, spec(), number=1, plan_id="p", applied_by="Ann", dirty=True)
    assert write_applied(table.store, spec(), number=1, plan_id="p", applied_by="Bob", dirty=False) == first
    assert (read_applied(table.store).applied_by, read_applied(table.store).dirty) == ("Ann", True)


def test_a_record_without_a_user_is_read(table):
    write_applied(table.store, spec(), number=1)
    assert read_applied(table.store).applied_by is not None

    def without_user(document):
        del document["applied_by"], document["dirty"]

    edit(table.folder / RECORD, without_user)
    record = read_applied(table.store)
    assert (record.applied_by, record.dirty, record.fault) == (None, None, None)


def test_the_name_in_a_record_is_bounded_text(table):
    write_applied(table.store, spec(), number=1, applied_by="a\x1b[2J\nb" + "c" * 500)
    by = read_applied(table.store).applied_by
    assert (by[:9], len(by)) == ("a\\x1b[2J ", 200)


def test_a_record_of_a_newer_version_says_so(table):
    write_applied(table.store, spec(), number=1)
    edit(table.folder / RECORD, lambda document: document["spec"].update(wonder=1))
    with pytest.raises(
        CorruptTableError, match=r"00000000000000000001\.json: spec\.wonder: unknown key.*upgrade"
    ):
        open_table(table.store)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_broken_record_is_named(table, content):
    table.store.put(f"{APPLIED_FOLDER}/{7:020d}.json", content.encode())
    with pytest.raises(CorruptTableError, match=r"applied/00000000000000000007\.json"):
        open_table(table.store)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_broken_identity_is_named(table, content):
    table.store.put(IDENTITY_PATH, content.encode())
    with pytest.raises(CorruptTableError, match=r"\.hoodie/\.parquetry/table\.json"):
        open_table(table.store)


def test_a_table_without_our_records_is_a_plain_hudi_table(table):
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    table.store.delete_folder(".hoodie/.parquetry")
    handle = open_table(open_store(table.folder))
    assert (handle.table_id, handle.project, handle.spec, handle.applied) == (None, None, None, None)
    assert handle.effective_spec(handle.timeline()).columns == spec().columns
    assert len(handle.view(handle.timeline()).all_slices()) == 1


def test_the_identity_says_whose_table_it_is(table):
    identity = read_identity(table.store)
    assert identity.project == "tests"
    assert identity.spec == spec()
    assert open_table(table.store).table_id == identity.table_id
