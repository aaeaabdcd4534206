"""Events in the format of OpenLineage 2. Needs the package openlineage-python."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Literal

import attr
import urllib3
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    dataset_version_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    storage_dataset,
)
from openlineage.client.serde import Serde

from parquetry.compiler.lineage.work import DatasetName, TableWork, WorkResult
from parquetry.compiler.security.connections import connections, proxy_of
from parquetry.errors import ParquetryError
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import ColumnType, Struct, parse_type
from parquetry.version import VERSION

SCHEMA_ID: Final = "urn:parquetry:lineage:1"
"""The id of ``facets.json``, the JSON schema of the facets that OpenLineage does not define."""

_PRODUCER: Final = f"urn:parquetry:{VERSION}"
_PATH: Final = "/api/v1/lineage"
_TIMEOUT_SECONDS: Final = 5.0
_RETRIES: Final = urllib3.Retry(
    2, backoff_factor=0.3, status_forcelist=(500, 502, 503, 504), allowed_methods=("POST",)
)

_HUDI, _PARQUET = "hudi", "parquet"

EventState = Literal["START", "COMPLETE", "FAIL", "ABORT"]


@attr.define
class RunIdFacet(RunFacet):
    """The run of parquetry: its id, as in ``target/runs/``, the project and the target."""

    id: str | None = None
    project: str = ""
    target: str = ""

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA_ID}#/$defs/RunIdFacet"


@attr.define
class PlanFacet(RunFacet):
    """The plan whose record is in force, or that is applied in these steps."""

    planId: str = ""  # noqa: N815  # as in OpenLineage
    steps: list[str] | None = None

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA_ID}#/$defs/PlanFacet"


@attr.define
class GitFacet(RunFacet):
    """The checked-out commit of the project."""

    commit: str = ""
    uncommittedChanges: bool | None = None  # noqa: N815  # as in OpenLineage

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA_ID}#/$defs/GitFacet"


@attr.define
class CommitFacet(OutputDatasetFacet):
    """The instants that a job committed, with figures."""

    instants: list[str] = attr.field(factory=list)
    counts: dict[str, int] = attr.field(factory=dict)

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA_ID}#/$defs/CommitFacet"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEvents:
    """The events of one command, whose work on tables has the command as its parent.

    ``project`` is the namespace of its jobs, and their names begin with ``target``.
    """

    project: str
    target: str
    command: str
    run_id: str | None
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))

    def of_command(self, state: EventState, *, error: ParquetryError | None = None) -> RunEvent:
        """Return an event about the command itself."""
        return self._event(state, self.uuid, self._name, self.command, facets=dict(_failure(error)))

    def of_work(
        self,
        state: EventState,
        uuid: str,
        work: TableWork,
        *,
        result: WorkResult | None = None,
        error: ParquetryError | None = None,
    ) -> RunEvent:
        """Return an event about the work on a table, which has the id ``uuid``."""
        result = result or WorkResult()
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=self.uuid),
            job=parent_run.Job(namespace=self.project, name=self._name),
            producer=_PRODUCER,
        )
        facets: dict[str, RunFacet] = {"parent": parent, **dict(_origin(work)), **dict(_failure(error))}
        return self._event(
            state,
            uuid,
            f"{self.target}.{work.table}.{work.job}",
            work.job,
            facets=facets,
            inputs=[*_inputs(work, result)],
            outputs=[_output(work, result)] if work.writes else [],
        )

    @property
    def _name(self) -> str:
        return f"{self.target}.{self.command}"

    def _event(
        self,
        state: EventState,
        uuid: str,
        name: str,
        kind: str,
        *,
        facets: dict[str, RunFacet],
        inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:
        job_type = job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="PARQUETRY", jobType=kind.upper(), producer=_PRODUCER
        )
        job_facets: dict[str, JobFacet] = {"jobType": job_type}
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=VERSION, name="parquetry", producer=_PRODUCER
        )
        run = RunIdFacet(id=self.run_id, project=self.project, target=self.target, producer=_PRODUCER)
        facets = {"processing_engine": engine, "parquetry_run": run, **facets}
        return RunEvent(
            eventType=RunState[state],
            eventTime=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            run=Run(runId=uuid, facets=facets),
            job=Job(namespace=self.project, name=name, facets=job_facets),
            producer=_PRODUCER,
            inputs=inputs or [],
            outputs=outputs or [],
        )


def event_text(event: RunEvent) -> str:
    """Return an event as JSON in one line of ASCII."""
    return Serde.to_json(event)


def post(event: RunEvent, url: str, *, api_key: str | None) -> None:
    """Send an event to a server. Redirects are failures, so that no other server gets it.

    If the URL has a path, the event goes there, and else to the path of OpenLineage's API.

    Raises:
        HTTPError: If the server cannot be reached, or fails three times.
        ValueError: If it answers with something else than success.
    """
    has_path = "/" in url.partition("://")[2].rstrip("/")
    address = url if has_path else f"{url.rstrip('/')}{_PATH}"
    headers = {"Content-Type": "application/json", "User-Agent": f"parquetry/{VERSION}"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    with connections(proxy_of(address)) as pool:
        response = pool.request(
            "POST",
            address,
            body=event_text(event).encode(),
            headers=headers,
            timeout=_TIMEOUT_SECONDS,
            retries=_RETRIES,
            redirect=False,
        )
    if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        raise ValueError(f"the server answers with {response.status}")


def _origin(work: TableWork) -> Iterator[tuple[str, RunFacet]]:
    """Yield the facets with the plan and the commit of git that the work follows."""
    if work.plan_id is not None:
        steps = list(work.steps) or None
        yield "parquetry_plan", PlanFacet(planId=work.plan_id, steps=steps, producer=_PRODUCER)
    if work.git_commit is not None:
        yield (
            "parquetry_git",
            GitFacet(commit=work.git_commit, uncommittedChanges=work.dirty, producer=_PRODUCER),
        )


def _failure(error: ParquetryError | None) -> Iterator[tuple[str, RunFacet]]:
    if error is not None:
        yield (
            "errorMessage",
            error_message_run.ErrorMessageRunFacet(
                message=error.in_full(), programmingLanguage="python", producer=_PRODUCER
            ),
        )


def _inputs(work: TableWork, result: WorkResult) -> Iterator[InputDataset]:
    if work.source is not None and (name := work.source_dataset) is not None:
        statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            fileCount=result.files_read, producer=_PRODUCER
        )
        facets = {} if result.files_read is None else {"inputStatistics": statistics}
        yield InputDataset(namespace=name.namespace, name=name.name, inputFacets=dict(facets))
    if work.reads:
        name = work.dataset
        yield InputDataset(namespace=name.namespace, name=name.name, facets=dict(_of_table(work)))


def _output(work: TableWork, result: WorkResult) -> OutputDataset:
    name: DatasetName = work.dataset
    facets = dict(_of_table(work))
    output_facets: dict[str, OutputDatasetFacet] = {}
    if result.change is not None:
        facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
            lifecycleStateChange=lifecycle_state_change_dataset.LifecycleStateChange(result.change),
            producer=_PRODUCER,
        )
    if result.instants:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=result.instants[-1], producer=_PRODUCER
        )
        output_facets["parquetry_commit"] = CommitFacet(
            instants=list(result.instants), counts=dict(result.counts), producer=_PRODUCER
        )
    if result.files is not None:
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=result.rows, size=result.size_bytes, fileCount=result.files, producer=_PRODUCER
        )
        output_facets["outputStatistics"] = statistics
    return OutputDataset(namespace=name.namespace, name=name.name, facets=facets, outputFacets=output_facets)


def _of_table(work: TableWork) -> Iterator[tuple[str, DatasetFacet]]:
    fields = [_field(column, position) for position, column in enumerate(work.spec.columns, 1)]
    yield "schema", schema_dataset.SchemaDatasetFacet(fields=fields, producer=_PRODUCER)
    yield (
        "storage",
        storage_dataset.StorageDatasetFacet(storageLayer=_HUDI, fileFormat=_PARQUET, producer=_PRODUCER),
    )


def _field(column: Column, position: int) -> schema_dataset.SchemaDatasetFacetFields:
    return schema_dataset.SchemaDatasetFacetFields(
        name=column.name,
        type=column.type,
        description=column.description,
        ordinal_position=position,
        fields=_nested(parse_type(column.type)),
    )


def _nested(type_: ColumnType) -> list[Any]:
    """Return the fields of a struct; other types have none."""
    if not isinstance(type_, Struct):
        return []
    return [
        schema_dataset.SchemaDatasetFacetFields(
            name=field.name, type=str(field.type), ordinal_position=position, fields=_nested(field.type)
        )
        for position, field in enumerate(type_.fields, 1)
    ]
