"""What compiling wrote."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.jobs.manifest import Compiled


class CompileView:
    """The files, by path relative to the project."""

    def text(self, outcome: Compiled, paint: Paint) -> str:
        """Counts and the manifest's path."""
        jobs = sum(path.suffix == ".py" for path in outcome.files)
        return (
            f"{paint.good('compiled')} {count(outcome.tables, 'table')} into {count(jobs, 'job')}: "
            f"{outcome.manifest.as_posix()}"
        )

    def json(self, outcome: Compiled) -> Any:
        """Every file."""
        return {
            "manifest": outcome.manifest.as_posix(),
            "tables": outcome.tables,
            "files": [path.as_posix() for path in outcome.files],
        }
