"""Checks of this machine and of a project, each with a remedy for what fails."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from locale import getencoding

from parquetry.compiler.errors import SpecError
from parquetry.compiler.reports.locks import held_lock
from parquetry.compiler.reports.timeline import is_pending_clustering, pending_seconds
from parquetry.compiler.spec_words import human_duration
from parquetry.compiler.workspace.observation import admit, observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, command, in_full, joined
from parquetry.project import ResolvedTable
from parquetry.project.diagnostics.model import errors
from parquetry.project.model.resolved import Launcher, SparkLaunchSettings
from parquetry.runtime import store_jars
from parquetry.runtime.apply.properties import property_warnings
from parquetry.runtime.commit.damaged_files import damage_warnings
from parquetry.runtime.errors import (
    CorruptTableError,
    LockHeldError,
    MissingJavaError,
    UnsupportedTableError,
)
from parquetry.runtime.java import find_java
from parquetry.runtime.publish.publishing import lag_warnings
from parquetry.runtime.spark_environment import UTF8_LOCALE
from parquetry.runtime.spec.masking import cleared
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.open import open_store, probe_put_if_absent
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, WRITE_ACTIONS, Instant, Timezone
from parquetry.runtime.timeline.sidecars import probe_path
from parquetry.runtime.timing import DEFAULT_TIMING
from parquetry.runtime.worker_python import check_worker_python
from parquetry.text import shell
from parquetry.version import VERSION

_OLDEST_PYTHON = (3, 11)
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "fastavro", "fsspec")
_EXTRAS = {
    "s3fs": ("s3fs", "s3fs", "tables and sources on S3"),
    "gcsfs": ("gcsfs", "gcsfs", "tables and sources on Google Cloud Storage"),
    "cryptography": ("cryptography", "cryptography", "encrypted tables"),
    "prometheus-client": ("prometheus_client", "prometheus-client", "metrics as text"),
    "openlineage-python": ("openlineage", "openlineage-python", "events of lineage"),
    "pyiceberg": ("pyiceberg", "pyiceberg[hive,sql-sqlite]", "publishing as Iceberg tables"),
    "grpcio": ("grpc", "pyspark[connect]", "sessions of Spark Connect"),
}
"""For each optional package: its module, the pip requirement that installs it, and its purpose.

These names are on the package index, regardless of where parquetry itself was installed from.
"""

_PROBE_FOLDER = ".parquetry-doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check; ``found`` is the result, or the error and its remedy."""

    name: str
    ok: bool
    found: Text


def check_machine() -> Iterator[Check]:
    """Yield the checks of Python, of required and optional packages, of Java and of encodings."""
    yield Check(name="parquetry", ok=True, found=VERSION)
    yield Check(
        name="python",
        ok=sys.version_info >= _OLDEST_PYTHON,
        found=f"{platform.python_version()} at {sys.executable}"
        + ("" if sys.version_info >= _OLDEST_PYTHON else "; 3.11 or newer is needed"),
    )
    for package in _PACKAGES:
        yield _package(package)
    for package in _EXTRAS:
        yield _extra(package)
    yield _checked("java", _java)
    yield _encodings()


def invalid_project(error: SpecError) -> Check:
    """Return a failed check for a project with errors: the first error and the number of errors."""
    found = errors(error.diagnostics)
    first = found[0]
    counted = "1 error" if len(found) == 1 else f"{len(found):,} errors, the first"
    text = f"{counted}: {first.file}:{first.line}:{first.column}: {first.code} {in_full(first.message)}"
    return Check(name="project", ok=False, found=" ".join(text.split()))


def check_project(workspace: Workspace) -> Iterator[Check]:
    """Yield the checks of the warehouse, of each selected table and its store, of catalogs, and of Spark."""
    target = workspace.project.target
    yield _checked("storage", lambda: _probe(workspace))
    for table in workspace.tables:
        yield _checked(f"table {table.name}", partial(_table, workspace, table), table)
    by_catalog = {table.spec.extra.catalog: table for table in reversed(workspace.tables)}
    for name, table in sorted((name, table) for name, table in by_catalog.items() if name is not None):
        yield _checked(f"catalog {name}", partial(_catalog, workspace, table), table)
    places = _locations(workspace)
    hadoop = store_jars.hadoop_version(store_jars.spark_jars())
    for client in store_jars.clients(hadoop):
        if any(place.partition("://")[0] in client.schemes for place in places):
            yield _client(client, target.spark, hadoop)
    yield _checked("spark", lambda: _spark(target.spark))


def _catalog(workspace: Workspace, table: ResolvedTable) -> str:
    """Return whether a catalog has the entry of a table; raise the error if it does not answer."""
    catalog = workspace.catalog(table.spec)
    assert catalog is not None, "the table names the catalog"
    return f"answers; {catalog.place} is {'' if catalog.table() is not None else 'not '}registered"


def _spark(settings: SparkLaunchSettings) -> str:
    """Return how Spark starts; raise SparkStartError if its workers cannot start on this machine."""
    if settings.launcher is Launcher.IN_PROCESS:
        check_worker_python(str(settings.master or "local[*]"))
    return f"{settings.launcher}, master {settings.master or 'local[*] or as configured'}"


def _package(name: str) -> Check:
    """Check that a required package is installed."""
    try:
        return Check(name=name, ok=True, found=version(name))
    except PackageNotFoundError:
        return Check(
            name=name, ok=False, found=f"is not installed; run {shell.named('pip', 'install', name)}"
        )


def _extra(name: str) -> Check:
    """Check an optional package: a missing one passes, as the checks of tables report where it is needed."""
    module, requirement, needed_for = _EXTRAS[name]
    remedy = f"for {needed_for} run {shell.named('pip', 'install', requirement)}"
    try:
        import_module(module)
        return Check(name=name, ok=True, found=version(name))
    except ImportError as error:
        if error.name == module:
            return Check(name=name, ok=True, found=f"not installed; {remedy}")
        return Check(name=name, ok=False, found=f"cannot be imported: {error}; {remedy}")


def _checked(name: str, check: Callable[[], Text], table: ResolvedTable | None = None) -> Check:
    """Return a check that passes with the text of ``check``, or fails with the text of its error.

    Personal values of the ``table``, if the check is of one, are masked.
    """
    try:
        return Check(name=name, ok=True, found=check())
    except ParquetryError as error:
        spec, location = (None, "") if table is None else (table.spec, table.location)
        return cleared(Check(name=name, ok=False, found=error.message), spec, location=location)


def _java() -> str:
    """Return the version and the path of the Java that Spark would start."""
    java = find_java()
    return f"{java.major} at {java.executable}"


def _encodings() -> Check:
    """Check that Python and Java encode file names in UTF-8, as opening a table requires."""
    names = {"Python": sys.getfilesystemencoding()}
    with suppress(MissingJavaError):  # the check "java" reports it
        names["Java"] = find_java().names or "an unknown encoding"
    wrong = [who for who, name in names.items() if name.upper() not in ("UTF-8", "UTF8")]
    found = ", ".join(f"{who} encodes file names in {name}" for who, name in names.items())
    locale_of = f"locale of this shell: {getencoding()}"
    remedy = f"; set LC_ALL={UTF8_LOCALE}, and install that locale" if wrong else ""
    return Check(name="encodings", ok=not wrong, found=f"{found} ({locale_of}){remedy}")


def _locations(workspace: Workspace) -> list[str]:
    """Return the lower-cased locations of the selected tables and of their sources."""
    tables = workspace.tables
    sources = [source.path for table in tables for source in table.spec.sources]
    return [place.lower() for place in (*(table.location for table in tables), *sources)]


def _client(client: store_jars.Client, spark: SparkLaunchSettings, hadoop: str | None) -> Check:
    """Check that the Spark that starts here finds Hadoop's client of a store in a version that fits."""
    declared = {name: str(value) for name, value in spark.conf.items()}
    if spark.packages:
        declared["spark.jars.packages"] = ",".join(spark.packages)
    found = store_jars.versions(client, declared, [*map(str, spark.submit_args)])
    name = f"spark {client.schemes[0]}"
    remedy = client.remedy(hadoop)
    if not found:
        if spark.launcher is not Launcher.IN_PROCESS:
            return Check(
                name=name, ok=True, found=f"not declared; the cluster's Spark needs {client.named(hadoop)}"
            )
        return Check(name=name, ok=False, found=f"Spark has no client for {client.store}; {remedy}")
    needed = None if client.jar else hadoop
    other = next((version for version in found if needed and version != needed), None)
    if other is not None and spark.launcher is Launcher.IN_PROCESS:
        wrong = (
            f"{client.artifact} {other} does not fit Spark's Hadoop {needed}; {remedy}, and remove the other"
        )
        return Check(name=name, ok=False, found=wrong)
    return Check(name=name, ok=True, found=f"{client.artifact} {found[0]}")


def _probe(workspace: Workspace) -> str:
    """Write a probe file beside the tables and delete it; check that conditional puts work."""
    warehouse = workspace.project.target.warehouse.rstrip("/")
    store = open_store(f"{warehouse}/{_PROBE_FOLDER}", workspace.storage)
    try:
        probe_put_if_absent(store, probe_path())
    finally:
        open_store(warehouse, workspace.storage).delete_folder(_PROBE_FOLDER)
    return f"{warehouse} can be written and honours conditional puts"


def _table(workspace: Workspace, table: ResolvedTable) -> Text:
    """Return the state of a table and who holds its lock; raise an error if it cannot be used."""
    observation = observe(workspace.store(table), declared=table.spec)
    if observation is None:
        return f"not created yet at {table.location}"
    observation.check_owner(workspace.owner)
    if warnings := property_warnings(observation.handle.store):
        raise UnsupportedTableError(joined("; ", warnings))
    admit(observation)
    if damaged := damage_warnings(observation.handle):
        raise CorruptTableError(observation.handle.cleared(joined("; ", damaged)))
    _check_clustering_plans(observation.handle)
    if behind := lag_warnings(observation.handle):
        raise UnsupportedTableError(observation.handle.cleared(joined("; ", behind)))
    store = observation.handle.store
    if isinstance(store, LocalStore):
        store.check_writable(TIMELINE_FOLDER)
    return Message(
        "can be written at {location}{pending}{lock}",
        location=table.location,
        pending=_pending(observation.handle),
        lock=_lock(workspace, table),
    )


def _check_clustering_plans(handle: TableHandle) -> None:
    """Raise UnsupportedTableError if files that a pending clustering would rewrite no longer exist.

    Nobody can execute such a plan, and Hudi's writers refuse every update of its file groups. A restore of
    Hudi leaves one if it removes the files of a clustering but not its plan.
    """

    def without_input() -> list[str]:
        timeline = handle.timeline()
        view = handle.view(timeline)
        return [time for time in sorted(timeline.pending_clusterings) if lacks_input(timeline, view, time)]

    def lacks_input(timeline: Timeline, view: FileSystemView, time: str) -> bool:
        plan = timeline.pending_clusterings[time].plan
        parts = [part for group in plan.groups for part in group.slices] if plan else []
        # The paths of a plan are absolute, and the table may have been moved.
        present = {
            (partition, file_name(file.path))
            for partition in {part.partition for part in parts}
            for file in view.base_files(partition)
        }
        return any((part.partition, file_name(part.path)) not in present for part in parts)

    def file_name(path: str) -> str:
        return path.rpartition("/")[2]

    # A clustering that ends between reading the timeline and listing the files may lose its input.
    if without_input() and (found := without_input()):
        raise UnsupportedTableError(
            "{table}: files that the pending clustering {clustering} reads no longer exist, so nobody can "
            "execute it, and Hudi's writers refuse to update its file groups; roll it back with {command}",
            table=handle.store.uri,
            clustering=found[0],
            command=command("service", "rollback", handle.name, found[0]),
        )


def _pending(handle: TableHandle) -> str:
    """Return in words how many instants are pending by kind, with the age of the oldest."""
    timeline = handle.timeline()
    kinds: dict[str, list[Instant]] = {}
    for instant in timeline.instants:
        if not instant.is_completed:
            kinds.setdefault(_kind(timeline, instant), []).append(instant)
    return "".join(
        f"; {_pending_of(kind, timeline, found, handle.config.timezone)}" for kind, found in kinds.items()
    )


def _kind(timeline: Timeline, instant: Instant) -> str:
    """Return the kind of a pending instant in a word: a clustering plan, a write, or another action."""
    if is_pending_clustering(timeline, instant):
        return "clustering plan"
    return "write" if instant.action in WRITE_ACTIONS else str(instant.action)


def _pending_of(kind: str, timeline: Timeline, found: Sequence[Instant], zone: Timezone) -> str:
    """Return in words how many instants of a kind are pending, with the age of the oldest."""
    age = pending_seconds(timeline, found[0], zone)
    oldest = f"{found[0].time}{'' if age is None else f' for {human_duration(age)}'}"
    return (
        f"a {kind} is pending: {oldest}"
        if len(found) == 1
        else f"{len(found)} {kind}s are pending: the oldest {oldest}"
    )


def _lock(workspace: Workspace, table: ResolvedTable) -> Text:
    """Return in words who holds the table's lock, or nothing.

    Raises:
        LockHeldError: if another program has held it for longer than a write waits.

    """
    lock = held_lock(workspace.store(table), name=table.name)
    if lock is None:
        return ""
    age = human_duration(lock.age_seconds)
    if lock.expires_in_seconds is not None:
        return Message(
            "; the storage-based lock is held by {holder}, renewed {age} ago; it expires in {rest} if it is "
            "not renewed again",
            holder=lock.holder,
            age=age,
            rest=human_duration(lock.expires_in_seconds),
        )
    if lock.abandoned:
        return Message(
            "; the next write of parquetry removes the lock of a dead one ({holder}, held for {age}), "
            "Hudi's writers wait for that: {command} removes it now",
            holder=lock.holder,
            age=age,
            command=command("unlock", table.name),
        )
    if lock.instant is None and lock.age_seconds > DEFAULT_TIMING.foreign_lock_seconds:
        raise LockHeldError(
            "{file} is held by {holder} for {age}, longer than a write waits; release it with {command} "
            "when that program has ended",
            file=lock.path,
            holder=lock.holder,
            age=age,
            command=command("unlock", table.name),
        )
    return f"; locked by {lock.holder} for {age}"
