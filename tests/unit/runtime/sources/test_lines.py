"""The line of a cell, or of a malformed record, is found in the file, or not told at all."""

from __future__ import annotations

import io

import pytest

from parquetry.runtime.sources import lines
from parquetry.runtime.sources.lines import FoundLine, SoughtCell, find_cell, find_malformed


def found(text, column, value, *, kind="csv", **options):
    content = text if isinstance(text, bytes) else text.encode()
    return find_cell(
        io.BytesIO(content), SoughtCell(column=column, text=value), kind=kind, options=options
    ).line


CSV = {
    "its column": ("id,city\n1,abc\nabc,x\n", "id", "abc", {}, 3),
    "in any case": ("Id\n1\nabc\n", "iD", "abc", {}, 3),
    "blanks": ("id\n5\n 5\n", "id", " 5", {}, 3),
    "empty lines and comments": ("\n#x\nid\n\n#abc\nabc\n", "id", "abc", {"comment": "#"}, 6),
    "line ends": (b"id,ok\r\n1,true\r\nabc,true\r\n", "id", "abc", {}, 3),
    "separator, quotes": ("id;ok\n'1';x\n", "ok", "x", {"sep": ";", "quote": "'"}, 2),
    "a quote that is doubled": ('id\n"a ""b"""\n', "id", 'a "b"', {}, 2),
    "a quote that is escaped": ('id\n"a \\"b"\n', "id", 'a "b', {"escape": "\\"}, 2),
    "no header": ("1\nabc\n", "_c0", "abc", {"header": "false"}, 2),
    "encoding": ("id,city\n1,é\nx,é\n".encode("latin-1"), "city", "é", {"encoding": "latin1"}, 2),
    "a byte order mark": (b"\xef\xbb\xbfid\nx\n", "id", "x", {}, 2),
    "cells of several lines": (
        'id,city,small\n1,"a\nb",2\n3,"c\n\nd",x\n', "small", "x", {"multiline": "true"}, 6
    ),
    "a long cell by its beginning": ("id\n" + "x" * 2000 + "\n", "id", "x" * 1000, {}, 2),
    "a longer cell": ("id\n" + "x" * 2000 + "\n", "id", "xx", {}, None),
    "not there": ("id\n1\n", "id", "abc", {}, None),
    "other line ends": ("id\nabc\n", "id", "abc", {"linesep": "|"}, None),
    "a separator of two characters": ("id\nabc\n", "id", "abc", {"sep": "||"}, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CSV)
def test_a_cell_of_a_csv_file_is_found_where_it_is_certain(case):
    text, column, value, options, line = CSV[case]
    assert found(text, column, value, **options) == line


JSON = {
    "a text": ('{"id":1}\n\n{"id":"x"}\n', "id", "x", 3),
    "a number as it is written": ('{"id":1.5}\n{"id":1.50}\n', "id", "1.50", 2),
    "a flag": ('{"id":1}\n{"id":true}\n', "id", "true", 2),
    "a struct": ('{"id":[1]}\n{"id":{"a":1}}\n', "id", '{"a":1}', 2),
    "a field in any case": ('{"ID":"x"}\n', "id", "x", 1),
    "another field": ('{"city":"x"}\n{"id":"x"}\n', "id", "x", 2),
    "of a struct": ('{"id":"x"}\n{"a":{"id":"x"}}\n', "a.id", "x", 2),
    "of elements": ('{"a":[{"id":"y"},{"id":"x"}]}\n', "a.element.id", "x", 1),
    "of a map": ('{"a":{"k":{"id":"x"}}}\n', "a.value.id", "x", 1),
    "of an array of records": ('[{"id":"y"},{"id":"x"}]\n', "id", "x", 1),
    "what Python does not read": ("{'id':1}\n{\"id\":\"x\"}\n", "id", "x", 2),
}  # fmt: skip


@pytest.mark.parametrize("case", JSON)
def test_a_cell_of_a_json_file_is_found_where_it_is_certain(case):
    text, column, value, line = JSON[case]
    assert found(text, column, value, kind="json") == line


@pytest.mark.parametrize(
    ("text", "line"), [('[{"id":\n"y"},\n{"id": "x"}]', 3), ('[{"id":"x"},\n{"id":"x"}]', None)]
)
def test_json_over_several_lines_has_a_line_where_the_cell_is_there_once(text, line):
    assert found(text, "id", "x", kind="json", multiline="true") == line


MALFORMED = {
    "too few cells": ("id,city\n1,a\n2\n", "csv", {}, 3),
    "too many cells": ("id,city\n1,a\n2,b,c\n", "csv", {}, 3),
    "without a header": ("1,a\n2\n", "csv", {"header": "false"}, 2),
    "no JSON": ('{"id":1}\n{\'id\':1}\n{"id":\n', "json", {}, 3),
    "JSON over several lines": ('{"id":\n', "json", {"multiline": "true"}, None),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_record_that_is_malformed_is_found(case):
    text, kind, options, line = MALFORMED[case]
    assert find_malformed(io.BytesIO(text.encode()), kind=kind, options=options) == FoundLine(line=line)


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
    place = find_cell(file, SoughtCell(column="id", text="x"), kind="csv", options={})
    assert place == FoundLine(is_truncated=True)
    assert file.taken <= 40_000
