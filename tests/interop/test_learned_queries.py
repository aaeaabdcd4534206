"""Event logs of real Spark: the proposed queries are what was asked, with adaptive execution and partitions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.interop.environment import spark_environment, spark_python
from tests.support.project_folder import ProjectFolder

pytestmark = pytest.mark.interop

ASKS = Path(__file__).with_name("spark_asks.py")
COLUMNS = {
    "id": "bigint",
    "city": "string",
    "day": "date",
    "at": "timestamp",
    "amount": "double",
    "price": "decimal(10,2)",
    "items": "int",
    "detail": "struct<code:string>",
}
KEY = ["id"]
ASKED = (
    "SELECT count(*) FROM orders WHERE items = 5",
    "SELECT count(*) FROM orders WHERE city = 'Bergamo' AND amount > 10.5",
    "SELECT id FROM orders WHERE city IN ('Roma', 'Bergamo') AND items BETWEEN 2 AND 4",
    "SELECT id FROM orders WHERE day >= date '2024-02-01' OR price < 5",
    "SELECT id FROM orders WHERE at >= timestamp '2024-01-15 12:00:00'",
    "SELECT id FROM orders WHERE detail.code = 'c3'",
    "SELECT id FROM orders WHERE detail.code LIKE 'c%' AND items NOT IN (1, 2)",
    f"SELECT id FROM orders WHERE items IN ({', '.join(map(str, range(1, 14)))})",
    "SELECT id FROM orders WHERE id % 7 = 3 AND items <=> 3",
    "SELECT id FROM orders WHERE items < id AND year(day) = 2024",
    "SELECT id FROM orders WHERE upper(detail.code) = 'C3'",
    "SELECT id FROM orders WHERE city IS NULL",
    """SELECT count(*) FROM orders o
    JOIN (SELECT city, max(items) m FROM orders WHERE items = 7 GROUP BY city) x
    ON o.city = x.city AND o.amount < 3""",
    "SELECT count(*) FROM orders o LEFT JOIN orders p ON o.id = p.id AND o.items = 1 AND p.items = 2",
    "SELECT count(*) FROM orders",
)
QUERIES = {
    "amount > 10.5D and city = 'Bergamo'",
    "city in ('Roma', 'Bergamo') and items <= 4 and items >= 2",
    "day >= date '2024-02-01' or price < 5.00",
    "at >= timestamp '2024-01-15 11:00:00Z'",
    "detail.code = 'c3'",
    "detail.code like 'c%' and items not in (1, 2)",
    "(id % 7) = 3 and items <=> 3",
    "cast(items as bigint) < id and year(day) = 2024",
    "city is null",
    "amount < 3.0D",
}


def test_what_was_asked_is_proposed(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.orders(
        columns=[{"name": name, "type": kind, "nullable": name not in KEY} for name, kind in COLUMNS.items()],
        record_key=KEY,
        ordering=None,
        sources=None,
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "asked.json").write_text(json.dumps(ASKED))
    python = spark_python("3.5")
    table = folder.root / "warehouse/orders"
    arguments = [table, tmp_path / "logs", "zstd", tmp_path / "asked.json"]
    done = subprocess.run(
        [str(python), str(ASKS), *map(str, arguments)],
        env=spark_environment(python),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    arguments = ["learn", str(tmp_path / "logs"), "-p", str(folder.root), "--format", "json"]
    learned = json.loads(CliRunner().invoke(command_line, arguments).stdout)
    (found,) = learned["tables"]
    several = {query["shape"]: query for query in found["queries"] if query["runs"] > 1}
    assert {shape: query["runs"] for shape, query in several.items()} == {"items = ?": 3}
    assert several["items = ?"]["where"] in ("items = 2", "items = 5", "items = 7")
    listed = [query["where"] for query in found["queries"] if query["shape"] == "items in (?)"]
    assert [sorted(map(int, where[len("items in (") : -1].split(", "))) for where in listed] == [
        [*range(1, 14)]
    ]
    assert {query["where"] for query in found["queries"]} - {
        several["items = ?"]["where"],
        *listed,
    } == QUERIES
    assert (found["scans"], found["unconditional_scans"], found["unproposed"]) == (17, 3, [])
    assert found["unsized_scans"] == learned["events_not_understood"] == 0
    assert learned["not_understood"] == [{"reason": "a function or an expression of columns", "filters": 1}]
    assert learned["broken_off"] == learned["others"] == []
