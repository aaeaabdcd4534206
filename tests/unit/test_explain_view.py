"""What `explain` says fits the terminal, whatever a code or a setting has to say."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.code_texts import TEXTS
from parquetry.project.codes import CODES


@pytest.mark.parametrize("width", [60, 80])
def test_a_code_is_explained_within_the_width(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for code, meaning in {**CODES, **TEXTS}.items():
        answer = CliRunner().invoke(command_line, ["explain", code])
        assert answer.exit_code == 0
        assert max(map(len, answer.stdout.splitlines())) <= width, code
        said = " ".join(answer.stdout.split())
        assert said.startswith(f"{code} (")
        assert said.endswith(f" {meaning.explanation} {meaning.remedy}")
