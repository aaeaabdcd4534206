"""What layout tests cost: ``python -m benchmarks.layout_tests [--files 10000]``.

Twenty tests of one table of many files and 500 instants: CPU seconds and memory of `parquetry test` as a process, and
requests to the store. Writes benchmarks/LAYOUT_TESTS.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.plans import (
    CLUSTERING,
    HERE,
    SCRIPT,
    Counted,
    add_files,
    apply,
    cost,
    declare,
    row,
    workspace,
)
from parquetry.compiler.testing.execution import execute_tests
from parquetry.compiler.testing.model import Status
from parquetry.compiler.testing.tables import selected_tests
from parquetry.runtime.storage.open import open_store

MOST_SECONDS = 5.0
"""CPU seconds that twenty tests of 10,000 files may take."""

PAGE = """# Layout tests

`parquetry test` starts no JVM. Figures are CPU seconds (user and system) and the largest resident memory of the whole
process, the cheapest of three, on a machine of {cores} cores. The files are sparse: their statistics are recorded beside the
timeline, as writes record them, and they have no page index. Each row adds tests to the one before it.
`python -m benchmarks.layout_tests` writes this page.

| tests of a table of {files:,} files, 100 partitions and 500 instants | CPU s | MiB | |
|---|---|---|---|
{rows}
"""
LARGE = 10**9
RECENT = "p >= 50"
OF_LISTINGS = [
    {"max_small_files": {"warn": LARGE, "error": LARGE}},
    {"max_small_files": LARGE, "where": RECENT},
    {"max_partition_files": LARGE},
    {"max_partition_files": LARGE, "where": RECENT},
    {"max_skew": LARGE},
    {"file_size": {"percentile": 50, "min": "1B", "max": "1TiB"}},
    {"file_size": {"percentile": 99, "min": "1B"}, "where": RECENT},
    {"max_file_versions": LARGE},
    {"max_orphans": LARGE},
    {"max_orphans": LARGE, "where": RECENT},
]
OF_COMMITS = [
    {"max_commit_age": "9999w"},
    {"max_commit_age": "9999w", "where": RECENT},
    {"write_amplification": {"commits": 100, "max": LARGE}},
    {"max_drift": LARGE},
]
OF_STATISTICS = [
    {"max_overlap_depth": {"column": "id", "value": LARGE}},
    {"max_overlap_depth": {"column": "id", "value": LARGE}, "where": RECENT},
    {"query": {"name": "some", "max_files": LARGE}},
    {"query": {"name": "some", "max_files": LARGE, "max_row_groups": LARGE}, "where": RECENT},
    {"query": {"name": "some", "max_rows": 10**12, "max_bytes": "999TiB"}},
    {"clustering_debt": {"max_bytes": "999TiB", "max_age": "9999w"}},
]


class CalledStore(Counted):
    """A store that counts each call, also of a method that is handed on."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in {"list", "list_folders", "read", "read_range", "open_input", "stat"}:
            return found

        def called(*arguments: Any, **options: Any) -> Any:
            with self.lock:
                self.calls[name] += 1
            return found(*arguments, **options)

        return called


def figures(root: Path, files: int) -> Iterator[str]:
    declare(root, "big", clustering=CLUSTERING)
    apply(root)
    add_files(root / "warehouse/big", files, names_files=True)
    tests: list[dict[str, Any]] = []
    for what, more in (("listings", OF_LISTINGS), ("commits", OF_COMMITS), ("statistics", OF_STATISTICS)):
        tests += more
        declare(root, "big", clustering=CLUSTERING, tests=tests)
        spent = cost(SCRIPT, "test", "-p", root)
        remark = requests(root, len(tests))
        if more is OF_STATISTICS:
            verdict = "reached" if spent[0] < MOST_SECONDS else "**not reached**"
            remark += f"; goal below {MOST_SECONDS:.0f} s: {verdict}"
        yield row(f"{len(tests)}, the last of {what}", spent, remark)


def requests(root: Path, count: int) -> str:
    """What the store was asked for the tests, which all pass."""
    calls: Counter[str] = Counter()
    counted = replace(
        workspace(root),
        open=lambda place, options, allowed: CalledStore(open_store(place, options, allowed), calls),
    )
    chosen = selected_tests(counted, select=(), exclude=())
    result = execute_tests(chosen, run_id=None, target=None)
    assert result.counts[Status.PASSED] == count, result
    return "requests: " + ", ".join(f"{number:,} {name}" for name, number in sorted(calls.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = "\n".join(figures(Path(folder), arguments.files))
    page = PAGE.format(rows=rows, cores=os.cpu_count(), files=arguments.files)
    (HERE / "LAYOUT_TESTS.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
