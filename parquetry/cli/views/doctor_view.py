"""What the doctor found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parquetry.cli.terminal.output import Paint
from parquetry.compiler.reports.doctor import Check


class DoctorView:
    """One line per check."""

    def text(self, outcome: Sequence[Check], paint: Paint) -> str:
        """What was found, bad things marked."""
        width = max(len(check.name) for check in outcome)
        marks = {True: paint.good("ok  "), False: paint.bad("mend")}
        return "\n".join(f"{marks[c.ok]}  {c.name.ljust(width)}  {c.found}" for c in outcome)

    def json(self, outcome: Sequence[Check]) -> Any:
        """The checks and whether all is well."""
        return {
            "ok": all(check.ok for check in outcome),
            "checks": [{"name": check.name, "ok": check.ok, "found": check.found} for check in outcome],
        }
