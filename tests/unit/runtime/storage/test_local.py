"""What is particular to files: Hadoop's checksum files, links, and a disk that refuses."""

from __future__ import annotations

import errno
import io
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from parquetry.message import Value
from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnknownOutcomeError
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.os_errors import storage_error
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(str(tmp_path / "t"))


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@contextmanager
def mounted(folder: Path, *options: str):
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def without_permission(folder: Path):
    """The folder cannot be written to; root steps down meanwhile, as nothing stops root."""
    root = os.geteuid() == 0
    folder.chmod(0o555)
    parents = [parent for parent in folder.parents if root and parent.stat().st_mode & 0o005 != 0o005]
    modes = [parent.stat().st_mode for parent in parents]
    for parent in parents:
        parent.chmod(0o755)
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for parent, mode in zip(parents, modes, strict=True):
            parent.chmod(mode)
        folder.chmod(0o755)


def all_writes(store, path):
    def create():
        with store.create_file(path) as sink:
            sink.write(b"x")

    return (lambda: store.put(path, b"x"), lambda: store.put_if_absent(path, b"x"), create)


@pytest.mark.parametrize("write", [0, 1, 2])
def test_a_stale_checksum_file_goes_with_every_write(store, write):
    store.put("p/.f.crc", b"stale")
    store.put("p/.other.crc", b"stays")
    if write != 1:
        store.put("p/f", b"old")
        store.put("p/.f.crc", b"stale")
    all_writes(store, "p/f")[write]()
    assert everything(store.root) == ["p/.other.crc", "p/f"]


def test_a_lost_put_leaves_the_winners_checksum_file(store):
    store.put("p/f", b"winner")
    store.put("p/.f.crc", b"right")
    assert store.put_if_absent("p/f", b"x") is PutOutcome.LOST
    assert everything(store.root) == ["p/.f.crc", "p/f"]


def test_deletes_take_the_checksum_file_along(store):
    for path in ("p/a", "p/.a.crc", "p/b", "p/.b.crc", "p/.gone.crc"):
        store.put(path, b"")
    store.delete("p/a")
    store.delete_all(["p/b", "p/gone"])
    assert everything(store.root) == []


def test_a_move_leaves_no_checksum_file_that_readers_would_check(store):
    for path in ("p/a", "p/.a.crc", "q/b", "q/.b.crc"):
        store.put(path, path.encode())
    store.move("p/a", "q/b")
    assert everything(store.root) == ["q/b"]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM])
def test_a_file_that_cannot_be_renamed_is_copied(store, monkeypatch, code):
    store.put("p/a", b"rows" * 1_000_000)

    def refused(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "rename" if code == errno.EXDEV else "utime", refused)
    store.move("p/a", "q/b")
    assert everything(store.root) == ["q/b"]
    assert store.read("q/b") == b"rows" * 1_000_000


def test_a_move_follows_no_link(store, tmp_path):
    (tmp_path / "theirs").write_text("theirs")
    store.put("p/f", b"")
    (store.root / "p/link").symlink_to(tmp_path / "theirs")
    (store.root / "out").symlink_to(tmp_path)
    for path, to in (("p/link", "q/x"), ("p/f", "out/x"), ("out/theirs", "q/x")):
        with pytest.raises(StorageError, match="is a link"):
            store.move(path, to)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t", "theirs"]


@pytest.mark.parametrize("to", ["outside", "t/inside"])
def test_no_folder_is_a_link(store, tmp_path, to):
    theirs = tmp_path / to
    theirs.mkdir(parents=True)
    (theirs / "theirs").write_text("theirs")
    (store.root).mkdir(exist_ok=True)
    (store.root / "p").symlink_to(theirs)
    for action in (
        *all_writes(store, "p/f"),
        lambda: store.delete("p/theirs"),
        lambda: store.delete_all(["p/theirs"]),
        lambda: store.delete_folder("p/theirs"),
        lambda: store.check_writable("p"),
        lambda: store.read("p/theirs"),
        lambda: store.read_range("p/theirs", 0, 1),
        lambda: store.open_input("p/theirs"),
        lambda: store.stat("p/theirs"),
        lambda: store.list("p"),
        lambda: store.list(""),
        lambda: store.list(recursive=True),
        lambda: store.list_folders(""),
        lambda: store.list_folders("p"),
    ):
        with pytest.raises(
            StorageError, match=r"t/p' is a link, and parquetry follows no links .*; replace it"
        ):
            action()
    assert everything(theirs) == ["theirs"]


def test_no_file_is_a_link(store, tmp_path):
    store.put("g", b"theirs")
    (store.root / "f").symlink_to("g")
    for action in (
        lambda: store.read("f"),
        lambda: store.read_range("f", 0, 1),
        lambda: store.open_input("f"),
        lambda: store.stat("f"),
        lambda: store.list(""),
        lambda: store.put_if_absent("f", b"x", nonce="x"),
    ):
        with pytest.raises(
            StorageError, match=r"t/f' is a link, and parquetry follows no links .*; replace it"
        ):
            action()


def test_a_link_is_replaced_or_removed_and_never_followed(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    store.root.mkdir()
    for name in ("f", "g", "h", "d"):
        (store.root / name).symlink_to(outside if name == "d" else outside / "theirs")
    store.put("f", b"mine")
    assert store.put_if_absent("g", b"mine") is PutOutcome.LOST
    store.delete("h")
    store.delete_folder("d")
    assert (outside / "theirs").read_text() == "theirs"
    assert everything(store.root) == ["f", "g"]


def test_a_root_that_is_a_link_is_a_root_like_any_other(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = LocalStore(str(tmp_path / "link"))
    store.put("p/f", b"x")
    assert (tmp_path / "real/p/f").read_bytes() == b"x"
    assert store.uri == f"file://{tmp_path}/link"


def test_a_root_that_is_made_again_is_a_root_like_any_other(store):
    for number in range(3):
        store.put("p/f", b"%d" % number)
        assert store.read("p/f") == b"%d" % number
        shutil.rmtree(store.root)
        assert (store.stat("p/f"), store.list(recursive=True), store.list_folders("")) == (None, [], [])


def test_a_root_that_is_exchanged_for_a_link_is_refused(store, tmp_path):
    store.put("p/f", b"mine")
    shutil.copytree(store.root, tmp_path / "theirs")
    store.root.rename(tmp_path / "aside")
    store.root.symlink_to("theirs")
    for action in (lambda: store.read("p/f"), lambda: store.delete("p/f"), *all_writes(store, "p/f")):
        with pytest.raises(StorageError, match=r"/t' is .*replaced after it was opened"):
            action()
    assert (tmp_path / "theirs/p/f").read_bytes() == b"mine"
    assert pickle.loads(pickle.dumps(store)).read("p/f") == b"mine"


def test_a_link_to_the_root_may_not_lead_elsewhere_meanwhile(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("one")
    store = LocalStore(str(tmp_path / "link"))
    store.put("f", b"x")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    with pytest.raises(StorageError, match=r"/link' is another folder: it was replaced"):
        store.put("f", b"y")
    assert everything(tmp_path) == ["one/f"]


def test_an_operation_leaves_no_descriptor_open(store, monkeypatch):
    def act(operation):
        store.put("p/f", b"old")
        with suppress(StorageError):
            operation(store)

    operations = [*(READS | WRITES).values(), lambda store: store.open_input("p/f").close()]
    operations += [
        lambda store: store.read("p"),
        lambda store: store.read("p/f/g"),
        lambda store: store.read("l"),
    ]
    operations += [lambda store: store.put("l/f", b""), lambda store: store.check_writable("p")]
    store.put("p/f", b"old")
    (store.root / "l").symlink_to("p")
    before = os.listdir("/proc/self/fd")
    for operation in operations:
        act(operation)
    assert os.listdir("/proc/self/fd") == before


def test_a_folder_that_may_only_be_passed_through_is_passed_through(tmp_path):
    store = LocalStore(str(tmp_path / "above/t"))
    store.put("p/q/f", b"x")
    for folder in ("above", "above/t", "above/t/p", "above/t/p/q"):
        (tmp_path / folder).chmod(0o711)
    (tmp_path / "beside").mkdir()
    with without_permission(tmp_path / "beside"):
        assert LocalStore(str(tmp_path / "above/t")).read("p/q/f") == b"x"


def test_a_full_disk_names_the_file_and_leaves_nothing_half_done(tmp_path):
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        store = LocalStore(str(disk))
        store.put("p/f", b"before")
        big = os.urandom(2_000_000)

        def create():
            with store.create_file("p/f") as sink:
                sink.write(big)

        for write in (
            lambda: store.put("p/f", big),
            lambda: store.put_if_absent("p/g", big),
            create,
        ):
            message = rf"cannot write {disk}/p/[fg]: No space left on device; free space"
            with pytest.raises(StorageError, match=message):
                write()
        assert store.read("p/f") == b"before"
        assert everything(disk) == ["p/f"]
        store.put("p/g", b"small enough")


def test_a_read_only_mount_names_the_path_and_the_remedy(tmp_path):
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "tmpfs"):
        store = LocalStore(str(disk))
        store.put("p/f", b"x")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for action in (
            *all_writes(store, "p/g"),
            *all_writes(store, "new/g"),
            lambda: store.delete("p/f"),
            lambda: store.delete_all(["p/f"]),
            lambda: store.delete_folder("p"),
        ):
            with pytest.raises(StorageError, match=rf"{disk}/.*Read-only file system; mount .* read-write"):
                action()
        assert store.read("p/f") == b"x"
        assert everything(disk) == ["p/f"]


def test_missing_permission_names_the_path_and_the_remedy(store):
    store.put("p/f", b"x")
    with without_permission(store.root / "p"):
        for action in (
            *all_writes(store, "p/g"),
            lambda: store.delete("p/f"),
            lambda: store.delete_folder("p"),
        ):
            with pytest.raises(StorageError, match=r"t/p.*: Permission denied; grant this user"):
                action()
    assert everything(store.root) == ["p/f"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_system_without_hard_links_is_named(number, store, monkeypatch):
    def refuse(source, target, **_):
        raise OSError(number, os.strerror(number), source)

    store.put("p/f", b"")
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match=r"p/g: its file system does not support hard links"):
        store.put_if_absent("p/g", b"x")
    assert everything(store.root) == ["p/f"]


def test_a_link_whose_answer_got_lost_is_won(store, monkeypatch):
    """A network file system answers "exists" to the repeated request that had succeeded."""
    link = os.link

    def lose(source, target, **options):
        link(source, target, **options)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source)

    monkeypatch.setattr(os, "link", lose)
    assert store.put_if_absent("p/f", b"x") is PutOutcome.WON
    assert everything(store.root) == ["p/f"]


def test_an_object_that_may_not_last_is_an_unknown_outcome(store, monkeypatch):
    store.put("p/f", b"")
    fsync = os.fsync

    def fail_for_folders(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    with pytest.raises(UnknownOutcomeError, match=r"p/g was written, but may not .*: Input/output error"):
        store.put_if_absent("p/g", b"x")


@pytest.mark.parametrize("write", [0, 1, 2])
def test_contents_and_folder_entries_are_synced_before_a_write_returns(store, monkeypatch, write):
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor):
        synced.append(os.path.realpath(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    all_writes(store, "new/folder/f")[write]()
    root = str(store.root)
    assert [str(store.root.parent), root, f"{root}/new"] == synced[:3]
    assert synced[3].startswith(f"{root}/new/folder/.f.")
    assert synced[-1] == f"{root}/new/folder"


def test_a_file_where_a_folder_is_needed_is_named(store):
    store.put("p", b"x")
    for write in all_writes(store, "p/f"):
        with pytest.raises(StorageError, match=r"/p: Not a directory; remove the file"):
            write()


def test_errors_are_worded_with_path_reason_and_remedy():
    absent = storage_error(
        "read", Value.uri("/t/x"), FileNotFoundError(errno.ENOENT, "No such file or directory")
    )
    assert isinstance(absent, NotFoundError)
    assert str(absent) == "cannot read /t/x: No such file or directory; check the path"
    odd = storage_error("list", Value.uri("/t"), OSError(errno.EXDEV, "whatever"))
    assert str(odd) == "cannot list /t: Invalid cross-device link; check the storage, then run again"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/data/t", "/data/t"),
        ("/data/t/", "/data/t"),
        ("file:/data/t", "/data/t"),
        ("file:///data/t%20x", "/data/t%20x"),
        ("file://localhost/data/t", "/data/t"),
        ("FILE:///data/t", "/data/t"),
        (Path("/data/t"), "/data/t"),
    ],
)
def test_open_store_takes_paths_and_file_uris(uri, root):
    store = open_store(uri)
    assert isinstance(store, LocalStore)
    assert store.uri == f"file://{root}"


def test_a_relative_location_is_fixed_when_opened(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store = open_store("warehouse/t")
    monkeypatch.chdir("/")
    assert store.uri == f"file://{tmp_path}/warehouse/t"
    assert store.list(recursive=True) == []


@pytest.mark.parametrize("uri", ["s3:///t", "gs://", "s3a:"])
def test_an_address_without_a_bucket_is_refused(uri):
    with pytest.raises(StorageError, match=r"does not name a bucket; write \w+://bucket/folder"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["hdfs://name/t", "abfss://c@a/t", "wasb://bucket/t", "memory:t"])
def test_other_schemes_are_refused_with_the_ones_that_work(uri):
    with pytest.raises(StorageError, match=r"scheme '(hdfs|abfss|wasb|memory)' is not supported; use .*gs:"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["file:t", "file://host/t", "file:"])
def test_a_file_uri_without_an_absolute_local_path_is_refused(uri):
    with pytest.raises(StorageError, match="is not an absolute local path"):
        open_store(uri)


def test_spark_uri_escapes_what_hadoop_would_glob():
    store = LocalStore("/data/a[1]")
    assert store.spark_uri("d={x}*?/f\\g") == "file:///data/a\\[1\\]/d=\\{x\\}\\*\\?/f\\\\g"
    assert store.spark_uri("") == "file:///data/a\\[1\\]"
    assert store.spark_uri("d=ä 1%2F") == "file:///data/a\\[1\\]/d=ä 1%2F"


READS = {
    "read": lambda store: store.read("p/f"),
    "stat": lambda store: store.stat("p/f"),
    "list": lambda store: store.list("p"),
    "list all": lambda store: store.list("", recursive=True),
    "list folders": lambda store: store.list_folders(""),
}
WRITES = {
    "put": lambda store: store.put("q/g", b"x"),
    "put again": lambda store: store.put("p/f", b"x"),
    "put if absent": lambda store: store.put_if_absent("q/g", b"x"),
    "create": lambda store: all_writes(store, "q/g")[2](),
    "delete": lambda store: store.delete("p/f"),
    "delete all": lambda store: store.delete_all(["p/f"]),
    "delete folder": lambda store: store.delete_folder("p"),
}
CALLS = (
    (io, ("open",)),
    (os, ("fsync", "link", "lstat", "mkdir", "open", "readlink", "rename", "replace", "rmdir", "scandir", "stat", "unlink")),
)  # fmt: skip


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("operation", [*READS, *WRITES])
def test_whatever_the_system_refuses_is_the_products_error(store, monkeypatch, operation, code):
    """Each call to the system in turn fails: the operation does without it, or says what it could not do where."""
    act = (READS | WRITES)[operation]
    said = []
    for module, call in [(module, call) for module, calls in CALLS for call in calls]:
        store.put("p/f", b"old")
        store.delete_folder("q")
        with monkeypatch.context() as patch:

            def fail(path, *_, **__):
                raise OSError(code, os.strerror(code), str(path))

            patch.setattr(module, call, fail)
            try:
                act(store)
            except StorageError as error:
                said.append(str(error))
    assert said
    assert all(str(store.root) in text and ";" in text for text in said)


def test_a_python_that_spells_names_in_another_encoding_opens_no_folder(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c", "import sys, parquetry; parquetry.open(sys.argv[1])", str(tmp_path)],
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    assert "StorageError: this Python encodes file names as ascii" in said.stderr
    assert "start it with PYTHONUTF8=1 in the environment" in said.stderr


def test_a_sparse_file_that_is_too_large_is_refused_before_it_is_read(store):
    store.put("p/f", b"")
    with (store.root / "p" / "f").open("wb") as sparse:
        sparse.truncate(MOST_RECORD_BYTES + 1)
    tracemalloc.start()
    try:
        with pytest.raises(
            TooLargeError, match="268,435,457 bytes or more, and at most 268,435,456 are read"
        ):
            store.read("p/f")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert store.put_if_absent("p/f", b"n1", nonce="n1") is PutOutcome.LOST
