"""The requirements of a plan or a job, checked against the present state of the table."""

from __future__ import annotations

from collections.abc import Mapping

from parquetry.runtime.commit.claims import read_claim
from parquetry.runtime.errors import NotFoundError, StalePlanError
from parquetry.runtime.spec.job import Requirements, TableOwner
from parquetry.runtime.spec.target_settings import Settings, check_settings
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import (
    AppliedRef,
    check_faults,
    check_owner,
    check_record_usable,
    read_applied,
    read_identity,
)
from parquetry.runtime.table.config import METADATA_TABLE_KEYS, TableConfig
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.timeline.active import Timeline
from parquetry.version import VERSION

_VERSION_KEY = "hoodie.table.version"


def check_requirements(
    store: ObjectStore,
    requirements: Requirements,
    *,
    owner: TableOwner | None = None,
    plan_id: str | None = None,
    settings: Settings | None = None,
) -> None:
    """Check that all requirements hold now.

    The message of an error contains what changed and, if that is recorded, by which plan and commit.

    Args:
        store: The store of the table.
        requirements: The state of the table that the plan or job expects.
        owner: The project and target that must own the table, or None for any owner. It is checked first.
        plan_id: The plan that is being executed. A second use of the plan is reported as such.
        settings: The settings of the target with which it is executed. Settings that execute code must equal
            the applied ones.

    Raises:
        StalePlanError: If a requirement does not hold.
        ForeignTableError: If the table does not belong to the owner.
    """
    _check_installed(requirements)
    raw = _properties(store)
    if not requirements.exists:
        if raw is not None:
            raise unexpected_table_error(store, plan_id=plan_id)
        return
    if raw is None:
        raise StalePlanError("{table}: a table was expected, but none exists; plan again", table=store.uri)
    _check_applied(store, requirements, owner, plan_id, settings)
    _check_format(store, requirements, raw)
    if requirements.no_pending_clustering:
        _check_no_clustering(store, TableConfig.from_properties(raw, location=store.uri))


def unexpected_table_error(store: ObjectStore, *, plan_id: str | None) -> StalePlanError:
    """Return the error for a table that exists although none was expected, with the plan that created it.

    ``plan_id`` is the plan that expected no table; it may have created the table in an earlier run.
    """
    identity, applied = read_identity(store), read_applied(store)
    if applied is not None and plan_id is not None and applied.ref.plan_id == plan_id:
        return _plan_used_error(store, applied.ref)
    owner = f" of project {identity.project}" if identity else ""
    return StalePlanError(
        "{table}: no table was expected, but a table{owner}{origin} already exists; plan again",
        table=store.uri,
        owner=owner,
        origin=_origin_text(applied.ref) if applied else "",
    )


def _check_applied(
    store: ObjectStore,
    requirements: Requirements,
    owner: TableOwner | None,
    plan_id: str | None,
    settings: Settings | None,
) -> None:
    """Check owner, table id, settings and applied record."""
    identity, applied = read_identity(store), read_applied(store)
    project = identity.project if identity else None
    check_owner(store.uri, owner, project=project, applied=applied.ref if applied else None)
    check_faults(identity, applied)
    check_record_usable(store, owner, applied=applied, identity=identity)
    table_id = identity.table_id if identity else None
    if requirements.table_id is not None and table_id != requirements.table_id:
        raise StalePlanError(
            "{table}: the table id is {table_id}, but {expected_table_id} was expected: the table was "
            "replaced; plan (or compile) again",
            table=store.uri,
            table_id=table_id,
            expected_table_id=requirements.table_id,
        )
    if settings is not None:
        check_settings(settings, applied.ref.settings if applied else None, place=store.uri)
    number = applied.ref.number if applied else 0
    digest = applied.ref.digest if applied else None
    if requirements.applied_number in (None, number) and requirements.applied_digest in (None, digest):
        return
    if applied is not None and plan_id is not None and applied.ref.plan_id == plan_id:
        raise _plan_used_error(store, applied.ref)
    state = f"record {number} is applied{_origin_text(applied.ref)}" if applied else "no spec is applied"
    difference = "its spec differs from the expected one"
    if requirements.applied_number not in (None, number):
        difference = f"record {requirements.applied_number} was expected"
    raise StalePlanError(
        "{table}: {found}, but {difference}; plan (or compile) again",
        table=store.uri,
        found=state,
        difference=difference,
    )


def _plan_used_error(store: ObjectStore, applied: AppliedRef) -> StalePlanError:
    """Return the error for a plan that was already used."""
    return StalePlanError(
        "{table}: this plan has already been applied, as record {record}; plan again",
        table=store.uri,
        record=applied.number,
    )


def _origin_text(applied: AppliedRef) -> str:
    """Return where an applied record comes from, for messages: its plan and its git commit."""
    plan = f" by plan {applied.plan_id}" if applied.plan_id else ""
    commit = f" from commit {applied.git_commit}" if applied.git_commit else ""
    return f"{' (forgotten)' if applied.forgotten else ''}{plan}{commit}"


def _check_format(store: ObjectStore, requirements: Requirements, raw: Mapping[str, str]) -> None:
    version = raw.get(_VERSION_KEY)
    if requirements.table_version is not None and version != str(requirements.table_version):
        raise StalePlanError(
            "{table}: {property} is {found}, but {expected} was expected: another program has changed the "
            "version of the table; plan again",
            table=store.uri,
            property=_VERSION_KEY,
            found=version,
            expected=requirements.table_version,
        )
    for key in METADATA_TABLE_KEYS:
        if requirements.no_metadata_table and (partitions := raw.get(key)):
            raise StalePlanError(
                "{table}: {property} is {found}, but was empty: a Hudi writer has created a "
                "metadata table; plan again, to drop it, and give that writer hoodie.metadata.enable=false",
                table=store.uri,
                property=key,
                found=partitions,
            )


def _check_no_clustering(store: ObjectStore, config: TableConfig) -> None:
    """Refuse pending clustering of this project; Hudi's only reserves its own files."""
    timeline = Timeline.load(store, config.timeline_layout)
    pending = [time for time in timeline.pending_clusterings if read_claim(store, time)]
    if pending:
        raise StalePlanError(
            "{table}: the clustering {instant} is pending, but none was expected; wait until it ends, then "
            "plan again",
            table=store.uri,
            instant=min(pending),
        )


def _properties(store: ObjectStore) -> Mapping[str, str] | None:
    try:
        return read_table_properties(store)
    except NotFoundError:
        return None


def _check_installed(requirements: Requirements) -> None:
    if requirements.minimum_parquetry and _numbers(VERSION) < _numbers(requirements.minimum_parquetry):
        raise StalePlanError(
            "parquetry {expected_version} or newer is required, but {found_version} is installed; upgrade "
            "parquetry",
            expected_version=requirements.minimum_parquetry,
            found_version=VERSION,
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
