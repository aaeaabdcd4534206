"""The filters of tables in statements of engines: whose they are, their values, and what is not certain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.compiler.learning.conditions import sql_of
from parquetry.compiler.learning.spark_filters import Unread
from parquetry.compiler.learning.sql_filters import LONGEST_STATEMENT, Naming, tables_read

TYPES = {
    "city": "string",
    "day": "date",
    "id": "bigint",
    "items": "int",
    "price": "decimal(10,2)",
    "amount": "double",
    "ratio": "float",
    "flag": "boolean",
    "at": "timestamp",
}
NAMING = Naming(
    types={("shop", "orders"): TYPES, ("shop", "stores"): {"store": "int", "city": "string"}},
    context=("lake", "shop"),
)


def read(sql, dialect="trino", naming=NAMING):
    """The tables of a statement, each with the SQL of its filters or the reasons why they are none."""
    found = tables_read(sql, dialect, naming)
    return found and [
        (
            ".".join(each.name),
            [one.name if isinstance(one, Unread) else sql_of(one) for one in each.filters],
        )
        for each in found
    ]


@pytest.mark.parametrize(
    ("condition", "filters"),
    [
        ("city = 'Bergamo'", ["city = 'Bergamo'"]),
        ("'a (b), c' = city", ["city = 'a (b), c'"]),
        ("5 < items AND items <= -1", ["items > 5", "items <= -1"]),
        ("price BETWEEN 1 AND 2.50", ["price >= 1BD", "price <= 2.50"]),
        ("amount > 1e3", ["amount > 1000.0D"]),
        ("items IN (1, 2)", ["items in (1, 2)"]),
        ("city NOT IN ('a', 'b')", ["city not in ('a', 'b')"]),
        ("city LIKE 'ab%'", ["city like 'ab%'"]),
        ("city LIKE 'ab'", ["city = 'ab'"]),
        ("city IS NULL", ["city is null"]),
        ("day >= DATE '2024-01-02'", ["day >= date '2024-01-02'"]),
        ("at > TIMESTAMP '2024-01-02 03:04:05 UTC'", ["at > timestamp '2024-01-02 03:04:05Z'"]),
        ("flag AND NOT flag = false", ["flag = true", "flag <> false"]),
        ("(items = 1 OR (items = 2 AND id = 3))", ["items = 1 or (items = 2 and id = 3)"]),
        ("NOT (items = 1 OR id = 3)", ["items <> 1", "id <> 3"]),
        ("upper(city) = 'A'", ["EXPRESSION"]),
        ("items = id", ["EXPRESSION"]),
        ("items + 1 = 2", ["EXPRESSION"]),
        ("items = 1.5", ["VALUE"]),
        ("items = '1'", ["VALUE"]),
        ("ratio = 0.1", ["VALUE"]),
        ("city = 'it''s'", ["VALUE"]),
        ("city = '{{ env_var(1) }}'", ["VALUE"]),
        ("city LIKE 'a!%' ESCAPE '!'", ["EXPRESSION"]),
        ("at > TIMESTAMP '2024-01-02 03:04:05'", ["ZONE"]),
        ("day > current_date", ["EXPRESSION"]),
        ("unknown = 5", ["TYPE"]),
        ("id IN (SELECT store FROM stores)", ["RUNTIME"]),
        ("city NOT LIKE 'a%'", ["EXPRESSION"]),
        ("city LIKE ANY ('a', 'b')", ["EXPRESSION"]),
        ("items BETWEEN SYMMETRIC 2 AND 1", ["EXPRESSION"]),
        ("items NOT BETWEEN 1 AND 2", ["items < 1 or items > 2"]),
        ("items IN UNNEST(ids)", ["EXPRESSION"]),
        ("items IS NOT DISTINCT FROM 5", ["items <=> 5"]),
        ("items IS DISTINCT FROM 5", ["EXPRESSION"]),
        ("day = TRY_CAST('2024-01-02' AS DATE)", ["EXPRESSION"]),
        ("a.b.items = 5", ["TABLE"]),
        ("ORDERS.city = 'x' AND Orders.items = 5", ["city = 'x'", "items = 5"]),
        ("address.city = 'x' AND items = 5", ["TABLE", "items = 5"]),
        ("city = 'x' AND rand() < 0.1", ["city = 'x'", "EXPRESSION"]),
        ("1 = 1 AND true AND items = 5", ["items = 5"]),
        ("1 = 2", ["EXPRESSION"]),
        ("EXISTS (SELECT 1 FROM stores WHERE store = 5)", ["RUNTIME"]),
        ("city = cast('abcdef' AS varchar(3))", ["EXPRESSION"]),
        ("city = cast('abcdef' AS varchar)", ["city = 'abcdef'"]),
        ("city = -'x'", ["EXPRESSION"]),
        ("at > TIMESTAMP '2024-01-02 03:04:05.678 UTC'", ["at > timestamp '2024-01-02 03:04:05.678000Z'"]),
        ("at > cast('2024-01-02 03:04:05.678 UTC' AS timestamp(0) with time zone)", ["EXPRESSION"]),
    ],
)
def test_a_condition_of_a_statement(condition, filters):
    assert read(f"SELECT * FROM orders WHERE {condition}")[-1] == ("lake.shop.orders", filters)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        (
            "SELECT 1 FROM orders o JOIN other.stores s ON o.id = s.x AND o.items = 1 WHERE o.city = 'a'",
            [("lake.shop.orders", ["city = 'a'", "items = 1"]), ("lake.other.stores", [])],
        ),
        (
            "SELECT 1 FROM orders o, stores s WHERE items = 1 AND store = 2 AND city = 'x'",
            [("lake.shop.orders", ["items = 1", "TABLE"]), ("lake.shop.stores", ["store = 2"])],
        ),
        (
            """SELECT 1 FROM orders o LEFT JOIN stores s ON o.id = s.store AND s.city = 'a' AND o.items = 1
            WHERE s.store IS NULL""",
            [("lake.shop.orders", ["KEPT"]), ("lake.shop.stores", ["EXPRESSION", "city = 'a'"])],
        ),
        (
            "SELECT 1 FROM orders o FULL JOIN stores s ON o.items = 1 WHERE o.city IS NULL AND o.items = 2",
            [("lake.shop.orders", ["EXPRESSION", "items = 2", "KEPT"]), ("lake.shop.stores", [])],
        ),
        (
            "SELECT 1 FROM orders o RIGHT JOIN stores s ON o.id = s.store AND o.city IS NULL AND s.store = 2",
            [("lake.shop.orders", ["city is null"]), ("lake.shop.stores", ["KEPT"])],
        ),
        (
            "SELECT 1 FROM stores s LEFT JOIN (orders o RIGHT JOIN old.x ON o.items = 1) ON o.city IS NULL",
            [
                ("lake.shop.stores", []),
                ("lake.shop.orders", ["items = 1", "EXPRESSION"]),
                ("lake.old.x", []),
            ],
        ),
        (
            "WITH a AS (SELECT * FROM orders WHERE items = 1) SELECT * FROM a WHERE city = 'x'",
            [("lake.shop.orders", ["items = 1"])],
        ),
        (
            "INSERT INTO t SELECT * FROM orders WHERE items = 1 UNION ALL SELECT * FROM orders WHERE items = 2",
            [("lake.shop.orders", ["items = 1"]), ("lake.shop.orders", ["items = 2"])],
        ),
        (
            "SELECT 1 FROM stores s WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = s.store AND o.items = 1)",
            [("lake.shop.orders", ["items = 1"]), ("lake.shop.stores", ["RUNTIME"])],
        ),
        ("CREATE TABLE t AS WITH z AS (SELECT 1) SELECT * FROM ORDERS WHERE items = 1", None),
        (
            "SELECT 1 FROM orders O LEFT JOIN Stores S ON s.city = 'a' WHERE o.city = 'x' AND S.city IS NULL",
            [("lake.shop.orders", ["city = 'x'"]), ("lake.shop.stores", ["EXPRESSION", "city = 'a'"])],
        ),
        (
            "SELECT 1 FROM stores s WHERE s.city IN (SELECT city FROM orders o WHERE o.s.items = 5)",
            [("lake.shop.orders", ["TABLE"]), ("lake.shop.stores", ["RUNTIME"])],
        ),
        ("SELECT 1 FROM hive.shop.orders WHERE items = 1", [("hive.shop.orders", ["items = 1"])]),
        ("SELECT 1 FROM old.orders WHERE items = 1", [("lake.old.orders", [])]),
    ],
)
def test_the_table_of_a_condition(sql, tables):
    assert read(sql) == (tables or [("lake.shop.orders", ["items = 1"])])


@pytest.mark.parametrize(
    ("join", "orders", "stores"),
    [
        ("LEFT SEMI", ["items = 1"], ["city = 'a'"]),
        ("LEFT ANTI", ["KEPT"], ["city = 'a'"]),
        ("CROSS", ["items = 1"], ["city = 'a'"]),
    ],
)
def test_joins_of_spark_alone(join, orders, stores):
    sql = f"SELECT 1 FROM orders o {join} JOIN stores s ON o.items = 1 AND s.city = 'a'"
    assert read(sql, "spark") == [("lake.shop.orders", orders), ("lake.shop.stores", stores)]


def test_names_that_differ_by_case_alone_are_not_understood():
    assert tables_read("SELECT 1 FROM orders o JOIN stores O ON o.items = 1", "trino", NAMING) is None


def test_a_name_without_a_schema_is_no_known_table():
    naming = Naming(types=NAMING.types)
    assert read("SELECT 1 FROM orders WHERE items = 1", naming=naming) == [("orders", [])]


def test_statements_that_read_nothing_or_are_not_understood():
    assert tables_read("DROP TABLE orders", "trino", NAMING) == ()
    for sql in ("SELECT (((", "SELECT 1; SELECT 2", "x" * (LONGEST_STATEMENT + 1)):
        assert tables_read(sql, "trino", NAMING) is None


@pytest.mark.parametrize("word", ["date(", "struct(", "(", "NOT ", "CASE WHEN ", "map(", "CAST("])
def test_deep_statements_end_soon(word):
    for times in (50, 2000):
        sql = f"SELECT * FROM orders WHERE items = {word * times}1"
        found = tables_read(sql, "trino", NAMING)
        assert found is None or not any(each.filters == () for each in found)


@settings(max_examples=50, deadline=None)
@given(st.text("abc '\"`=()<>-*/;,.{}%\\\n1", max_size=30))
def test_any_statement_is_understood_or_refused(text):
    for each in tables_read(f"SELECT * FROM orders WHERE city = {text}", "trino", NAMING) or ():
        assert all(isinstance(one, Unread) or sql_of(one) for one in each.filters)
