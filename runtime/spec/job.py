"""The contract between compiler and runtime: one job, as plain values and as JSON.

A job has one table and one kind of work. It contains everything that its executor needs, so a script under
``spark-submit`` on a cluster without the project's files can run it. It also contains the requirements for
its execution, so a job that was compiled from an older spec stops before it changes anything.
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
from parquetry.runtime.redaction import VARIABLE, secrets_of, treat_as_secret
from parquetry.runtime.spark_environment import key_variables, storage_variables
from parquetry.runtime.spec.codec import OMIT_EMPTY, digest_of, from_json_value, to_json_value
from parquetry.runtime.spec.row_tests import RowTests
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.spec.table_spec import TableSpec

JOB_VERSION = 1


class JobKind(StrEnum):
    """The work of a job on its table.

    ``clean`` checks the whole table. ``services`` does only due work. ``cluster`` clusters due files,
    whatever the table's trigger is. ``test`` reads rows, also of a table without a project.
    """

    CREATE = "create"
    INGEST = "ingest"
    CLUSTER = "cluster"
    CLEAN = "clean"
    SERVICES = "services"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOwner:
    """The project and the target that a table must belong to. If ``target`` is None, any target is accepted.

    ``rules`` is the digest of the spec with which the table must be written (:func:`rules_digest`), or None
    to accept any applied spec. ``keys`` are references to signing keys: one of them must have signed the
    applied record, and the first signs new ones. Without keys, no signature is required. If ``signs`` is
    True, the owner signs a new record, and the present one may be unsigned.
    """

    project: str
    target: str | None
    rules: str | None = None
    keys: tuple[str, ...] = ()
    signs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The conditions for the execution of a job or an action. None means that a condition is not checked.

    If ``exists`` is False, there must be no table yet. ``table_version`` is Hudi's. ``no_metadata_table``
    requires that there is no metadata table, ``no_pending_clustering`` that there is no pending clustering of
    parquetry.
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
    """The settings of the job's Spark session. ``packages`` are Maven coordinates.

    ``environment`` has the names of the variables that Spark gets in addition to those that it always needs.
    """

    master: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    environment: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One kind of work on one table.

    ``storage`` has the options of the table's store. A value of the form ``{"environment_text": "${NAME}"}``
    is replaced from the environment where the job runs, so that no secret is written to a file. ``spec`` is
    the spec to create, or for other kinds the compiled one. ``source`` is the name of one of its sources,
    whose relative paths start at ``directory``. A relative ``directory`` starts at the folder of the job's
    file, a relative ``location`` at ``directory``. ``settings`` are those of the target at compile time, by
    path; those that can execute code must equal the applied ones. ``budget_bytes`` limits the bytes that
    clustering may rewrite, None means no limit; the run has already used ``spent_bytes`` of it, also for
    other tables. If ``is_strict`` is True, no single file may exceed the budget either. ``signing_keys`` are
    references. ``dirty`` means that the project had changes that are not in ``git_commit``. ``tests`` are
    those of a test job, whose ``project`` is empty for a table without a project. Clustering begins no groups
    at ``stops_at_ms`` or later, in milliseconds since 1970 (UTC).
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
    dirty: bool | None = field(default=None, metadata=OMIT_EMPTY)
    tests: RowTests | None = field(default=None, metadata=OMIT_EMPTY)
    spent_bytes: int | None = field(default=None, metadata=OMIT_EMPTY)
    is_strict: bool | None = field(default=None, metadata=OMIT_EMPTY)
    stops_at_ms: int | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def owner(self) -> TableOwner:
        """The required owner of the job's table, which must be written with the job's spec."""
        return TableOwner(
            project=self.project,
            target=self.target,
            rules=None if self.kind is JobKind.TEST else rules_digest(self.spec),
            keys=self.signing_keys,
            signs=self.kind is JobKind.CREATE,
        )

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values in its options, as far as the environment of this process contains them."""
        return secrets_of(self.storage) | secrets_of(self.spark.conf)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables for Spark: the declared ones, and those of its storage and its keys."""
        source = next((source for source in self.spec.sources if source.name == self.source), None)
        others = [test.other for test in self.tests.tests if test.other] if self.tests else []
        places = [self.location, *(table.location for table in others), *([source.path] if source else [])]
        keys = {*self.spec.allowed.keys, *(key for table in others for key in table.encryption_keys)}
        keys |= source.allowed.keys if source else frozenset()
        keys |= set(self.spec.publish.references) if self.spec.publish else set()
        names = (*self.spark.environment, *storage_variables(*places), *key_variables(keys))
        return tuple(dict.fromkeys(names))

    @property
    def references(self) -> tuple[str, ...]:
        """The environment variables that the job itself reads: those of its options and its signing keys."""
        options = json.dumps([self.storage, self.spark.conf], default=str)
        return (*VARIABLE.findall(options), *key_variables(self.signing_keys))

    @property
    def name(self) -> str:
        """A name that is unique within the table, such as ``ingest_landing``."""
        return f"{self.kind}_{self.source}" if self.source else str(self.kind)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with every field."""
        value: dict[str, Any] = to_json_value(self)
        return value

    @classmethod
    def from_json(cls, document: Mapping[str, Any], *, place: str = "job") -> JobPlan:
        """Return the job from the values of :meth:`to_json`.

        Raises:
            StalePlanError: If the job has another version.
            InvalidDataError: If a field is unknown or a value is invalid.

        """
        if document.get("version") != JOB_VERSION:
            raise StalePlanError(
                "{place}: version {version} is not {expected_version}, which the installed parquetry runs; "
                "{command} again with this parquetry",
                place=place,
                version=repr(document.get("version")),
                expected_version=JOB_VERSION,
                command=run("compile"),
            )
        return from_json_value(cls, document, place=place)

    def with_absolute_paths(self, folder: str) -> JobPlan:
        """Return the job with an absolute ``directory`` and ``location``.

        A relative directory starts at ``folder``, which contains the job's file, and a relative location at
        the directory.
        """
        directory = os.path.abspath(os.path.join(folder, self.directory))  # noqa: PTH100, PTH118  # links stay
        location = join_base(directory, self.location)
        is_local = location.startswith("/")
        return replace(
            self, directory=directory, location=os.path.normpath(location) if is_local else location
        )

    @property
    def digest(self) -> str:
        """The digest of the job: ``sha256:`` and 64 hexadecimal digits of its canonical JSON."""
        return digest_of(self.to_json())


def rules_digest(spec: TableSpec) -> str:
    """Return the digest of the spec without names and descriptions that do not affect writes."""
    document = spec.to_json()
    columns = [{**column, "description": None} for column in document["columns"]]
    extra = {key: value for key, value in document["extra"].items() if key not in _DESCRIPTIVE_KEYS}
    return digest_of({**document, "columns": columns, "extra": extra})


_DESCRIPTIVE_KEYS = ("description", "owner", "tags", "catalog", "database")


def resolve_environment(
    options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the options with variables replaced in values ``{"environment_text": "..${NAME}.."}``.

    Raises:
        StalePlanError: If a variable is not set.

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
            "the job needs the environment variable {variable}, which is not set; set it where the job runs",
            variable=name,
        )
    treat_as_secret([name])
    return environment[name]
