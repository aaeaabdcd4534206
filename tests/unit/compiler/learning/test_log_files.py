"""Logs in files and folders: compressed, rolled, broken off, and too long lines."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
from concurrent.futures import Future

import pyarrow as pa
import pytest

from parquetry.compiler.learning import log_files
from parquetry.compiler.learning.log_files import LineCounts, lines_of, logs_at
from parquetry.errors import UsageError
from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.ranged_input import RangedFile, RangedInput
from tests.support.s3_server import BUCKET

LINES = [f'{{"Event":"e{number}","text":"{"x" * (number % 90)}"}}'.encode() for number in range(3000)]
CONTENT = b"\n".join(LINES) + b"\n"


def block(codec, content):
    return pa.Codec(codec).compress(content, asbytes=True)


def lz4_java(content, size=1 << 16):
    """The blocks of lz4-java's LZ4BlockOutputStream; the last has no bytes."""
    out = b""
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    for number, part in enumerate(parts):
        stored, method = (part, 0x10) if number == 1 else (block("lz4_raw", part), 0x20)
        out += b"LZ4Block" + struct.pack("<BiiI", method | 6, len(stored), len(part), 0) + stored
    return out + b"LZ4Block" + struct.pack("<BiiI", 0x16, 0, 0, 0)


def snappy_java(content, size=1 << 15):
    """A header of 16 bytes, then blocks with their lengths."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(content), size):
        stored = block("snappy", content[at : at + size])
        out += struct.pack(">i", len(stored)) + stored
    return out


def zstd(content):
    """Two frames, as Spark closes one at each flush."""
    half = len(content) // 2
    return b"".join(block("zstd", part) for part in (content[:half], content[half:]))


FORMS = {
    "plain": lambda content: content,
    "zstd": zstd,
    "gzip": gzip.compress,
    "lz4 frame": lambda content: block("lz4", content),
    "lz4": lz4_java,
    "several lz4": lambda content: lz4_java(content[:1000]) + lz4_java(content[1000:]),
    "snappy": snappy_java,
    "several snappy": lambda content: snappy_java(content[:1000]) + snappy_java(content[1000:]),
}


def found_at(*paths):
    return logs_at(map(str, paths), open_store)


def read(*paths):
    counts = LineCounts()
    return [line for log in found_at(*paths) for line in lines_of(log, counts)], counts


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_whatever_compresses_it(tmp_path, form):
    (tmp_path / "app").write_bytes(FORMS[form](CONTENT))
    lines, counts = read(tmp_path / "app")
    assert lines == LINES
    assert counts == LineCounts()


@pytest.mark.parametrize("form", [form for form in FORMS if form != "plain"])
def test_a_log_without_its_end_is_read_up_to_there(tmp_path, form):
    whole = FORMS[form](CONTENT)
    (tmp_path / "app").write_bytes(whole[: len(whole) - 30])
    lines, counts = read(tmp_path / "app")
    # The last line may be there in part. A block of zstd has up to 128 KiB.
    assert lines[:-1] == LINES[: len(lines) - 1]
    assert len(b"\n".join(lines)) > len(CONTENT) - (1 << 17)
    assert counts.broken_off == [str(tmp_path / "app")]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "plain"])
def test_damage_is_reported(tmp_path, form):
    whole = bytearray(FORMS[form](CONTENT))
    for at in range(20, 60):
        whole[at] ^= 0xFF
    (tmp_path / "app").write_bytes(bytes(whole))
    _, counts = read(tmp_path / "app")
    assert counts.broken_off == [str(tmp_path / "app")]


def test_a_huge_block_is_not_read(tmp_path):
    head = b"LZ4Block" + struct.pack("<BiiI", 0x26, 10, 2**31 - 1, 0)
    (tmp_path / "a").write_bytes(head + b"0123456789")
    (tmp_path / "b").write_bytes(b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"0123456789")
    (tmp_path / "c").write_bytes(snappy_java(b"")[:16] + struct.pack(">i", 6) + b"\xff\xff\xff\xff\x7f0")
    lines, counts = read(tmp_path)
    assert lines == []
    assert len(counts.broken_off) == 3


@pytest.mark.parametrize("method", [0x10, 0x20])
@pytest.mark.parametrize("declared", [9, 4096])
def test_a_block_of_another_length_than_it_says_is_damage(tmp_path, method, declared):
    content = b"0123456789"
    stored = content if method == 0x10 else block("lz4_raw", content)
    head = b"LZ4Block" + struct.pack("<BiiI", method | 6, len(stored), declared, 0)
    (tmp_path / "app").write_bytes(head + stored)
    lines, counts = read(tmp_path / "app")
    assert lines == []
    assert counts.broken_off == [str(tmp_path / "app")]


def test_blocks_without_content_take_no_memory(tmp_path):
    # With a list that is copied for each of them, this takes minutes.
    chunks = [b"a", *[b""] * 200_000, b"b\n"]
    assert [*log_files._lines(chunks, LineCounts(), 10)] == [b"ab"]


def test_json_with_many_values_is_not_parsed():
    assert log_files.json_object(b'{"a":[1,2]}', most_values=4) == {"a": [1, 2]}
    assert log_files.json_object(b'{"a":[1,2]}', most_values=2) is None
    many = b'{"a":[' + b"{}," * log_files.MOST_VALUES + b"{}]}"
    assert log_files.json_object(many) is None


def test_lzf_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "app.lzf").write_bytes(b"ZV\x01" + CONTENT[:100])
    with pytest.raises(UsageError, match="zstd"):
        read(tmp_path / "app.lzf")


def test_a_line_that_is_too_long_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(log_files, "_CHUNK_BYTES", 7)
    kept, long = b"k" * 50, b"l" * 51
    (tmp_path / "app").write_bytes(b"\n".join((kept, long, b"", kept, long, long)))
    counts = LineCounts()
    (log,) = found_at(tmp_path / "app")
    assert [*lines_of(log, counts, longest_bytes=50)] == [kept, b"", kept]
    assert counts.too_long == 3


def test_a_rolled_log_is_one_log_in_the_order_of_its_parts(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    for number in (1, 2, 10):
        (folder / f"events_{number}_app-1.zstd").write_bytes(block("zstd", b"line %d\n" % number))
    (folder / "appstatus_app-1.inprogress").write_bytes(b"")
    (log,) = found_at(tmp_path)
    assert [*lines_of(log, LineCounts())] == [b"line 1", b"line 2", b"line 10"]
    assert found_at(folder) == (log,)
    (folder / "events_2_app-1.compact").write_bytes(b"compacted\n")
    assert read(tmp_path)[0] == [b"compacted", b"line 10"]


def test_each_log_is_read_once_and_links_are_not_followed(tmp_path):
    (tmp_path / "logs" / "more").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"no\n")
    (tmp_path / "logs" / "b").write_bytes(b"b\n")
    (tmp_path / "logs" / "more" / "a.inprogress").write_bytes(b"a\n")
    (tmp_path / "logs" / ".hidden.crc").write_bytes(b"x\n")
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "outside")
    lines, _ = read(tmp_path / "logs", tmp_path / "logs" / "b")
    assert lines == [b"b", b"a"]


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "log").write_bytes(b"a\n")
    assert read(tmp_path)[0] == [b"a"]
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(UsageError, match="neither a file nor a folder"):
            found_at(path)


def test_no_log_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no log"):
        found_at(tmp_path / "none")
    with pytest.raises(UsageError, match="no files"):
        found_at(tmp_path)


@pytest.fixture
def bucket(s3_options, tmp_path):
    """A store of a folder in a bucket, and a function that reads places of that bucket."""
    place = f"s3a://{BUCKET}/{tmp_path.name}/logs"
    counts = LineCounts()

    def read_there(*below):
        logs = logs_at(
            [f"{place}{name}" for name in below], lambda location: open_store(location, s3_options)
        )
        return {log.name.rpartition("/logs/")[2]: [*lines_of(log, counts)] for log in logs}, counts

    return open_store(place, s3_options), read_there


@pytest.mark.parametrize("form", FORMS)
def test_a_log_in_a_bucket_is_read_whatever_compresses_it(bucket, form):
    store, read_there = bucket
    whole = FORMS[form](CONTENT)
    store.put("app", whole)
    store.put("broken/off", whole[: len(whole) - 30])
    assert read_there("/app") == ({"app": LINES}, LineCounts())
    found, counts = read_there("/broken")
    assert found["broken/off"][:-1] == LINES[: len(found["broken/off"]) - 1]
    assert len(counts.broken_off) == (form != "plain")


def test_logs_in_folders_of_a_bucket(bucket):
    store, read_there = bucket
    for path in (
        *("a", "b/c", "b/.hidden", "b/_SUCCESS", "empty", "eventlog_v2_app-1/appstatus_app-1"),
        *(f"eventlog_v2_app-1/events_{number}_app-1" for number in (1, 2, 10)),
    ):
        store.put(path, b"" if path == "empty" else f"{path}\n".encode())
    rolled = [b"eventlog_v2_app-1/events_%d_app-1" % number for number in (1, 2, 10)]
    every = {"a": [b"a"], "b/c": [b"b/c"], "empty": [], "eventlog_v2_app-1": rolled}
    assert read_there("")[0] == read_there("/", "/a", "/b/")[0] == every
    assert read_there("/eventlog_v2_app-1")[0] == {"eventlog_v2_app-1": rolled}
    with pytest.raises(UsageError, match="there is no log at s3a"):
        read_there("/nothing")


def test_a_log_in_a_bucket_takes_large_requests(bucket, s3_requests):
    store, read_there = bucket
    content = CONTENT * (24 * 1024 * 1024 // len(CONTENT))
    store.put("app", content)
    s3_requests.clear()
    assert sum(map(len, read_there("/app")[0]["app"])) == len(content) - content.count(b"\n")
    assert s3_requests == {"HEAD": 1, "GET": 4}


class LargeObject:
    """A store with one object of many equal lines, each of 64 KiB."""

    uri = "s3://lake"

    def __init__(self, lines):
        self.size = lines << 16
        self.line = b"x" * 65535 + b"\n"

    def open_input(self, path):
        del path
        return RangedInput(RangedFile(self.line, self.size, self._fetch))

    def _fetch(self, start, stop):
        found = Future()
        first = start >> 16
        whole = self.line * ((stop >> 16) - first + 1)
        found.set_result(whole[start - (first << 16) : stop - (first << 16)])
        return found


def test_the_memory_for_an_object_does_not_grow_with_it():
    file = log_files.LogFile(path="log", store=LargeObject(4096))
    tracemalloc.start()
    try:
        lines = lines_of(log_files.Log(name="log", files=(file,)), LineCounts())
        assert sum(map(len, lines)) == 4096 * 65535
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_an_object_that_is_replaced_while_it_is_read_is_no_shorter_log(bucket):
    store, _ = bucket
    store.put("app", CONTENT * 150)
    (log,) = logs_at([f"{store.uri}/app"], lambda location: open_store(location, store.options))
    lines = lines_of(log, LineCounts())
    next(lines)
    store.put("app", CONTENT * 150 + b"x")
    with pytest.raises(StorageError, match="replaced"):
        list(lines)


def test_a_bucket_of_another_kind_is_refused_with_a_remedy():
    with pytest.raises(StorageError, match="use a local path"):
        found_at("hdfs://host/spark-logs")
