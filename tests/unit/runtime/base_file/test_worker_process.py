from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from parquetry.runtime.base_file.worker_process import small_pages
from parquetry.runtime.spark.session.numbered import in_worker

FREED = """
from pathlib import Path
from parquetry.runtime.base_file.worker_process import give_back_memory

def anonymous_mib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))

before = anonymous_mib()
values = [bytes(1000) + bytes([number % 256]) for number in range(100_000)]
last = values.pop()
full = anonymous_mib()
values.clear()
give_back_memory()
print(full - before, full - anonymous_mib(), len(last))
"""
"""How many MiB were taken, and how many of them went back."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep no such memory")
def test_memory_that_small_values_had_goes_back_though_the_last_of_them_stays():
    told = subprocess.run([sys.executable, "-c", FREED], check=True, capture_output=True, text=True).stdout
    taken, gone, _ = map(int, told.split())
    assert taken > 90
    assert gone > 80


def huge_pages() -> str:
    """Return whether the kernel may use huge pages for this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("THP_enabled"))


@pytest.mark.skipif(platform.system() != "Linux", reason="other systems have no such setting")
def test_a_block_of_small_pages_leaves_the_setting_as_it_was_before():
    before = huge_pages()
    with small_pages():
        with small_pages():
            assert huge_pages() == "0"
        assert huge_pages() == "0"
    assert huge_pages() == before


@pytest.mark.parametrize("fails", [False, True])
def test_each_task_gives_its_memory_back_when_it_ends_however_it_ends(monkeypatch, fails):
    ends = []
    monkeypatch.setattr("parquetry.runtime.spark.session.numbered.give_back_memory", lambda: ends.append(1))

    def task(batches):
        yield from batches
        assert not ends
        if fails:
            raise ValueError

    found = in_worker(task)(iter([1, 2]))
    assert (next(found), next(found), ends) == (1, 2, [])
    with pytest.raises(ValueError if fails else StopIteration):
        next(found)
    assert ends == [1]
