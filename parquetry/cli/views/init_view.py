"""The files of a new project, and what to type next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parquetry import shell
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.spec_files.scaffold import REQUIREMENTS, Scaffold


class InitView:
    """One line per file."""

    def text(self, outcome: Scaffold, paint: Paint) -> str:
        """The files, then the next command."""
        lines = [f"project {paint.bold(outcome.name)} in {outcome.directory}", ""]
        lines += [f"{paint.good('wrote')}  {path}" for path in outcome.files]
        there = (
            ""
            if outcome.directory == Path()
            else f"{shell.line('cd', shell.place(str(outcome.directory)))} && "
        )
        if outcome.installs is None:
            lines += ["", f"For the workflow: name in {REQUIREMENTS} where pip gets parquetry from."]
        return "\n".join([*lines, "", f"Next: {there}parquetry plan --out target/plan.json"])

    def json(self, outcome: Scaffold) -> Any:
        """The same as plain values."""
        return {
            "project": outcome.name,
            "directory": str(outcome.directory),
            "files": list(outcome.files),
        }
