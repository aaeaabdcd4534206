from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.errors import ConflictError, CorruptTableError, RetryWrite, StorageError
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from parquetry.runtime.storage.local import LocalStore
from tests.support.base_files import SECOND, Alive, Incoming, batches, bucket, context, merging, write
from tests.support.sized_rows import COLUMNS as SIZED
from tests.support.sized_rows import Content, incoming_table
from tests.support.stores import FaultyStore, ReadOnlyStore, Stop, Stopped

COLUMNS = (Column(name="n", type="bigint"), Column(name="word", type="string"))


def some(count: int) -> list[Incoming]:
    return [Incoming(key=f"k{n}", values={"n": n, "word": f"w{n % 3}"}) for n in range(count)]


def files_below(folder):
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file() and ".hoodie" not in str(path.relative_to(folder))
    )


def test_a_base_that_was_cleaned_asks_for_a_retry(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    base = write(ctx, bucket(ctx), some(3)).files[0]
    (tmp_path / base.stat.path).unlink()
    with pytest.raises(RetryWrite, match="was removed by a clean"):
        write(context(tmp_path, COLUMNS, instant=SECOND), merging(base), [])


@pytest.mark.parametrize("damage", ["empty", "no magic", "half", "pages", "footer"])
def test_a_broken_base_is_named_with_a_remedy(tmp_path, damage):
    files = FilesPolicy(compression="zstd")
    ctx = context(tmp_path, COLUMNS, files=files)
    base = write(ctx, bucket(ctx), some(5000)).files[0]
    path = tmp_path / base.stat.path
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    broken = {
        "empty": b"",
        "no magic": content[:-4] + b"XXXX",
        "half": content[: len(content) // 2],
        "pages": content[:200] + bytes(len(content) - 200 - size - 8) + content[-8 - size :],
        "footer": content[: -8 - size] + b"\xee" * size + content[-8:],
    }[damage]
    path.write_bytes(broken)
    ctx = context(tmp_path, COLUMNS, instant=SECOND, files=files)
    with pytest.raises(CorruptTableError) as failure:
        write(ctx, merging(base), [Incoming(key="k1", position=1, values={"n": 5})])
    assert base.stat.path in str(failure.value)
    assert "restore the table to a savepoint" in str(failure.value)
    assert [name for name in files_below(tmp_path) if SECOND in name] == []


def test_a_row_behind_the_end_of_the_base_is_an_error(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    base = write(ctx, bucket(ctx), some(3)).files[0]
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    with pytest.raises(CorruptTableError, match="has 3 rows, but the write changes a row after them"):
        write(ctx, merging(base), [Incoming(key="k3", position=3)])
    assert [name for name in files_below(tmp_path) if SECOND in name] == []


@pytest.mark.parametrize("positions", [[2, 1], [1, 1], [None, 1]])
def test_rows_out_of_order_are_a_bug_and_write_nothing(tmp_path, positions):
    ctx = context(tmp_path, COLUMNS)
    base = write(ctx, bucket(ctx), some(3)).files[0]
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    rows = [batches([Incoming(key="k", position=position)], ctx.schema)[0] for position in positions]
    with pytest.raises(AssertionError, match="rows to write are unsorted"):
        write_bucket(ctx, merging(base), rows)
    assert [name for name in files_below(tmp_path) if SECOND in name] == []


@pytest.mark.parametrize("answers", [0, 1])
def test_a_write_that_was_rolled_back_leaves_no_file(tmp_path, answers):
    ctx = context(tmp_path, COLUMNS, guard=Alive(answers))
    with pytest.raises(ConflictError, match="has been rolled back by another writer; run it again"):
        write(ctx, bucket(ctx), some(3))
    assert files_below(tmp_path) == []


def test_a_late_task_of_a_published_write_leaves_the_file_that_another_attempt_wrote(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    (file,) = write(ctx, bucket(ctx), some(3)).files
    content = (tmp_path / file.stat.path).read_bytes()
    late = context(tmp_path, COLUMNS, guard=Alive(1, published=True))
    with pytest.raises(ConflictError, match="has been rolled back by another writer"):
        write(late, bucket(late), some(3))
    assert (tmp_path / file.stat.path).read_bytes() == content


def test_a_failure_in_the_input_leaves_no_file_but_those_that_were_full(tmp_path):
    ctx = context(tmp_path, SIZED, max_file_size_bytes=300_000)
    table = incoming_table(1, 0, 10_000, width=100, content=Content.INCOMPRESSIBLE)

    def rows():
        yield from table.to_batches(max_chunksize=500)
        raise RuntimeError("the shuffle is gone")

    with pytest.raises(RuntimeError, match="the shuffle is gone"):
        write_bucket(ctx, bucket(ctx, expected_inserts=10_000), rows())
    names = files_below(tmp_path)
    assert names
    assert all(name.endswith(".parquet") for name in names)


@pytest.mark.parametrize("stop", list(Stop))
def test_a_marker_stands_before_every_file(tmp_path, stop):
    table = incoming_table(1, 0, 6000, width=100, content=Content.INCOMPRESSIBLE)
    for number in range(1, 30):
        folder = tmp_path / str(number)
        store = FaultyStore(LocalStore(str(folder)), tmp_path / f"count{number}", stop_at=number, stop=stop)
        ctx = context(store, SIZED, max_file_size_bytes=300_000)
        try:
            write_bucket(ctx, bucket(ctx, expected_inserts=6000), table.to_batches())
            break
        except Stopped:
            files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
            markers = {
                path.relative_to(folder / ".hoodie/.temp" / ctx.instant)
                .as_posix()
                .removesuffix(".marker.CREATE")
                for path in folder.rglob("*.marker.CREATE")
            }
            assert files <= markers
    else:
        pytest.fail("the write never got through")
    assert number > 5


@pytest.mark.parametrize("merge", [False, True])
def test_a_full_disk_is_a_storage_error_and_leaves_no_file(tmp_path, merge):
    script = textwrap.dedent(
        f"""
        import resource, signal
        from pathlib import Path
        from parquetry.runtime.base_file.task import write_bucket
        from parquetry.runtime.errors import StorageError
        from tests.support.base_files import *
        from tests.support.sized_rows import *
        folder = Path({str(tmp_path)!r})
        table = incoming_table(1, 0, 20_000, width=200, content=Content.INCOMPRESSIBLE)
        ctx = context(folder, COLUMNS)
        to = bucket(ctx)
        if {merge}:
            to = merging(write_bucket(ctx, to, table.to_batches()).files[0])
            ctx = context(folder, COLUMNS, instant=SECOND)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        try:
            write_bucket(ctx, to, [] if {merge} else table.to_batches())
        except StorageError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert "File too large" in done.stdout
    instant = SECOND if merge else "20260101"
    assert [name for name in files_below(tmp_path) if instant in name] == []


def test_a_read_only_folder_is_a_storage_error(tmp_path):
    ctx = context(ReadOnlyStore(LocalStore(str(tmp_path))), COLUMNS)
    with pytest.raises(StorageError):
        write(ctx, bucket(ctx), some(3))
