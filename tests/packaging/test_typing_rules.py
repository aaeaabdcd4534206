"""The plugin of mypy refuses sentences that are no literals, and messages in other texts."""

from __future__ import annotations

import subprocess
import sys

from tests.support.repository import ROOT

SOURCE = """
from parquetry.errors import ParquetryError
from parquetry.message import Message
from parquetry.runtime.errors import CorruptTableError

def refused(text: str, failure: ParquetryError, message: Message | str) -> list[object]:
    return [
        ParquetryError(text),
        CorruptTableError(f"{text} is gone"),
        Message("a " + text),
        f"{failure} again",
        "{}".format(message),
        str(failure),
    ]

def accepted(text: str, failure: ParquetryError) -> list[object]:
    return [
        ParquetryError("a " "{text}", text=text),
        CorruptTableError(failure.message),
        Message("{failure}", failure=failure.message),
        f"{text}",
    ]
"""


def test_values_are_fields_and_messages_keep_them(tmp_path):
    file = tmp_path / "cases.py"
    file.write_text(SOURCE)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [int(line.split(":")[1]) for line in answer.stdout.splitlines() if ": error: " in line]
    refused = range(SOURCE.splitlines().index("    return [") + 2, SOURCE.splitlines().index("    ]") + 1)
    assert lines == [*refused], answer.stdout
