"""Findings of `validate` about the declared readers of tables."""

from __future__ import annotations

import pytest

from parquetry import project
from parquetry.project.diagnostics.model import Severity
from tests.support.spec_cases import PROJECT, TABLE, codes, loaded, write_project

CLUSTERED = "clustering: {trigger: async}\n"


def at_target(text: str) -> str:
    return PROJECT.replace("dev: {warehouse: ./warehouse}", f"dev: {{warehouse: ./warehouse, {text}}}")


def found(root, **options):
    """The findings of a project, but for those of writes that are not committed, which no setting changes."""
    all_found = project.load(root, **options).diagnostics
    return tuple(one for one in all_found if "while a write is not committed" not in str(one.summary))


def test_a_setting_with_which_a_reader_is_wrong_is_a_warning_at_the_setting(tmp_path):
    text = TABLE + CLUSTERED + "readers: [hudi-1.2, clickhouse]\n"
    (one,) = found(write_project(tmp_path, {"tables/flights.yml": text}))
    assert (one.code, one.severity) == ("PQ713", Severity.WARNING)
    assert str(one.summary).startswith("ClickHouse returns wrong rows between a clustering")
    line = text.splitlines()[one.line - 1]
    assert line.startswith("clustering:")


def test_what_no_setting_causes_is_reported_at_the_readers(tmp_path):
    text = TABLE + "readers: [clickhouse]\n"
    (one,) = project.load(write_project(tmp_path, {"tables/flights.yml": text})).diagnostics
    assert one.code == "PQ713"
    assert str(one.summary).startswith("ClickHouse returns wrong rows while a write is not committed")
    assert text.splitlines()[one.line - 1].startswith("readers:")


def test_a_reader_that_refuses_the_table_is_another_warning(tmp_path):
    text = TABLE + "table_version: 9\nreaders: [athena]\n"
    assert codes(write_project(tmp_path, {"tables/flights.yml": text})) == [("PQ714", "tables/flights.yml")]


@pytest.mark.parametrize("code", ["PQ713", "PQ714"])
def test_an_allow_entry_accepts_the_warning(tmp_path, code):
    cause = CLUSTERED if code == "PQ713" else "table_version: 9\n"
    reader = "clickhouse" if code == "PQ713" else "daft"
    allow = f"allow:\n  - {{code: {code}, table: flights, reason: only counted by the day}}\n"
    files = {
        "parquetry.yml": PROJECT + allow,
        "tables/flights.yml": TABLE + cause + f"readers: [{reader}]\n",
    }
    assert code not in {name for name, _ in codes(write_project(tmp_path, files))}
    without = write_project(tmp_path, files | {"parquetry.yml": PROJECT})
    assert code in {name for name, _ in codes(without)}


def test_the_readers_of_a_table_replace_those_of_its_target(tmp_path):
    files = {"parquetry.yml": at_target("readers: [clickhouse]"), "tables/flights.yml": TABLE + CLUSTERED}
    root = write_project(tmp_path, files)
    (one,) = found(root)
    assert str(one.summary).startswith("at target 'dev': ClickHouse")
    assert [table.readers for table in project.load(root).tables] == [("clickhouse",)]
    root = write_project(root, files | {"tables/flights.yml": TABLE + CLUSTERED + "readers: [hudi-rs]\n"})
    (table,) = loaded(root).tables
    assert table.readers == ("hudi-rs",)
    assert str(table.origin("readers")).startswith("tables/flights.yml")


def test_the_readers_of_other_targets_are_checked_too(tmp_path):
    other = PROJECT + "  prod: {warehouse: ./prod, readers: [daft]}\ndefault_target: dev\n"
    files = {"parquetry.yml": other, "tables/flights.yml": TABLE + CLUSTERED}
    (one,) = found(write_project(tmp_path, files))
    assert one.code == "PQ713"
    assert str(one.summary).startswith("at target 'prod': Daft")


def test_an_unknown_reader_is_refused_with_the_known_ones(tmp_path):
    (one,) = found(write_project(tmp_path, {"tables/flights.yml": TABLE + "readers: [spark]\n"}))
    assert one.code == "PQ104"
    assert "spark-parquet" in str(one.summary)


def test_a_table_with_other_mistakes_is_not_judged(tmp_path):
    broken = TABLE.replace("type: string", "type: strnig", 1) + CLUSTERED + "readers: [clickhouse]\n"
    assert "PQ713" not in {code for code, _ in codes(write_project(tmp_path, {"tables/flights.yml": broken}))}


def test_a_reader_of_published_tables_needs_them_published(tmp_path):
    text = TABLE + "readers: [duckdb-iceberg, delta-rs]\npublish: {delta: {}}\n"
    (one,) = project.load(write_project(tmp_path, {"tables/flights.yml": text})).diagnostics
    assert (one.code, one.severity) == ("PQ714", Severity.WARNING)
    assert str(one.summary).startswith("DuckDB over Iceberg cannot read the table without publish.iceberg (")
    assert str(one.hint) == "set publish.iceberg: {}"
    assert text.splitlines()[one.line - 1].startswith("readers:")
