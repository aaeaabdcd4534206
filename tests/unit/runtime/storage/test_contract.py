"""What every store promises, shown on files, on S3, on Google Cloud Storage, and on the stores that tests wrap around."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnsupportedTableError
from parquetry.runtime.storage.bucket import BucketStore
from parquetry.runtime.storage.dry_run import DryRunStore
from parquetry.runtime.storage.model import ObjectStore, PutOutcome, VersionedStore
from parquetry.runtime.storage.open import open_store, probe_put_if_absent, probe_put_if_match
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.storage.regular_file import limit_reads
from parquetry.runtime.timeline.sidecars import probe_path
from tests.support.s3_server import BUCKET
from tests.support.stores import CountingStore, FaultyStore, LostAnswerStore
from tests.support.versioned_folder import VersionedFolder

LOST_ANSWERS = "local, answers lost"


@pytest.fixture(params=["local", "s3", "gs", "counting", "faulty, not yet", LOST_ANSWERS, "dry run"])
def store(request, tmp_path) -> ObjectStore:
    if request.param in ("s3", "gs"):
        options = request.getfixturevalue("s3_options" if request.param == "s3" else "gcs_options")
        return open_store(f"{request.param}://{BUCKET}/{uuid.uuid4().hex}/t", options)
    local = open_store(tmp_path / "tables" / "t")
    match request.param:
        case "counting":
            return CountingStore(local, tmp_path / "log")
        case "faulty, not yet":
            return FaultyStore(local, tmp_path / "count", stop_at=1_000_000)
        case "dry run":
            return DryRunStore(local)
        case "local, answers lost":
            return LostAnswerStore(local)
    return local


def loses_answers(store: ObjectStore) -> bool:
    return isinstance(store, LostAnswerStore)


def paths(store: ObjectStore, prefix: str = "", *, recursive: bool = False) -> list[str]:
    return [info.path for info in store.list(prefix, recursive=recursive)]


def test_put_then_read_gives_the_bytes_and_put_again_replaces_them(store):
    store.put("a/b/c.txt", b"one")
    assert store.read("a/b/c.txt") == b"one"
    store.put("a/b/c.txt", b"")
    assert store.read("a/b/c.txt") == b""


def test_a_listed_object_is_read_in_the_version_that_is_listed(store):
    def listed(content):
        (info,) = store.list("a")
        assert [store.read("a/b", listed=info) for _ in range(2)] == [content] * 2
        return info

    store.put_if_absent("a/b", b"one")
    listed(b"one")
    store.put("a/b", b"two")
    last = listed(b"two")
    store.delete("a/b")
    if isinstance(store, BucketStore):
        assert store.read("a/b", listed=last) == b"two"
    else:
        with pytest.raises(NotFoundError):
            store.read("a/b", listed=last)


def test_a_range_of_an_object_is_read_alone(store):
    store.put("a/b", bytes(range(100)))
    assert store.read_range("a/b", 10, 13) == bytes([10, 11, 12])
    assert store.read_range("a/b", 0, 100) == bytes(range(100))
    with pytest.raises(NotFoundError, match="a/c"):
        store.read_range("a/c", 0, 1)


def test_an_object_of_more_bytes_than_are_read_is_refused_with_its_place_and_a_remedy(store):
    store.put("a/b", bytes(1001))
    assert store.read("a/b", most_bytes=1001) == bytes(1001)
    said = (
        r"cannot read .*a/b: it has 1,001 bytes or more, and at most 1,000 are read; restore it from a copy"
    )
    with pytest.raises(TooLargeError, match=said):
        store.read("a/b", most_bytes=1000)


def test_what_is_read_counts_whatever_the_store(store, tmp_path):
    spent = []
    # A dry run reads from memory what it was given, so the other store gets the object.
    given = open_store(tmp_path / "tables" / "t") if isinstance(store, DryRunStore) else store
    given.put("a", bytes(60))
    limit_reads(100, lambda: spent.append("more"))
    try:
        store.read("a")
        store.read_range("a", 0, 40)
        assert spent == []
        store.read_range("a", 0, 1)
        assert spent == ["more"]
    finally:
        limit_reads(None, lambda: None)
    store.read("a")
    assert spent == ["more"]


def test_stat_says_size_and_time_by_the_stores_clock(store):
    earlier = store.now_ms()
    store.put("a/b", b"12345")
    info = store.stat("a/b")
    assert info is not None
    assert (info.path, info.size_bytes) == ("a/b", 5)
    assert earlier - 2000 <= info.modified_ms <= store.now_ms() + 2000


def test_the_clock_advances_and_is_not_ahead(store):
    first = store.now_ms()
    time.sleep(0.02)
    assert first < store.now_ms() <= time.time() * 1000 + 50


@pytest.mark.parametrize("path", ["nothing", "a", "a/b/c"])
def test_what_is_absent_has_no_stat_and_cannot_be_read(store, path):
    store.put("a/b", b"x")
    assert store.stat(path) is None
    with pytest.raises(StorageError, match=path):
        store.read(path)


def test_an_absent_object_is_a_not_found_error_that_names_it(store):
    for action in (store.read, store.open_input):
        with pytest.raises(NotFoundError, match="no/thing"):
            action("no/thing")


def test_list_gives_the_files_of_a_folder_and_recursive_those_below(store):
    for path in ("z", "p/b", "p/a", "p/q/c", "pq/d", "p/.hidden"):
        store.put(path, path.encode())
    assert paths(store) == ["z"]
    assert paths(store, "p") == ["p/.hidden", "p/a", "p/b"]
    assert paths(store, "p", recursive=True) == ["p/.hidden", "p/a", "p/b", "p/q/c"]
    assert paths(store, recursive=True) == ["p/.hidden", "p/a", "p/b", "p/q/c", "pq/d", "z"]
    assert paths(store, "missing") == paths(store, "missing", recursive=True) == paths(store, "z") == []
    assert [info.size_bytes for info in store.list("p")] == [9, 3, 3]


def test_list_each_gives_what_list_gives(store):
    for path in ("z", "p/b", "p/a", "p/q/c", "pq/d", "p/.hidden", "r/e", "s/f"):
        store.put(path, path.encode())
    for wanted in ([], ["p"], ["pq", "p"], ["p", "p/q", "pq", "r", "missing"], ["", "p", "s"]):
        assert store.list_each(iter(wanted)) == {folder: store.list(folder) for folder in wanted}


def test_list_folders_gives_direct_sub_folders(store):
    for path in ("z", "p/b", "p/q/c", "p/r/s/d", ".hoodie/x"):
        store.put(path, b"")
    assert store.list_folders() == [".hoodie", "p"]
    assert store.list_folders("p") == ["p/q", "p/r"]
    assert store.list_folders("p/q") == store.list_folders("missing") == []


def test_names_of_any_unicode_and_of_url_encoding_survive(store):
    names = ["d=ä ö/f 1", "d=%2F%25/x#y?", "日本/[a]{b}*", "d='q'\"/+&="]
    for name in names:
        store.put(name, name.encode())
    assert paths(store, recursive=True) == sorted(names)
    assert all(store.read(name) == name.encode() for name in names)
    assert store.list_folders() == sorted({name.split("/")[0] for name in names})


def test_put_if_absent_wins_once(store):
    first = store.put_if_absent("t/1", b"first")
    assert first is (PutOutcome.MINE if loses_answers(store) else PutOutcome.WON)
    assert store.put_if_absent("t/1", b"second") is PutOutcome.LOST
    assert store.put_if_absent("t/1", b"first") is PutOutcome.LOST
    assert store.read("t/1") == b"first"


def test_put_if_absent_recognises_its_own_object_by_the_nonce(store):
    first = store.put_if_absent("t/1", b'{"nonce":"n1"}', nonce="n1")
    assert first is (PutOutcome.MINE if loses_answers(store) else PutOutcome.WON)
    assert store.put_if_absent("t/1", b'{"nonce":"n1"}', nonce="n1") is PutOutcome.MINE
    assert store.put_if_absent("t/1", b'{"nonce":"n2"}', nonce="n2") is PutOutcome.LOST
    assert store.read("t/1") == b'{"nonce":"n1"}'


def test_put_if_absent_of_an_empty_object(store):
    assert store.put_if_absent("t/e", b"") is not PutOutcome.LOST
    assert store.put_if_absent("t/e", b"") is PutOutcome.LOST
    assert store.read("t/e") == b""


def test_after_a_delete_put_if_absent_wins_again(store):
    store.put_if_absent("lock", b"1")
    store.delete("lock")
    assert store.put_if_absent("lock", b"2") is not PutOutcome.LOST
    assert store.read("lock") == b"2"


def test_of_many_callers_at_once_exactly_one_wins(store):
    for turn in range(5):
        outcomes: dict[str, PutOutcome] = {}
        barrier = threading.Barrier(8)

        def race(nonce, turn=turn, outcomes=outcomes, barrier=barrier):
            barrier.wait()
            outcomes[nonce] = store.put_if_absent(f"race/{turn}", nonce.encode() * 1000, nonce=nonce)

        threads = [threading.Thread(target=race, args=(f"<{number}>",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [nonce for nonce, outcome in outcomes.items() if outcome is not PutOutcome.LOST]
        assert len(outcomes) == 8
        assert len(winners) == 1
        assert store.read(f"race/{turn}") == winners[0].encode() * 1000


@pytest.fixture(params=["s3", "gs", "folder of tests"])
def versioned(request, tmp_path) -> VersionedStore:
    if request.param == "folder of tests":
        return VersionedFolder(str(tmp_path / "t"))
    options = request.getfixturevalue("s3_options" if request.param == "s3" else "gcs_options")
    return open_store(f"{request.param}://{BUCKET}/{uuid.uuid4().hex}/t", options)


def test_folders_replace_no_versions(tmp_path):
    assert not isinstance(open_store(tmp_path), VersionedStore)


def test_only_the_version_that_was_read_is_replaced(versioned):
    assert versioned.read_version("a/b") is None
    assert versioned.put_if_match("a/b", b"1", tag="1") is None
    first = versioned.put_if_match("a/b", b"1", tag=None)
    assert versioned.put_if_match("a/b", b"2", tag=None) is None
    found = versioned.read_version("a/b")
    assert (found.content, found.tag) == (b"1", first)
    second = versioned.put_if_match("a/b", b"2", tag=first)
    assert second not in (None, first)
    assert versioned.put_if_match("a/b", b"3", tag=first) is None
    assert versioned.read("a/b") == b"2"
    versioned.put("a/b", b"4")
    assert versioned.put_if_match("a/b", b"5", tag=second) is None
    versioned.delete("a/b")
    assert versioned.put_if_match("a/b", b"6", tag=second) is None
    assert versioned.stat("a/b") is None


def test_the_probe_accepts_stores_that_replace_versions(versioned):
    probe_put_if_match(versioned, probe_path())
    assert paths(versioned, recursive=True) == []


def test_the_probe_refuses_a_store_that_ignores_the_condition(tmp_path):
    class Ignoring(VersionedFolder):
        def put_if_match(self, path, data, *, tag, patience_seconds=None):
            found = self.read_version(path)
            return super().put_if_match(path, data, tag=None if found is None else found.tag)

    with pytest.raises(StorageError, match=r"does not honour conditional puts \(If-Match\)"):
        probe_put_if_match(Ignoring(str(tmp_path / "t")), probe_path())
    with pytest.raises(UnsupportedTableError, match="storage-based lock"):
        probe_put_if_match(open_store(tmp_path / "t"), probe_path())


def test_a_version_says_when_it_was_made_and_read_by_the_stores_clock(versioned):
    versioned.put("a", b"1")
    found = versioned.read_version("a")
    now_ms = time.time() * 1000
    assert now_ms - 3000 <= found.modified_ms <= now_ms
    assert now_ms - 3000 <= found.read_ms <= now_ms


def test_of_many_that_replace_one_version_exactly_one_wins(versioned):
    tag = versioned.put_if_match("t", b"first", tag=None)
    with ThreadPoolExecutor(max_workers=8) as pool:
        tags = list(pool.map(lambda n: versioned.put_if_match("t", f"<{n}>".encode(), tag=tag), range(8)))
    [(winner, new_tag)] = [(number, tag) for number, tag in enumerate(tags) if tag is not None]
    found = versioned.read_version("t")
    assert (found.content, found.tag) == (f"<{winner}>".encode(), new_tag)


def test_the_probe_accepts_the_store_and_leaves_nothing(store):
    probe_put_if_absent(store, probe_path())
    assert paths(store, recursive=True) == []


def test_the_probe_refuses_a_store_that_overwrites():
    class Overwriting:
        uri = "memory"

        def __init__(self):
            self.objects = {}

        def stat(self, path):
            return None

        def put_if_absent(self, path, data, *, nonce):
            self.objects[path] = data
            return PutOutcome.WON

        def read(self, path):
            return self.objects[path]

        def delete(self, path):
            self.objects.pop(path, None)

    with pytest.raises(StorageError, match="conditional puts"):
        probe_put_if_absent(Overwriting(), probe_path())


def test_the_probe_of_a_store_that_cannot_be_reached_puts_nothing():
    class Unreachable:
        def stat(self, path):
            raise StorageError(f"cannot check {path}: no connection")

    with pytest.raises(StorageError, match="no connection"):
        probe_put_if_absent(Unreachable(), probe_path())


def test_a_created_file_appears_whole_when_the_block_ends(store):
    with store.create_file("p/f.parquet") as sink:
        sink.write(b"half ")
        assert not [path for path in paths(store, recursive=True) if path.endswith(".parquet")]
        sink.write(b"whole")
    assert store.read("p/f.parquet") == b"half whole"
    assert paths(store, recursive=True) == ["p/f.parquet"]


def test_a_created_file_of_a_block_that_raises_never_appears(store):
    for size in (10, 40_000_000):
        with pytest.raises(KeyError), store.create_file("p/f.parquet") as sink:  # noqa: PT012
            sink.write(b"x" * size)
            raise KeyError
    assert paths(store, recursive=True) == []


def test_a_created_file_replaces_one_that_is_there(store):
    store.put("p/f", b"old")
    with pytest.raises(KeyError), store.create_file("p/f") as sink:  # noqa: PT012
        sink.write(b"new")
        raise KeyError
    assert store.read("p/f") == b"old"
    with store.create_file("p/f") as sink:
        sink.write(b"new")
    assert store.read("p/f") == b"new"


def test_an_empty_created_file(store):
    with store.create_file("p/empty"):
        pass
    assert store.read("p/empty") == b""


def test_errors_of_the_block_itself_pass_through(store):
    with pytest.raises(FileNotFoundError, match="elsewhere"), store.create_file("p/f"):
        raise FileNotFoundError("elsewhere")


def test_parquet_is_written_and_read_through_the_store(store):
    table = pa.table({"a": list(range(10_000)), "b": [f"row {i}" for i in range(10_000)]})
    with store.create_file("p/f.parquet") as sink:
        with pq.ParquetWriter(sink, table.schema) as writer:
            writer.write_table(table, row_group_size=1000)
        assert sink.tell() > 0
    with store.open_input("p/f.parquet") as source:
        file = pq.ParquetFile(source)
        assert file.metadata.num_row_groups == 10
        assert file.read_row_group(7).equals(table.slice(7000, 1000))
        assert file.read().equals(table)


def test_a_moved_object_is_at_its_new_path_alone_with_the_time_of_now(store):
    store.put("p/old", b"old")
    store.put("q/new [1]", b"replaced")
    before_ms = store.stat("p/old").modified_ms
    time.sleep(1.1)  # the clock of a bucket has whole seconds
    store.move("p/old", "q/new [1]")
    assert store.read("q/new [1]") == b"old"
    assert store.read_range("q/new [1]", 1, 3) == b"ld"
    assert store.open_input("q/new [1]").read() == b"old"
    assert paths(store, recursive=True) == ["q/new [1]"]
    assert store.stat("p/old") is None
    info = store.stat("q/new [1]")
    assert info.size_bytes == 3
    assert info.modified_ms >= before_ms + 1000
    store.move("p/old", "q/new [1]")
    store.move("never/was", "r/x")
    assert paths(store, recursive=True) == ["q/new [1]"]
    store.move("q/new [1]", "p/old")
    assert [store.read("p/old"), paths(store, "q")] == [b"old", []]


def test_delete_ignores_an_absent_object(store):
    store.put("p/f", b"x")
    for path in ("p/f", "p/f", "never/was"):
        store.delete(path)
    assert paths(store, recursive=True) == []


def test_delete_all_passes_over_absent_ones(store):
    for path in ("p/a", "p/b", "q/c", "q/d"):
        store.put(path, b"")
    store.delete_all(path for path in ("p/a", "p/b", "q/c", "gone/x"))
    assert paths(store, recursive=True) == ["q/d"]
    store.delete_all([])


def test_delete_folder_removes_what_is_below_and_nothing_beside(store):
    for path in ("p/a", "p/q/b", "p/q/r/c", "pq/d", "p.txt"):
        store.put(path, b"")
    store.delete_folder("p")
    store.delete_folder("p")
    assert paths(store, recursive=True) == ["p.txt", "pq/d"]
    assert store.list_folders() == ["pq"]


def test_delete_folder_of_known_objects(store):
    for path in ("p/a", "p/q/b", "pq/d"):
        store.put(path, b"")
    store.delete_folder("p", objects=iter(["p/a", "p/q/b", "p/gone"]))
    assert paths(store, recursive=True) == ["pq/d"]
    assert store.list_folders() == ["pq"]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a//b", "", ".", "a/.", "a\0b", "a/"])
def test_paths_that_leave_the_root_are_refused(store, path):
    def create():
        with store.create_file(path):
            pass

    for action in (
        lambda: store.read(path),
        lambda: store.open_input(path),
        lambda: store.stat(path),
        lambda: store.put(path, b""),
        lambda: store.put_if_absent(path, b""),
        create,
        lambda: store.delete(path),
        lambda: store.delete_all([path]),
    ):
        with pytest.raises(StorageError, match="does not stay below"):
            action()
    assert paths(store, recursive=True) == []


@pytest.mark.parametrize("prefix", ["..", "a/../..", "/", "/etc", "a//b", "."])
def test_folders_that_leave_the_root_are_refused(store, prefix):
    for action in (store.list, store.list_folders, store.delete_folder, store.spark_uri):
        with pytest.raises(StorageError, match="does not stay below"):
            action(prefix)


def test_the_root_itself_is_not_deleted(store):
    store.put("a", b"x")
    with pytest.raises(StorageError, match="does not stay below"):
        store.delete_folder("")
    assert store.read("a") == b"x"


def test_unfinished_names_are_neither_instants_nor_base_files(store):
    from parquetry.runtime.storage.paths import temporary_path

    marker = ".hoodie/.temp/1/p=1/a-0_0-0-0_20260101000000000.parquet.marker.CREATE"
    base_file = "p=1/a-0_0-0-0_20260101000000000.parquet"
    for path in (".hoodie/20260101000000000.commit", base_file, marker, "x", "a%2Eb.c", ".%25.d"):
        folder, _, name = path.rpartition("/")
        temporary = temporary_path(path)
        assert temporary.rpartition("/")[0] == folder
        assert temporary.rpartition("/")[2].startswith(".")
        assert temporary.endswith(".tmp")
        # Hudi looks for these anywhere in a name.
        assert not any(part in temporary.rpartition("/")[2] for part in (".parquet", ".marker", ".commit"))
        assert finished_name(temporary) == name
        assert finished_name(path) is None
        store.put(temporary, b"")
        assert temporary in paths(store, folder)


def test_a_store_pickles_and_works_in_another_process(store, tmp_path):
    if isinstance(store, DryRunStore):
        with pytest.raises(TypeError, match="a dry run stays in its process"):
            pickle.dumps(store)
        return
    store.put("from/here", b"hello")
    pickled = tmp_path / "store.pickle"
    pickled.write_bytes(pickle.dumps(store))
    code = (
        "import pickle, pathlib, sys; s = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes());"
        "s.put('from/there', s.read('from/here') + b' back')"
    )
    subprocess.run([sys.executable, "-c", code, str(pickled)], check=True, cwd=".")
    assert store.read("from/there") == b"hello back"
    assert pickle.loads(pickle.dumps(store)).uri == store.uri
