"""A planned purge, and the result and proof of an executed one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.spec.codec import to_json_value

if TYPE_CHECKING:  # starts Spark's modules
    from parquetry.runtime.spark.purge import PurgeReport, SourceFiles, Survey


class SurveyView:
    """The rows and files that a purge would remove."""

    def line(self, outcome: Survey) -> str:
        """Return the counts in one sentence."""
        now = f"{count(outcome.rows, 'row')} in {count(outcome.files, 'file')}"
        before = f"{count(outcome.older_rows, 'row')} in {count(outcome.older_files, 'older file')}"
        return f"{outcome.table} has {now}, and {before}."

    def text(self, outcome: Survey, paint: Paint) -> str:
        """Return the sentence, and the source files that the rows came from."""
        del paint
        return "\n".join([self.line(outcome), *_sources(outcome.sources)])

    def json(self, outcome: Survey) -> Any:
        """Return the counts; no value is shown."""
        return {
            "table": outcome.table,
            "rows": outcome.rows,
            "files": outcome.files,
            "older_rows": outcome.older_rows,
            "older_files": outcome.older_files,
            "sources": to_json_value(outcome.sources),
        }


class PurgeView:
    """The removed rows and files, the files that were checked, and those that still contain a value."""

    def text(self, outcome: PurgeReport, paint: Paint) -> str:
        """Return a line for each step, the proof, and a list of what parquetry cannot check."""
        scrubbed_files = {
            "timeline file": outcome.scrubbed.timeline_files,
            "archive log": outcome.scrubbed.archive_files,
            "statistics file": outcome.scrubbed.statistics_files,
            "sample": outcome.scrubbed.samples,
        }
        deleted = f", commit {outcome.delete}" if outcome.delete else ""
        cleaned = f", clean {outcome.clean}" if outcome.clean else ""
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(outcome.checked.items()))
        checked = sum(outcome.checked.values())
        searched = outcome.values - outcome.shared_values
        lines = [
            f"deleted   {count(outcome.rows_deleted, 'row')}{deleted}",
            f"cleaned   {count(outcome.files_deleted, 'old file')}{cleaned}",
            f"scrubbed  {', '.join(count(number, kind) for kind, number in scrubbed_files.items())}",
            f"checked   {count(checked, 'file')} ({kinds}) for {count(searched, 'value')}",
        ]
        if outcome.shared_values:
            them = "it" if outcome.shared_values == 1 else "them"
            lines.append(
                f"          {count(outcome.shared_values, 'value')} left out: other rows have {them} too"
            )
        if outcome.is_proven:
            lines.append(
                f"{paint.good('proven')}    no file of {outcome.table} holds a value or a matching row"
            )
        else:
            lines.append(f"{paint.bad('found')}     in {count(len(outcome.found), 'place')}:")
            lines += [f"  {one.file}: {one.place}" for one in outcome.found]
        return "\n".join([*lines, *_sources(outcome.sources), _OUT_OF_REACH])

    def json(self, outcome: PurgeReport) -> Any:
        """Return every field, and whether the purge is proven."""
        return {**to_json_value(outcome), "proven": outcome.is_proven}


_OUT_OF_REACH = (
    "not checked: files of sources, backups, versions that a bucket keeps,\n"
    "             logs of Spark, other tables"
)


def _sources(sources: Sequence[SourceFiles] | None) -> list[str]:
    if sources is None:
        return ["the source files of the rows are unknown: the table keeps no commit times"]
    lines = []
    for source in sources:
        lines.append(f"rows came from {count(source.files, 'file')} of source {source.source}:")
        lines += [f"  {path}" for path in source.paths]
        if source.files > len(source.paths):
            lines.append(f"  and {source.files - len(source.paths):,} more")
    return lines
