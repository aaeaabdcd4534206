"""The services that are due after a write: publishing, a clean, an archival. None may fail the write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from parquetry.errors import message_of
from parquetry.message import Message, Text
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import StaleTimelineError
from parquetry.runtime.publish.publishing import publish_after
from parquetry.runtime.services.archive import ArchiveResult, archive_if_due
from parquetry.runtime.services.clean import CleanResult, clean_if_due
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)

_Result = TypeVar("_Result")


def run_due_services(
    table: TableHandle, result: CommitResult, timeline: Timeline | None = None, *, timing: Timing
) -> CommitResult:
    """Run the due services after a write, and return its result with their figures and warnings.

    A failure of a service is a warning and does not fail the write. If nothing was committed, no service
    runs. Replaced file groups must be deleted before their replacecommit is archived. So clean runs first,
    and if it fails nothing is archived.

    Args:
        table: The table as the write opened it.
        result: The result of the write.
        timeline: The timeline behind the write, or None if it has to be listed.
        timing: The periods of the commit protocol.

    """
    if result.instant is None:
        return result
    warnings = [*result.warnings, *publish_after(table, "write")]
    had = len(warnings)
    policy: RetentionPolicy | None = None

    def clean(now: Timeline | None) -> CleanResult | None:
        nonlocal policy
        policy = retention_of(table)
        return clean_if_due(table, policy=policy, timeline=now, timing=timing)

    def archive(now: Timeline | None) -> ArchiveResult | None:
        return archive_if_due(table, policy=policy, timeline=now, timing=timing)

    cleaned = _attempt("clean", clean, timeline, warnings, table)
    if len(warnings) > had:
        return replace(result, warnings=tuple(warnings))
    archived = _attempt("archive", archive, timeline if cleaned is None else None, warnings, table)
    return replace(
        result,
        files_cleaned=0 if cleaned is None else cleaned.files_deleted + cleaned.orphans_deleted,
        instants_archived=0 if archived is None else len(archived.instants),
        warnings=tuple(warnings),
    )


def _attempt(
    name: str,
    service: Callable[[Timeline | None], _Result],
    timeline: Timeline | None,
    warnings: list[Text],
    table: TableHandle,
) -> _Result | None:
    """Run the service; add its failure to the warnings and return None."""
    try:
        try:
            return service(timeline)
        except StaleTimelineError:
            # Another writer archived instants while the service read the timeline.
            return service(None)
    except LATE_FAILURES as error:
        what = f"the {name} after the write failed; the commit is not affected"
        log_failure(_LOG, what, error, table.shown_by, location=table.store.uri)
        warnings.append(Message("{service}: {reason}", service=name, reason=message_of(error)))
        return None
