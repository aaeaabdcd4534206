"""What is particular to files: Hadoop's checksum files, links, and a disk that refuses."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from parquetry.message import Value
from parquetry.runtime.errors import NotFoundError, StorageError, UnknownOutcomeError
from parquetry.runtime.storage.open import LocalStore, PutOutcome, open_store
from parquetry.runtime.storage.os_errors import storage_error


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


def test_writes_through_a_link_out_of_the_root_are_refused(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    store.root.mkdir()
    (store.root / "p").symlink_to(outside)
    for write in all_writes(store, "p/f"):
        with pytest.raises(StorageError, match=r"'p/f' leads out of .*symbolic link; replace"):
            write()
    for action in (
        lambda: store.delete("p/theirs"),
        lambda: store.delete_all(["p/theirs"]),
        lambda: store.delete_folder("p/theirs"),
    ):
        with pytest.raises(StorageError, match="leads out of"):
            action()
    assert everything(outside) == ["theirs"]
    assert store.read("p/theirs") == b"theirs"


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


def test_listing_ends_when_links_go_in_circles(store):
    store.put("p/f", b"x")
    (store.root / "p/again").symlink_to(store.root)
    assert {info.path for info in store.list(recursive=True)} >= {"p/f"}


def test_a_file_is_listed_once_and_by_its_own_name_whatever_links_lead_to_it(store):
    store.put("p/f", b"x")
    for name in ("a", "z"):
        (store.root / name).symlink_to(store.root / "p")
    (store.root / "p/self").symlink_to(store.root)
    assert [i.path for i in store.list(recursive=True)] == ["p/f"]
    assert [i.path for i in store.list("p", recursive=True)] == ["p/f"]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_two_links_to_one_folder_the_first_by_name_counts(store, tmp_path, monkeypatch, backwards):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_bytes(b"x")
    store.put("p/g", b"x")
    for name in ("z", "b", "m"):
        (store.root / f"p/{name}").symlink_to(tmp_path / "outside")
    scandir = os.scandir

    @contextmanager
    def in_some_order(path):
        with scandir(path) as entries:
            yield sorted(entries, key=lambda entry: entry.name, reverse=backwards)

    monkeypatch.setattr(os, "scandir", in_some_order)
    assert [i.path for i in store.list("p", recursive=True)] == ["p/b/f", "p/g"]


@pytest.mark.parametrize("listing", ["list", "list_folders"])
def test_a_link_to_itself_is_named(store, listing):
    store.put("p/f", b"x")
    (store.root / "p/loop").symlink_to("loop")
    with pytest.raises(StorageError, match=r"cannot look at .*/p/loop: .*; remove the circle of symbolic"):
        getattr(store, listing)("p")


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
    def refuse(source, target):
        raise OSError(number, os.strerror(number), source)

    store.put("p/f", b"")
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match=r"p/g: its file system refuses hard links"):
        store.put_if_absent("p/g", b"x")
    assert everything(store.root) == ["p/f"]


def test_a_link_whose_answer_got_lost_is_won(store, monkeypatch):
    """A network file system answers "exists" to the repeated request that had succeeded."""
    link = os.link

    def lose(source, target):
        link(source, target)
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
    with pytest.raises(UnknownOutcomeError, match=r"p/g will last is unknown: Input/output error"):
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
    with pytest.raises(StorageError, match=r"names no bucket; write \w+://bucket/folder"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["hdfs://name/t", "abfss://c@a/t", "wasb://bucket/t", "memory:t"])
def test_other_schemes_are_refused_with_the_ones_that_work(uri):
    with pytest.raises(StorageError, match=r"scheme '(hdfs|abfss|wasb|memory)' is not supported; use .*gs:"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["file:t", "file://host/t", "file:"])
def test_a_file_uri_without_an_absolute_local_path_is_refused(uri):
    with pytest.raises(StorageError, match="names no absolute local path"):
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
    assert "StorageError: this Python spells names of files in ascii" in said.stderr
    assert "start it with PYTHONUTF8=1 in the environment" in said.stderr
