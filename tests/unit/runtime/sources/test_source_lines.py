"""The line, column and value that Spark refused are found in the file, or not told at all."""

from __future__ import annotations

import io

import pytest

from parquetry.runtime.sources import lines
from parquetry.runtime.sources.lines import LineFault, find_fault
from parquetry.runtime.spec.table_spec import Column

COLUMNS = tuple(
    Column(name=name, type=kind)
    for name, kind in (
        ("id", "bigint"),
        ("city", "string"),
        ("amount", "double"),
        ("small", "tinyint"),
        ("price", "decimal(8,2)"),
        ("ok", "boolean"),
        ("day", "date"),
        ("at", "timestamp"),
    )
)
ROW = "Malformed records are detected in record parsing: [null]. "


def number(value):
    return f'{ROW}\nCaused by: java.lang.NumberFormatException: For input string: "{value}"\n\tat a.b'


def time(value):
    return f"{ROW}\nCaused by: java.time.DateTimeException: Text '{value}' could not be parsed at index 5"


def field(name, value, shape="VALUE_STRING"):
    return (
        f"{ROW}\nCaused by: Cannot parse the field name '{name}' and the value {value} of the JSON token "
        f'type {shape} to target Spark data type "BIGINT".'
    )


def found(text, said, *, kind="csv", **options):
    content = text if isinstance(text, bytes) else text.encode()
    return find_fault(io.BytesIO(content), said, kind=kind, options=options, columns=COLUMNS)


CSV = {
    "its type": ("id,city\n1,abc\nabc,x\n", number("abc"), {}, (3, "id", "abc")),
    "a fraction where a double stands too": ("amount,id\n1.5,1\n2.5,1.5\n", number("1.5"), {}, (3, "id", "1.5")),
    "too large": ("small,id\n7,300\n300,1\n", number("300"), {}, (3, "small", "300")),
    "blanks": ("id\n1\n 5\n", number(" 5"), {}, (3, "id", " 5")),
    "empty lines and comments": ("\n#x\nid\n\n#abc\nabc\n", number("abc"), {"comment": "#"}, (6, "id", "abc")),
    "line ends": (b"id,ok\r\n1,true\r\nabc,true\r\n", number("abc"), {}, (3, "id", "abc")),
    "separator, quotes": ("id;ok\n'1';x\n", number("x"), {"sep": ";", "quote": "'"}, (2, "ok", "x")),
    "no header": ("1\nabc\n", number("abc"), {"header": "false"}, (None, None, "abc")),
    "encoding": ("id,city\n1,é\nx,é\n".encode("latin-1"), number("x"), {"ENCODING": "latin1"}, (3, "id", "x")),
    "a byte order mark": (b"\xef\xbb\xbfid\nx\n", number("x"), {}, (2, "id", "x")),
    "cells of several lines": (
        'id,city,small\n1,"a\nb",2\n3,"c\n\nd",x\n', number("x"), {"multiLine": "true"}, (6, "small", "x")
    ),
    "too few cells": ("id,city\n1,a\n2\n", ROW, {}, (3, None, None)),
    "too many cells": ("id,city\n1,a\n2,b,c\n", ROW, {}, (3, None, None)),
    "a decimal, which Java does not name": ("price\n1.5\nabc\n", ROW, {}, (3, "price", "abc")),
    "a word for null": ("price,id\nNA,1\n1,\n", ROW, {"nullValue": "NA"}, (None, None, None)),
    "a date": ("day,city\n2024-01-01,2024-99-01\n2024-99-01,x\n", time("2024-99-01"), {}, (3, "day", "2024-99-01")),
    "a date or a time": ("day,at\n1,2\n2024-99-01,3\n", time("2024-99-01"), {}, (None, None, "2024-99-01")),
    "not there": ("id\n1\n", number("abc"), {}, (None, None, "abc")),
    "other line ends": ("id\nabc\n", number("abc"), {"lineSep": "|"}, (None, None, "abc")),
    "a separator of two characters": ("id\nabc\n", number("abc"), {"sep": "||"}, (None, None, "abc")),
}  # fmt: skip


@pytest.mark.parametrize("case", CSV)
def test_a_value_of_a_csv_file_is_found_where_it_is_certain(case):
    text, said, options, (line, column, value) = CSV[case]
    assert found(text, said, **options) == LineFault(line=line, column=column, value=value)


JSON = {
    "a text": ('{"id":1}\n\n{"id":"x"}\n', field("id", "x"), (3, "id", "x")),
    "a text that is a number": ('{"id":5}\n{"id":"5"}\n', field("id", "5"), (2, "id", "5")),
    "a fraction": ('{"id":"1.50"}\n{"id":1.50}\n', field("id", "1.50", "VALUE_NUMBER_FLOAT"), (2, "id", "1.50")),
    "another field": ('{"city":"x"}\n{"id":"x"}\n', field("id", "x"), (2, "id", "x")),
    "of a struct": ('{"a":{"id":"x"}}\n', field("id", "x"), (None, "id", "x")),
    "no JSON": ("{\"id\":1}\n{'id':1}\n{\"id\":\n", ROW, (3, None, None)),
}  # fmt: skip


@pytest.mark.parametrize("case", JSON)
def test_a_record_of_a_json_file_is_found_where_it_is_certain(case):
    text, said, (line, column, value) = JSON[case]
    assert found(text, said, kind="json") == LineFault(line=line, column=column, value=value)


def test_json_over_several_lines_has_no_line_of_a_record():
    assert found('[{"id":\n"x"}]', field("id", "x"), kind="json", multiLine="true").line is None


class Counted(io.BytesIO):
    """Counts what is read of it."""

    taken = 0

    def read1(self, size=-1):
        data = super().read1(size)
        self.taken += len(data)
        return data


@pytest.mark.parametrize("text", ["id\n" + "1\n" * 50_000 + "x\n", "id\n" + "1" * 100_000])
def test_no_more_is_read_than_is_allowed(text, monkeypatch):
    monkeypatch.setattr(lines, "SEARCHED_BYTES", 20_000)
    file = Counted(text.encode())
    fault = find_fault(file, number("x"), kind="csv", options={}, columns=COLUMNS)
    assert fault == LineFault(value="x", is_truncated=True)
    assert file.taken <= 40_000
