"""ClickHouse and Daft, in an environment of their own: reads tables, and writes what it finds as Arrow files.

Started by `tests.interop.readers.readers` with one JSON object. The answer is null, or an error, by reader and kind of table.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import chdb
import daft
import pyarrow as pa


def clickhouse(url: str) -> pa.Table:
    answer = chdb.query(f"SELECT * FROM hudi('{url}/', 'test', 'test')", "Arrow")
    return pa.ipc.open_file(io.BytesIO(answer.bytes())).read_all()


def main() -> None:
    request = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    found: dict[str, dict[str, str | None]] = {"clickhouse": {}, "daft": {}}
    for kind, path in request["tables"].items():
        reads: dict[str, Callable[[], Any]] = {
            "clickhouse": lambda kind=kind: clickhouse(f"{request['url']}/{kind}"),
            "daft": lambda path=path: daft.read_hudi(path).to_arrow(),
        }
        for name, read in reads.items():
            found[name][kind] = attempt(read, f"{request['out']}/{name}-{kind}.arrow")
    json.dump(found, answers)


def attempt(read: Callable[[], pa.Table], place: str) -> str | None:
    try:
        table = read()
    except Exception as error:
        return str(error)
    with pa.OSFile(place, "w") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return None


if __name__ == "__main__":
    main()
