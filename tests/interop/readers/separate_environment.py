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


def clickhouse(function: str, place: str) -> pa.Table:
    answer = chdb.query(f"SELECT * FROM {function}({place})", "Arrow")
    return pa.ipc.open_file(io.BytesIO(answer.bytes())).read_all()


def in_bucket(url: str) -> str:
    return f"'{url}/', 'test', 'test'"


def main() -> None:
    request = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    found: dict[str, dict[str, str | None]] = {}
    for kind, (path, published) in request["tables"].items():
        # ClickHouse reads local files below the working directory alone.
        os.chdir(published)
        for name, read in readers(request["url"], kind, path).items():
            found.setdefault(name, {})[kind] = attempt(read, f"{request['out']}/{name}-{kind}.arrow")
    json.dump(found, answers)


def readers(url: str, kind: str, path: str) -> dict[str, Callable[[], Any]]:
    return {
        "clickhouse": lambda: clickhouse("hudi", in_bucket(f"{url}/{kind}")),
        "clickhouse-delta": lambda: clickhouse("deltaLake", in_bucket(f"{url}/published/{kind}")),
        "clickhouse-iceberg": lambda: clickhouse("icebergLocal", "'.'"),
        "daft": lambda: daft.read_hudi(path).to_arrow(),
    }


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
