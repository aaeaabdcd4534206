"""Whether what a plan or a job was made for still holds."""

from __future__ import annotations

from parquetry.runtime.applied import read_applied, read_identity
from parquetry.runtime.errors import NotFoundError, StalePlanError
from parquetry.runtime.job import Requirements
from parquetry.runtime.properties import read_table_properties
from parquetry.runtime.storage import ObjectStore
from parquetry.version import VERSION


def check_requirements(store: ObjectStore, requirements: Requirements) -> None:
    """Return when they hold at this moment; StalePlanError names the one that does not."""
    _check_version(requirements)
    if _exists(store) != requirements.exists:
        found = "there is none" if requirements.exists else "there is one already"
        wanted = "a table" if requirements.exists else "no table"
        raise StalePlanError(f"{store.uri}: {wanted} was expected and {found}; plan again")
    if not requirements.exists:
        return
    identity, applied = read_identity(store), read_applied(store)
    table_id = identity.table_id if identity else None
    number = applied.ref.number if applied else 0
    digest = applied.ref.digest if applied else None
    for what, wanted_value, found_value in (
        ("table id", requirements.table_id, table_id),
        ("number of the applied record", requirements.applied_number, number),
        ("digest of the applied spec", requirements.applied_digest, digest),
    ):
        if wanted_value is not None and wanted_value != found_value:
            raise StalePlanError(
                f"{store.uri}: the {what} is {found_value}, {wanted_value} was expected: "
                "somebody applied in the meantime; plan (or compile) again"
            )


def _exists(store: ObjectStore) -> bool:
    try:
        read_table_properties(store)
    except NotFoundError:
        return False
    return True


def _check_version(requirements: Requirements) -> None:
    if requirements.minimum_parquetry and _numbers(VERSION) < _numbers(requirements.minimum_parquetry):
        raise StalePlanError(
            f"this asks for parquetry {requirements.minimum_parquetry} or newer and {VERSION} is installed; "
            "upgrade parquetry"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
