from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.properties import (
    BACKUP_PATH,
    CHECKSUM_KEY,
    PROPERTIES_PATH,
    format_properties,
    is_intact,
    parse_properties,
    read_table_properties,
    table_checksum,
    update_table_properties,
)
from tests.support.stores import FaultyStore, Stop, Stopped

PROPERTIES = {"hoodie.table.name": "trips", "hoodie.table.version": "6"}


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path)
    whole = {**PROPERTIES, CHECKSUM_KEY: table_checksum(PROPERTIES)}
    store.put(PROPERTIES_PATH, format_properties(whole, comment="test"))
    return store


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(exclude_categories=["Cs"])),
    )
)
def test_properties_survive_their_file(properties):
    assert parse_properties(format_properties(properties, comment="any")) == properties


def test_java_spellings_are_understood():
    content = (
        b"#comment\n ! another\n\na=1\nb : 2\n  c\t3\nd\ne=\\\n   long \\\n   tail\n"
        b'schema={"type"\\:"record"}\nk\\=\\:\\ x=v\\u00e9\\t\\\\\r\nemoji=\\uD83D\\uDE00\nlast=latin\xe9'
    )
    assert parse_properties(content) == {
        "a": "1", "b": "2", "c": "3", "d": "", "e": "long tail", "schema": '{"type":"record"}',
        "k=: x": "v\u00e9\t\\", "emoji": "\U0001f600", "last": "latin\u00e9",
    }  # fmt: skip


def test_values_are_written_as_hudi_rs_reads_them():
    assert format_properties({"s": '{"a":"b=c"}'}, comment="c") == b'#c\ns={"a":"b=c"}\n'


def test_the_checksum_is_that_of_a_table_made_by_hudi():
    made = {"hoodie.table.name": "v6_complexkeygen_hivestyle", "hoodie.database.name": "default"}
    assert table_checksum(made) == "281415413"
    assert is_intact({**made, CHECKSUM_KEY: "281415413"})
    assert not is_intact({**made, CHECKSUM_KEY: "281415414"})
    assert is_intact(made)


def test_there_is_no_table_without_either_file(tmp_path):
    with pytest.raises(NotFoundError):
        read_table_properties(open_store(tmp_path))


def test_the_backup_stands_in_while_the_file_is_replaced(store):
    content = store.read(PROPERTIES_PATH)
    store.put(BACKUP_PATH, content)
    store.delete(PROPERTIES_PATH)
    assert read_table_properties(store)["hoodie.table.name"] == "trips"
    store.put(PROPERTIES_PATH, content[:-30])
    assert read_table_properties(store)["hoodie.table.name"] == "trips"


@pytest.mark.parametrize(
    "content", [b"hoodie.table.checksum=1\nhoodie.table.name=trips\n", b"", b"a=\\uZZZZ"]
)
def test_a_cut_off_file_is_named(store, content):
    store.put(PROPERTIES_PATH, content)
    with pytest.raises(CorruptTableError, match=r"hoodie\.properties: truncated or edited.*restore the file"):
        read_table_properties(store)


def test_an_update_changes_removes_and_leaves_no_backup(store):
    new = update_table_properties(
        store, {"x": "1", "hoodie.table.name": "tours"}, remove=["hoodie.table.version"], comment="c"
    )
    assert new == {
        "x": "1",
        "hoodie.table.name": "tours",
        CHECKSUM_KEY: table_checksum({"hoodie.table.name": "tours"}),
    }
    assert read_table_properties(store) == new
    assert store.stat(BACKUP_PATH) is None


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("stop_at", range(1, 4))
def test_an_update_stopped_anywhere_leaves_the_old_or_the_new_file_and_the_next_one_succeeds(
    store, tmp_path, stop_at, stop
):
    before = read_table_properties(store)
    faulty = FaultyStore(store, tmp_path / "counter", stop_at=stop_at, stop=stop)
    with pytest.raises(Stopped):
        update_table_properties(faulty, {"x": "1"}, comment="c")
    assert read_table_properties(store) in (before, {**before, "x": "1"})
    assert update_table_properties(store, {"x": "2"}, comment="c")["x"] == "2"
    assert store.stat(BACKUP_PATH) is None


def test_a_lost_file_is_brought_back_from_its_backup(store):
    store.put(BACKUP_PATH, store.read(PROPERTIES_PATH))
    store.delete(PROPERTIES_PATH)
    update_table_properties(store, {"x": "1"}, comment="c")
    assert read_table_properties(store)["x"] == "1"
