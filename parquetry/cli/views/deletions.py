"""The files that services would delete: totals by reason, and the first files, in text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.message import in_full
from parquetry.runtime.services.deletions import Deletion, DeletionReason, Deletions, Quarantined
from parquetry.runtime.spec.codec import to_json_value
from parquetry.runtime.write.partition_retention import PartitionExpiry

SHOWN_FILES: Final = 20
"""The number of files of a table that texts and pages name. JSON has all."""

_NOUNS: Final[Mapping[DeletionReason, tuple[str, str]]] = {
    DeletionReason.SUPERSEDED: ("older version", ""),
    DeletionReason.REPLACED: ("file", "of replaced groups"),
    DeletionReason.DEAD_WRITE: ("file", "of writers that ended without a commit"),
    DeletionReason.ROLLED_BACK: ("orphan", "of rolled-back writes"),
    DeletionReason.ABANDONED: ("orphan", "of groups that clusterings abandoned"),
    DeletionReason.QUARANTINE: ("orphan", "whose quarantine is over"),
    DeletionReason.LEFTOVER: ("leftover", "of writers that have ended"),
    DeletionReason.STATISTICS: ("file", "of statistics without data"),
    DeletionReason.ARCHIVED: ("state", "of archived instants"),
    DeletionReason.ARCHIVE: ("merged file", "of the archive"),
    DeletionReason.CHANGE: ("file", "of an interrupted change of the table"),
}
_REASONS: Final[Mapping[DeletionReason, str]] = {
    DeletionReason.SUPERSEDED: "{instant} wrote the next version, and no retention rule keeps this one",
    DeletionReason.REPLACED: "{instant} replaced its file group, and no retention rule keeps it",
    DeletionReason.DEAD_WRITE: "the writer of {instant} ended without a commit",
    DeletionReason.ROLLED_BACK: "{instant} was rolled back",
    DeletionReason.ABANDONED: "the clustering {instant} abandoned its file group",
    DeletionReason.QUARANTINE: "an orphan of {instant}, whose quarantine is over",
    DeletionReason.LEFTOVER: "its writer has ended",
    DeletionReason.STATISTICS: "no data file of its write is left",
    DeletionReason.ARCHIVED: "{instant} moves to the archive",
    DeletionReason.ARCHIVE: "other files of the archive contain its instants",
    DeletionReason.CHANGE: "a change of the table was interrupted, and is finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionsView:
    """The totals by reason and the first files; with ``verbose`` all files."""

    verbose: bool

    def text(self, outcome: Deletions, paint: Paint) -> str:
        """Return the total, a line for each reason with its files below it, and the retained commits."""
        lines = [paint.bold(total_text(outcome))]
        for reason, files in outcome.by_reason.items():
            size = human_size(sum(file.size_bytes for file in files))
            lines.append(f"  {files_text(reason, len(files))}, {size}")
            shown = files if self.verbose else files[:SHOWN_FILES]
            lines += [f"    {file_text(file)}" for file in shown]
            if more := len(files) - len(shown):
                lines.append(f"    and {count(more, 'more file')}; -v names all")
        shown_orphans = outcome.quarantine if self.verbose else outcome.quarantine[:SHOWN_FILES]
        lines += [f"  {line}" for line in quarantine_lines(outcome)]
        lines += [f"    {quarantined_text(file)}" for file in shown_orphans]
        if more := len(outcome.quarantine) - len(shown_orphans):
            lines.append(f"    and {count(more, 'more orphan')}; -v names all")
        if outcome.earliest_retained is not None:
            lines.append(f"  the table stays readable as of {outcome.earliest_retained} and later")
        return "\n".join(lines)

    def json(self, outcome: Deletions) -> Any:
        """Return the totals and every file."""
        return {
            "deletes": {"files": len(outcome.files), "size_bytes": outcome.size_bytes},
            **to_json_value(outcome),
        }


def total_text(deletions: Deletions) -> str:
    """Return the number and the size of all files, such as ``deletes 3 files, 1.2 MB``."""
    if not deletions.files:
        return "deletes nothing"
    return f"deletes {count(len(deletions.files), 'file')}, {human_size(deletions.size_bytes)}"


def reasons_text(deletions: Deletions) -> str:
    """Return the total and the number and size by reason, in one line, or why services would fail."""
    if deletions.problem is not None:
        return f"the services would fail: {in_full(deletions.problem)}"
    parts = (
        f"{files_text(reason, len(files))} ({human_size(sum(file.size_bytes for file in files))})"
        for reason, files in deletions.by_reason.items()
    )
    total = ": ".join(filter(None, (total_text(deletions), ", ".join(parts))))
    return "; ".join((total, *quarantine_lines(deletions)))


def quarantine_lines(deletions: Deletions) -> Iterator[str]:
    """Yield a line about orphans that would be moved to the quarantine, and one about those that stay."""
    for is_new, what in (
        (True, "moves {orphans} to the quarantine"),
        (False, "keeps {orphans} in the quarantine"),
    ):
        files = [file for file in deletions.quarantine if file.is_new is is_new]
        if files:
            size = human_size(sum(file.size_bytes for file in files))
            orphans = what.format(orphans=count(len(files), "orphan"))
            yield f"{orphans}, {size}, the first until {_time(min(file.until_ms for file in files))}"


def quarantined_text(file: Quarantined) -> str:
    """Return the former path and size of an orphan, and when it may be deleted."""
    return f"{file.path}  {human_size(file.size_bytes)}  in the quarantine until {_time(file.until_ms)}"


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def file_lines(deletions: Deletions) -> Iterator[str]:
    """Yield a line for each of the first files, and the number of the others."""
    yield from (f"deletes {file_text(file)}" for file in deletions.files[:SHOWN_FILES])
    if (more := len(deletions.files) - SHOWN_FILES) > 0:
        yield f"deletes {count(more, 'more file')}; JSON names all"
    yield from map(quarantined_text, deletions.quarantine[:SHOWN_FILES])
    if (more := len(deletions.quarantine) - SHOWN_FILES) > 0:
        yield f"{count(more, 'more orphan')} in the quarantine; JSON names all"


def expiry_lines(expiry: PartitionExpiry) -> Iterator[str]:
    """Yield a line with the partitions that are deleted, and one for each reason why others are kept."""
    if deleted := expiry.deleted:
        files, size_bytes = sum(one.files for one in deleted), sum(one.size_bytes for one in deleted)
        names = ", ".join(one.partition for one in deleted[:SHOWN_FILES])
        more = f" and {len(deleted) - SHOWN_FILES:,} more" if len(deleted) > SHOWN_FILES else ""
        yield (
            f"deletes {count(len(deleted), 'expired partition')} with {count(files, 'file')}, "
            f"{human_size(size_bytes)}: {names}{more}"
        )
    yield from (in_full(warning) for warning in expiry.warnings)


def file_text(file: Deletion) -> str:
    """Return the path and size of a file, and why it is deleted."""
    return f"{file.path}  {human_size(file.size_bytes)}  {_why(file)}"


def files_text(reason: DeletionReason, number: int) -> str:
    """Return the number of files with that reason, such as ``3 older versions``."""
    noun, rest = _NOUNS[reason]
    return " ".join(filter(None, (count(number, noun), rest)))


def _why(file: Deletion) -> str:
    """Return the reason of one file."""
    instant = file.instant or "a write"
    return _REASONS[file.reason].format(instant=instant)
