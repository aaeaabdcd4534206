"""A sizing simulation as text: one line for files of one fate, and no column that breaks."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.terminal.format import short_names
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.simulation import SimulationView
from parquetry.compiler.reports.simulate_sizing import Simulation
from parquetry.runtime.base_file.model import new_file_id
from parquetry.runtime.layout.simulation import simulate_sizing
from parquetry.runtime.spec.sizing import SizingPolicy

POLICY = SizingPolicy(max_file_size_bytes=120_000_000, small_file_limit_bytes=100_000_000)
WORKED = (
    "--files 40MB,80MB,90MB,130MB,105MB --inserts 450000 --record-size 1000B "
    "--max-file-size 120MB --small-file-limit 100MB --insert-split-size 120000"
)


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def simulated(*arguments):
    result = CliRunner().invoke(command_line, ["simulate", "sizing", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(files, inserts):
    plan = simulate_sizing(files, record_size_bytes=1000, inserts=inserts, policy=POLICY)
    return SimulationView().text(Simulation(plan=plan, policy=POLICY), Paint(enabled=False))


def test_the_worked_example_is_shown_line_by_line():
    header, *rows = simulated(*WORKED.split()).partition("\n\n")[0].splitlines()
    assert header.split() == ["file", "before", "small", "inserts", "after", "why"]
    assert [row[:44].split() for row in rows] == [
        ["File_1", "40", "MB", "yes", "74,000", "114", "MB"],
        ["File_2", "80", "MB", "yes", "34,000", "114", "MB"],
        ["File_3", "90", "MB", "yes", "24,000", "114", "MB"],
        ["File_4", "130", "MB", "no", "0", "130", "MB"],
        ["File_5", "105", "MB", "no", "0", "105", "MB"],
        ["2", "new", "114,000", "each", "114", "MB"],
        ["new", "90,000", "90", "MB"],
    ]


def test_the_lines_stand_for_as_many_rows_as_there_are_inserts():
    arguments = ["--files", "40MB,40MB,118MB,40MB,118MB", "--inserts", "5000000", "--record-size", "1000B"]
    limits = ["--max-file-size", "120MB", "--small-file-limit", "100MB"]
    rows = simulated(*arguments, *limits).partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[:2] for row in rows if row[0] != " "] == [
        ["3", "files"],
        ["2", "files"],
        ["41", "new"],
        ["new", "104,000"],
    ]
    document = json.loads(simulated(*arguments, *limits, "--format", "json"))
    assert (
        sum(entry["inserts"] for entry in document["files"])
        == 5_000_000
        == 3 * 74_000 + 41 * 114_000 + 104_000
    )
    assert len(document["files"]) == 5 + 42


def test_file_ids_of_a_table_leave_room_for_the_rest():
    ids = [new_file_id("20261121120000000", index) for index in range(12)]
    text = shown([(name, 119_000_000 - 3_000_000 * i) for i, name in enumerate(ids)], 3_000_000)
    table, _, _ = text.partition("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    for name in ids:
        assert sum(line.startswith(f"{name[:8]}  ") for line in table.splitlines()) == 1
    assert ids[0] not in text


def test_names_stay_apart():
    hudi = [f"0fd6d3a8-2a3e-4c5f-9d3e-1b2c3d4e5f60-{n}" for n in range(3)]
    assert short_names(hudi)[hudi[2]] == "0fd6d3a8..5f60-2"
    assert len(set(short_names(hudi).values())) == 3
    alike = [f"0fd6d3a8-{n}-aaaaaaaaaaaaaaaa" for n in range(2)]
    assert short_names(alike) == {name: name for name in alike}
    assert short_names(["File_1", "File_10"]) == {"File_1": "File_1", "File_10": "File_10"}
    assert short_names([]) == {}
