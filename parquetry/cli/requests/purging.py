"""A purge by hand: surveyed first, executed after approval."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parquetry.cli.requests.options import ProjectRequest

if TYPE_CHECKING:
    from parquetry.runtime.spark.purge import PurgeReport, Survey
    from parquetry.runtime.spec.job import SparkSettings
    from parquetry.runtime.table.handle import TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPurge:
    """A purge that is ready to execute, and the survey of what it would do."""

    survey: Survey
    handle: TableHandle
    settings: SparkSettings
    log: Path | None

    def execute(self) -> PurgeReport:
        """Purge, and return what was done and which files still contain a value."""
        from parquetry.runtime.main import purge_in_own_session

        return purge_in_own_session(self.handle, self.settings, self.survey, log=self.log)


def survey(request: ProjectRequest, table: str, *, where: str | None, keys: Path | None) -> SurveyedPurge:
    """Survey the rows with these keys, or those that fulfil the condition, and return the purge of them.

    Args:
        request: The project.
        table: The name, path or URI of the table.
        where: An SQL condition, or None.
        keys: A file with record keys, or None.

    """
    from parquetry.cli.requests.services import spark_of
    from parquetry.cli.requests.workspaces import table_in_force
    from parquetry.runtime.main import survey_in_own_session

    handle = table_in_force(request, table, applied=True).open()
    settings, log = spark_of(request, table, applied=True)
    found = survey_in_own_session(handle, settings, where=where, keys=keys, log=log)
    return SurveyedPurge(survey=found, handle=handle, settings=settings, log=log)
