"""The outcome of adopting a table, in text and JSON."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.spec_files.accept_drift import Acceptance
from parquetry.compiler.spec_files.adopt import Adopted
from parquetry.message import in_full
from parquetry.runtime.spec.codec import to_json_value


class AdoptView:
    """The adopted table with its settings, or the drift that was accepted into its spec."""

    def text(self, outcome: Adopted | Acceptance, paint: Paint) -> str:
        """Return a headline, the settings or changes that were taken over, and the next step."""
        match outcome:
            case Adopted():
                head = (
                    f"{paint.good('adopted')} {paint.bold(outcome.table)} at {outcome.location}: "
                    f"{outcome.file}, {count(outcome.columns, 'column')}, record {outcome.applied_number}"
                )
                lines = [
                    head,
                    *(f"  {path}: {_shown(value)}" for path, value in sorted(outcome.settings.items())),
                    *(
                        f"  {paint.warn('left out')} {left.path}: {_shown(left.value)}, "
                        f"for {in_full(left.reason)}"
                        for left in outcome.left_out
                    ),
                ]
                if outcome.metadata_partitions:
                    lines += [f"  {_metadata_table_text(outcome.metadata_partitions, paint)}"]
            case Acceptance(accepted=()):
                return f"{paint.bold(outcome.table)} at {outcome.location} has not drifted: nothing to accept"
            case Acceptance():
                head = (
                    f"{paint.good('accepted')} {count(len(outcome.accepted), 'change')} of "
                    f"{paint.bold(outcome.table)}: {outcome.file}, record {outcome.applied_number}"
                )
                lines = [
                    head,
                    *(f"  {d.path}: {_shown(d.applied)} -> {_shown(d.live)}" for d in outcome.accepted),
                ]
        return "\n".join([*lines, f"\nNext: review {outcome.file} and commit it"])

    def json(self, outcome: Adopted | Acceptance) -> Any:
        """Return every field; ``accepted`` exists only if drift was accepted."""
        return to_json_value(outcome)


def _metadata_table_text(partitions: tuple[str, ...], paint: Paint) -> str:
    """Return what happens to the metadata table of an adopted table."""
    return (
        f"{paint.warn('metadata table')} ({', '.join(partitions)}): nothing is written until the next plan, "
        "which drops it, is applied; set hoodie.metadata.enable=false in every Hudi writer"
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
