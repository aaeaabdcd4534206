"""What `explain` says fits the terminal, whatever a code or a setting has to say."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.reports.code_texts import TEXTS
from parquetry.project.diagnostics.codes import CODES
from tests.support.spec_cases import TABLE, write_project


@pytest.mark.parametrize("width", [60, 80])
def test_a_code_is_explained_within_the_width(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for code, meaning in {**CODES, **TEXTS}.items():
        answer = CliRunner().invoke(command_line, ["explain", code])
        assert answer.exit_code == 0
        assert max(map(len, answer.stdout.splitlines())) <= width, code
        said = " ".join(answer.stdout.split())
        assert said.startswith(f"{code} (")
        assert said.endswith(f" {meaning.explanation} {meaning.remedy!s}")


@pytest.mark.parametrize("width", [80, 100])
def test_settings_are_one_line_each_below_their_file(monkeypatch, tmp_path, width):
    monkeypatch.setenv("COLUMNS", str(width))
    root = write_project(tmp_path, {"tables/flights.yml": f"{TABLE}description: {'long ' * 30}\n"})
    answer = CliRunner().invoke(command_line, ["explain", "flights", "-p", str(root)])
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert max(map(len, lines)) <= width
    (found,) = (line for line in lines if "sizing.min_fill" in line)
    assert found.split() == ["sizing.min_fill", "0"]
    (found,) = (number for number, line in enumerate(lines) if " description " in line)
    assert lines[found].split()[:3] == ["7:1", "description", "long"]
    assert lines[found + 1].strip().startswith("long long")
    assert lines.index("default: built in") < lines.index("table: tables/flights.yml")
