"""The matrix of readers as data."""

from __future__ import annotations

from parquetry.project.readers.matrix import ReaderResult, matrix, shut_out
from parquetry.project.validation.definitions import Kind, inlined


def test_the_matrix_is_whole():
    found = matrix()
    for reader in found.readers.values():
        if reader.version is not None:
            assert reader.cells.keys() == found.kinds.keys(), reader.name
        for kind, cell in reader.cells.items():
            assert kind in found.kinds
            assert (cell.detail is None) == (cell.result is ReaderResult.RIGHT), (reader.name, kind)
            assert (cell.source is None) == (reader.version is not None), (reader.name, kind)


def test_specs_may_name_the_readers_of_the_matrix():
    names = [*matrix().readers]
    target = inlined(Kind.PROJECT)["properties"]["targets"]["additionalProperties"]["properties"]
    assert inlined(Kind.TABLE)["properties"]["readers"]["items"]["enum"] == names
    assert target["readers"]["items"]["enum"] == names


def test_a_version_shuts_out_the_readers_that_refuse_it():
    assert shut_out(6) == ()
    assert {*shut_out(8)} < {*shut_out(9)}
    assert {"Athena", "Redshift"} <= {*shut_out(8)}
    assert {*shut_out(9)} - {*shut_out(8)} == {"Hudi 1.0 on Spark"}
