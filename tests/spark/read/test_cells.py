"""Cells of CSV and JSON, of each type: stored as what they say, or refused with file, line and column."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources.listing import list_files
from parquetry.runtime.spark.read.source import read_files
from parquetry.runtime.spark.read.source_failures import Explain, explained, source_failures
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spec.table_spec import Column, Operation, Source
from tests.support.local_spark import local_spark

pytestmark = pytest.mark.spark

REFUSED = object()


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def refused(*cells: str) -> dict[str, object]:
    return dict.fromkeys(cells, REFUSED)


WHOLE = {"0": 0, "1": 1, "-1": -1, "+5": 5, "007": 7, "-0": 0, "127": 127, "-128": -128} | refused(
    "1.0",
    "1.5",
    "1e2",
    "1,000",
    " 5",
    "5 ",
    "0x10",
    "1_000",
    "--1",
    "\u0661",
    "true",
    "one",
    "1L",
    "1;",
    "+",
    ".",
)
BY_TYPE: dict[str, dict[str, object]] = {
    "boolean": {"true": True, "false": False, "TRUE": True, "False": False}
    | refused("1", "0", "yes", "t", "true ", "wahr", "null"),
    "tinyint": WHOLE | refused("128", "-129", "255", "200"),
    "smallint": WHOLE | {"32767": 32767, "-32768": -32768} | refused("32768", "65535"),
    "int": WHOLE | {"2147483647": 2147483647} | refused("2147483648", "-2147483649", "4294967295"),
    "bigint": WHOLE
    | {"9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808}
    | refused("9223372036854775808", "1704067200000.0", "99999999999999999999999999999999999999999"),
    "decimal(10,2)": {
        "19.90": Decimal("19.90"),
        "19.9": Decimal("19.90"),
        "19": Decimal("19.00"),
        "-0.01": Decimal("-0.01"),
        "19.9000": Decimal("19.90"),
        "1e3": Decimal("1000.00"),
        "1.5E-1": Decimal("0.15"),
        "+7.": Decimal("7.00"),
        ".5": Decimal("0.50"),
        "00012.30": Decimal("12.30"),
        "99999999.99": Decimal("99999999.99"),
    }
    | refused(
        "19,90", "1.234,56", "1,234.56", "19.999", "19.901", "0.001", "1e-3", "100000000.00", "1e9", "1e400",
        "19.90 ", " 19.90", "EUR 5", "5 EUR", "19.90-", "1.5f", "1.5d", "NaN", "Infinity", "0x1p3", "1 000", "."
        , "e5", "99999999.995", "1'000",
    ),
    "decimal(38,0)": {"9" * 38: Decimal("9" * 38), "0" * 40 + "5": Decimal(5)}
    | refused("9" * 39, "1.5", "1e38"),
    "decimal(38,18)": {
        "0.123456789012345678": Decimal("0.123456789012345678"),
        "12345678901234567890.123456789012345678": Decimal("12345678901234567890.123456789012345678"),
    }
    | refused("0.1234567890123456789", "1e-19"),
    "float": {"0.5": 0.5, "16777216": 16777216.0, "-1e10": -1e10, "NaN": math.nan, "Infinity": math.inf}
    | refused("16777217", "1e39", "1e-60", "0.12345678901", "1,5", "1.5f"),
    "double": {
        "0.1": 0.1,
        "1.5": 1.5,
        "1e300": 1e300,
        "-2.5E-10": -2.5e-10,
        "0.30000000000000004": 0.30000000000000004,
        "9007199254740992": 9007199254740992.0,
        "-0.0": -0.0,
        "0e999": 0.0,
        "NaN": math.nan,
        "-Infinity": -math.inf,
        "INF": math.inf,
    }
    | refused(
        "1e400", "-1e400", "1e-400", "9007199254740993", "0.1234567890123456789", "1.5f", "1.5d", "1.5D", "0x1p3",
        "19,90", "1.234,56", "nan", "inf", "infinity", " 1", "1 ", "1e", "e1", "1__0",
    ),
    "date": {"2024-02-29": date(2024, 2, 29), "0001-01-01": date(1, 1, 1), "9999-12-31": date(9999, 12, 31)}
    | refused(
        "2024-01-01 23:59:59", "2024-05", "2024", "2024-02-30", "2023-02-29", "01.02.2024", "02/01/2024", "24-01-01",
        "2024-1-1", "20240101", "2024-01-01T00:00:00Z", "1704067200000", "19723", "today", "epoch", "2024-13-01",
        "2024-01-01 ", "+12024-01-01",
    ),
    "timestamp": {
        "2024-01-01 10:11:12": at(2024, 1, 1, 10, 11, 12),
        "2024-01-01T10:11:12Z": at(2024, 1, 1, 10, 11, 12),
        "2024-01-01T10:11:12+02:00": at(2024, 1, 1, 8, 11, 12),
        "2024-01-01T10:11:12.5-0530": at(2024, 1, 1, 15, 41, 12, 500000),
        "2024-01-01 10:11:12.123456": at(2024, 1, 1, 10, 11, 12, 123456),
        "2024-01-01 10:11:12.123456000": at(2024, 1, 1, 10, 11, 12, 123456),
        "2024-01-01 10:11": at(2024, 1, 1, 10, 11),
        "2024-01-01": at(2024, 1, 1),
    }
    | refused(
        "2024-01-01 10:11:12.123456789", "1704067200000", "1704067200", "10:15", "10:15:00", "T10:15", "2024-05",
        "2024-02-30 10:00:00", "2024-01-01 25:00:00", "2024-01-01 24:00:00", "2024-01-01 23:59:60", "now",
        "01.02.2024 10:00", "2024-01-01 10", "2024-01-01 10:11:12 CET", "2024-01-01 10:11:12+99:00", "2024-1-1 1:1:1",
        "2024-01-01 10:11:12,5", "2024-01-01  10:11:12", "Jan 1 2024",
    ),
    "string": {
        cell: cell
        for cell in (
            "x", " x ", "x\ty", "007", "1.00", "1e400", "null", "NULL", "NaN", "a\\b", "\\N", 'say "z"', "K\u00f8",
            "\U0001f600", "\u00e9 e\u0301", "19,90", "2024-05", "a\x00b", "\u200b", "=1+1", "#x", "'x'", "true",
        )
    },
}  # fmt: skip
JSON_TOKENS: dict[str, dict[str, object]] = {
    "string": {
        "1.00": "1.00",
        "1e400": "1e400",
        "12345678901234567890.123456789012345678": "12345678901234567890.123456789012345678",
        "true": "true",
        "null": None,
        '""': "",
        '{"a": 1.50}': '{"a": 1.50}',
        "[1, 2.0]": "[1, 2.0]",
        '"two\\nlines\\r\\n"': "two\nlines\r\n",
    },
    "tinyint": {"127": 127, "null": None} | refused("200", "-129", "1.0", '""', "true", "[1]", "{}"),
    "bigint": {"9223372036854775807": 9223372036854775807} | refused("9223372036854775808", "1e3", '""'),
    "decimal(10,2)": {"19.90": Decimal("19.90"), "1e3": Decimal("1000.00"), '"7.5"': Decimal("7.50")}
    | refused("19.999", "100000000", "true", '""', "[19.90]", '"19,90"'),
    "decimal(38,18)": {"0.123456789012345678": Decimal("0.123456789012345678")} | refused("0.1234567890123456789"),
    "double": {"1e300": 1e300, "0.1": 0.1, "NaN": math.nan, '"Infinity"': math.inf}
    | refused("1e400", "1e-400", "9007199254740993", "0.1234567890123456789", "true", '""'),
    "boolean": {"true": True, "false": False} | refused("1", "0", '"yes"', '""'),
    "date": {'"2024-02-29"': date(2024, 2, 29)} | refused("19723", "20240101", '""', "1704067200000"),
    "timestamp": {'"2024-01-01T10:11:12Z"': at(2024, 1, 1, 10, 11, 12)}
    | refused("1704067200000", "1704067200", "1704067200.123", '""', "true"),
    "binary": {'"AAEC/w=="': b"\x00\x01\x02\xff", '""': b""} | refused('"AAE"', '"a-b_"'),
    "array<decimal(10,2)>": {"[19.90, null, 1]": [Decimal("19.90"), None, Decimal("1.00")]}
    | refused("[19.999]", '["19,90"]', "[1e400]"),
    "map<string,bigint>": {'{"a": 1, "A": 2}': {"a": 1, "A": 2}} | refused('{"a": 1.5}'),
    "struct<a:date,b:double>": {'{"A": "2024-01-01", "b": 1.5}': (date(2024, 1, 1), 1.5)}
    | refused('{"A": "2024-05", "b": 1}', '{"A": null, "b": 1e400}'),
}  # fmt: skip


@pytest.fixture(scope="module")
def spark():
    return local_spark("cells")


def csv_text(rows) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("id", "cell"), *rows])
    return text.getvalue()


def json_text(rows) -> str:
    return "".join(f'{{"id": {number}, "cell": {token}}}\n' for number, token in rows)


def columns_of(kind: str) -> tuple[Column, ...]:
    return (Column(name="id", type="bigint"), Column(name="cell", type=kind))


@dataclass
class Reading:
    """One file as it is read by the declared columns; failures are those of an ingest."""

    frame: DataFrame
    explain: Explain | None

    @classmethod
    def of(cls, spark, path, text, columns, **changes):
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        given = {"name": "s", "format": path.suffix[1:], "path": str(path), "operation": Operation.INSERT}
        source = Source(**(given | changes))
        files = list_files(source.path)
        explain = explained(source, files, columns, {})
        with source_failures("here", explain=explain):
            return cls(read_files(spark, source, files, columns=columns, storage={}), explain)

    def cells(self, where="true"):
        with source_failures("here", explain=self.explain), failures_translated("rows for t"):
            return {row["id"]: row["cell"] for row in self.frame.where(where).collect()}


def same(found: object, wanted: object) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        both = math.isnan(found) and math.isnan(wanted)
        return both or (found == wanted and math.copysign(1, found) == math.copysign(1, wanted))
    if isinstance(wanted, datetime):
        return isinstance(found, datetime) and found.astimezone(UTC) == wanted
    if isinstance(wanted, bytes):
        return bytes(found) == wanted
    if isinstance(wanted, tuple):
        return tuple(found) == wanted
    return type(found) is type(wanted) and found == wanted


SETS = {
    **{f"csv {kind}": ("a.csv", kind, cells, csv_text) for kind, cells in BY_TYPE.items()},
    **{
        f"json {kind}, texts": (
            "a.json", kind, {json.dumps(cell): value for cell, value in cells.items()}, json_text
        )
        for kind, cells in BY_TYPE.items()
    },
    **{f"json {kind}": ("a.json", kind, cells, json_text) for kind, cells in JSON_TOKENS.items()},
}  # fmt: skip
SHOWN_BY_TOKENS = {f"json {kind}, texts" for kind in JSON_TOKENS}


def test_there_are_enough_cells():
    assert sum(len(cells) for _, _, cells, _ in SETS.values()) >= 300


@pytest.mark.parametrize(
    "which",
    # Numbers and texts of JSON take the same way to a value: short runs try the texts of types without numbers above.
    [pytest.param(which, marks=pytest.mark.long if which in SHOWN_BY_TOKENS else ()) for which in SETS],
)
def test_a_cell_is_stored_as_what_it_says_or_refused_with_its_place(spark, tmp_path, which):
    name, kind, cells, text_of = SETS[which]
    accepted = [cell for cell, value in cells.items() if value is not REFUSED]
    wrong = [cell for cell, value in cells.items() if value is REFUSED]
    stored = Reading.of(spark, tmp_path / name, text_of(enumerate(accepted)), columns_of(kind)).cells()
    assert len(stored) == len(accepted)
    changed = {cell: stored[n] for n, cell in enumerate(accepted) if not same(stored[n], cells[cell])}
    assert changed == {}
    if not wrong:
        return
    reading = Reading.of(spark, tmp_path / name, text_of(enumerate(wrong)), columns_of(kind))
    column = {"a": "cell.element'", "m": "cell.value'", "s": "cell."}.get(
        kind[0] if "<" in kind else "", "cell'"
    )
    otherwise = {}
    for number, cell in enumerate(wrong):
        line = number + (2 if name.endswith(".csv") else 1)
        try:
            otherwise[cell] = reading.cells(f"id = {number}")
        except InvalidDataError as error:
            place = rf"^here: \S+/{name} cannot be read: line {line}, column '{column}.*; correct or remove the file$"
            if re.search(place, str(error), re.DOTALL) is None:
                otherwise[cell] = str(error)
    assert otherwise == {}
