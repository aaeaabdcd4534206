"""The contract between compiler and runtime: one job, as plain values and as JSON.

A job names one table and one verb. It carries everything its executor needs, so that a script
under ``spark-submit`` on a cluster without the project's files can run it; and it carries what
must hold when it runs, so that a job compiled from an older spec stops instead of acting.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from parquetry.message import run
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.redaction import VARIABLE, hide, secrets_of
from parquetry.runtime.spark_environment import key_variables, storage_variables
from parquetry.runtime.spec.codec import UNLESS_NONE, digest_of, from_json_value, to_json_value
from parquetry.runtime.spec.row_tests import RowTests
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.spec.table_spec import TableSpec

JOB_VERSION = 1


class JobKind(StrEnum):
    """What a job does to its table.

    ``clean`` looks at the whole table; ``services`` does only what is due; ``cluster`` pays clustering
    debt, whatever the table's trigger; ``test`` reads rows, of a table that may be no project's.
    """

    CREATE = "create"
    INGEST = "ingest"
    CLUSTER = "cluster"
    CLEAN = "clean"
    SERVICES = "services"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOwner:
    """For whom a table is opened by its name: a project, at one of its targets. None asks for no target.

    ``rules`` is the digest of what it is to be written by (:func:`rules_digest`); None takes the applied spec
    whatever it is. ``keys`` refer to those of which one has signed the applied record, the first to the one
    that signs now; none asks for no signature. Who ``signs`` anew may find none.
    """

    project: str
    target: str | None
    rules: str | None = None
    keys: tuple[str, ...] = ()
    signs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What must hold for a job or an action to be executed; None means "not asked".

    ``exists`` False asks that there be no table yet. ``table_version`` is Hudi's;
    ``no_metadata_table`` and ``no_pending_clustering`` (of ours) ask that there be none.
    """

    exists: bool
    table_id: str | None = None
    applied_number: int | None = None
    applied_digest: str | None = None
    minimum_parquetry: str | None = None
    table_version: int | None = None
    no_metadata_table: bool = False
    no_pending_clustering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How a session for the job is made. ``packages`` are Maven coordinates.

    ``environment`` are the names of the variables that Spark gets beside those that it always needs.
    """

    master: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    environment: tuple[str, ...] = field(default=(), metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One verb on one table.

    ``storage`` holds options for the table's store; variables in a value of the form
    ``{"environment_text": "${NAME}"}`` are read where the job runs, so that no secret is written
    down. ``spec`` is the spec to create, or for the other kinds the one that was compiled.
    ``source`` names one of its sources, whose relative paths start at ``directory``. A relative ``directory``
    starts at the folder of the file that holds the job, a relative ``location`` at ``directory``.
    ``settings`` are those of the target that the job was made with, by path: what of them executes is to be
    what is applied. ``budget_bytes`` is how much clustering may rewrite, None is no limit; ``spent_bytes`` of
    it the run has rewritten before, of other tables too. If it ``is_strict``, no single file may exceed it
    either. ``signing_keys`` are references. ``dirty`` says that the project had changes that ``git_commit``
    lacks. ``tests`` are those of a job that tests, whose ``project`` is empty for a table of none.
    """

    kind: JobKind
    project: str
    target: str
    table: str
    location: str
    directory: str
    requirements: Requirements
    spec: TableSpec
    source: str | None = None
    storage: Mapping[str, Any] = field(default_factory=dict)
    spark: SparkSettings = field(default_factory=SparkSettings)
    plan_id: str | None = None
    git_commit: str | None = None
    budget_bytes: int | None = None
    signing_keys: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    version: int = JOB_VERSION
    dirty: bool | None = field(default=None, metadata=UNLESS_NONE)
    tests: RowTests | None = field(default=None, metadata=UNLESS_NONE)
    spent_bytes: int | None = field(default=None, metadata=UNLESS_NONE)
    is_strict: bool | None = field(default=None, metadata=UNLESS_NONE)

    @property
    def owner(self) -> TableOwner:
        """Whose the job's table has to be, and that it is to be written, if at all, by the job's spec."""
        return TableOwner(
            project=self.project,
            target=self.target,
            rules=None if self.kind is JobKind.TEST else rules_digest(self.spec),
            keys=self.signing_keys,
            signs=self.kind is JobKind.CREATE,
        )

    @property
    def secrets(self) -> frozenset[str]:
        """The secret texts of its options, as far as they are known where this is asked."""
        return secrets_of(self.storage) | secrets_of(self.spark.conf)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables for Spark: those declared, and those of its storage and its keys."""
        source = next((source for source in self.spec.sources if source.name == self.source), None)
        others = [test.other for test in self.tests.tests if test.other] if self.tests else []
        places = [self.location, *(table.location for table in others), *([source.path] if source else [])]
        keys = {*self.spec.allowed.keys, *(key for table in others for key in table.encryption_keys)}
        keys |= source.allowed.keys if source else frozenset()
        names = (*self.spark.environment, *storage_variables(*places), *key_variables(keys))
        return tuple(dict.fromkeys(names))

    @property
    def references(self) -> tuple[str, ...]:
        """The environment variables that the job itself reads: those of options and of keys that sign."""
        options = json.dumps([self.storage, self.spark.conf], default=str)
        return (*VARIABLE.findall(options), *key_variables(self.signing_keys))

    @property
    def name(self) -> str:
        """``ingest_landing``: unique within the table."""
        return f"{self.kind}_{self.source}" if self.source else str(self.kind)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, every field present."""
        value: dict[str, Any] = to_json_value(self)
        return value

    @classmethod
    def from_json(cls, document: Mapping[str, Any], *, place: str = "job") -> JobPlan:
        """The job that :meth:`to_json` wrote; :class:`StalePlanError` for another version.

        Raises :class:`InvalidDataError` for unknown fields and wrong values.
        """
        if document.get("version") != JOB_VERSION:
            raise StalePlanError(
                f"{place}: version {document.get('version')!r} is not {JOB_VERSION}, which this parquetry "
                "runs; " + run("compile") + " again with the parquetry that is installed here"
            )
        return from_json_value(cls, document, place=place)

    def at(self, folder: str) -> JobPlan:
        """The job with a ``directory`` and a ``location`` that are relative made absolute.

        The directory starts at ``folder``, where the job's file lies, and the location at the directory.
        """
        directory = os.path.abspath(os.path.join(folder, self.directory))  # noqa: PTH100, PTH118  # links stay
        location = join_base(directory, self.location)
        is_local = location.startswith("/")
        return replace(
            self, directory=directory, location=os.path.normpath(location) if is_local else location
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, ``sha256:`` and 64 hex digits."""
        return digest_of(self.to_json())


def rules_digest(spec: TableSpec) -> str:
    """The digest of all by which a table is written: of a spec without what is only said about the table."""
    document = spec.to_json()
    columns = [{**column, "description": None} for column in document["columns"]]
    extra = {key: value for key, value in document["extra"].items() if key not in _SAID}
    return digest_of({**document, "columns": columns, "extra": extra})


_SAID = ("description", "owner", "tags")


def resolve_environment(
    options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """The options with the variables filled in where a value is ``{"environment_text": "..${NAME}.."}``.

    Raises :class:`StalePlanError` when a variable is not set.
    """
    return {key: _resolve(value, environment) for key, value in options.items()}


def _resolve(value: Any, environment: Mapping[str, str]) -> Any:
    match value:
        case {"environment_text": str(text)} if len(value) == 1:
            return VARIABLE.sub(lambda found: _variable(found[1], environment), text)
        case Mapping():
            return resolve_environment(value, environment)
        case list() | tuple():
            return [_resolve(item, environment) for item in value]
        case _:
            return value


def _variable(name: str, environment: Mapping[str, str]) -> str:
    if name not in environment:
        raise StalePlanError(
            f"the job needs the environment variable {name}, which is not set; set it where the job runs"
        )
    hide([name])
    return environment[name]
