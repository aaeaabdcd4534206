"""A sizing simulation in text and JSON."""

from __future__ import annotations

from typing import Any

from parquetry.cli.output import Paint
from parquetry.cli.views import columns, human_size
from parquetry.compiler.simulate import Simulation
from parquetry.compiler.words import format_size
from parquetry.runtime.layout.simulation import sizing_json


class SimulationView:
    """Which file gets how many rows, and why."""

    def text(self, outcome: Simulation, paint: Paint) -> str:
        """One line per file, then the limits that were tried."""
        plan, policy = outcome.plan, outcome.policy
        rows = [
            (
                decision.slice.file_id,
                human_size(decision.slice.size_bytes),
                "yes" if decision.small else "no",
                f"{decision.inserts:,}",
                human_size(decision.size_after_bytes),
                decision.reason,
            )
            for decision in plan.decisions
        ]
        rows += [
            ("new", "", "", f"{a.inserts:,}", human_size(a.size_after_bytes), a.reason)
            for a in plan.new_files
        ]
        table = columns(_HEADER, rows, paint=paint, right=frozenset({1, 3, 4}))
        split = "auto" if policy.insert_split_size is None else f"{policy.insert_split_size:,} rows"
        return (
            f"{table}\n\n{plan.inserts:,} inserts; max_file_size {format_size(policy.max_file_size_bytes)}, "
            f"small_file_limit {format_size(policy.small_file_limit_bytes)}, insert_split_size {split}, "
            f"record_size {plan.record_size_bytes:g} B ({outcome.record_size_origin})"
        )

    def json(self, outcome: Simulation) -> Any:
        """Existing files in their order, then new ones with file null."""
        document = sizing_json(outcome.plan)
        for entry in document["files"]:
            del entry["reason"]
        return document


_HEADER = ("file", "before", "small", "inserts", "after", "why")
