"""Emission of events to the places that a target declares, which never makes a command fail."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from urllib3.exceptions import HTTPError

from parquetry.compiler.errors import MissingPackageError
from parquetry.compiler.git.repository import repository_root
from parquetry.compiler.lineage.work import TableWork, WorkResult
from parquetry.compiler.security.allowed_settings import raise_unallowed, unallowed
from parquetry.compiler.security.secrets import revealed
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder, open_regular
from parquetry.errors import ParquetryError, UsageError
from parquetry.message import in_full
from parquetry.project.model.resolved import LineageSettings

_LOG = logging.getLogger(__name__)
_SETTINGS: Final = "lineage."
_BEGIN: Final = b'{"eventTime"'
"""The beginning of each line in a file of events."""

_Key = tuple[str, str]


@contextmanager
def lineage_of(workspace: Workspace, *, command: str, run_id: str | None) -> Iterator[Lineage]:
    """Yield the lineage of one command, and send how the command ended when the block ends.

    The caller must have checked that the tables whose work it reports record the settings of the target.

    Args:
        workspace: The project.
        command: The name of the command.
        run_id: The id of the run, if the command has one.
    """
    lineage = Lineage(workspace, command=command, run_id=run_id)
    try:
        yield lineage
    except BaseException as error:
        lineage.stopped(error)
        raise
    lineage.finished()


class Lineage:
    """The work on tables that a command starts and ends, reported as events.

    Nothing is sent before the first work starts, and nothing at all if the target declares no place. A place
    that fails once gets no more events of this command, so that a slow server cannot delay each job.
    """

    def __init__(self, workspace: Workspace, *, command: str, run_id: str | None) -> None:
        """Report to the places of the workspace's target."""
        self._workspace = workspace
        self._command = command
        self._run_id = run_id
        self._started: dict[_Key, tuple[str, TableWork]] = {}
        self._sender: _Sender | None = None
        self._error: ParquetryError | None = None

    def started(self, work: TableWork) -> None:
        """Report that the work starts."""
        if self._workspace.project.target.lineage is None:
            return
        if self._sender is None:
            self._sender = _Sender.of(self._workspace, command=self._command, run_id=self._run_id)
            self._sender.send(lambda events: events.of_command("START"))
        named = str(uuid.uuid4())
        self._started[work.table, work.job] = (named, work)
        self._sender.send(lambda events: events.of_work("START", named, work))

    def ended(
        self, table: str, job: str, *, result: WorkResult | None = None, error: ParquetryError | None = None
    ) -> None:
        """Report that a job of a table ended. If it did not start here, nothing is reported."""
        if self._sender is None or (table, job) not in self._started:
            return
        named, work = self._started.pop((table, job))
        state = "COMPLETE" if error is None else "FAIL"
        self._sender.send(lambda events: events.of_work(state, named, work, result=result, error=error))

    def failed(self, error: ParquetryError | None) -> None:
        """Keep the error with which the command ends, or None."""
        self._error = error

    def finished(self) -> None:
        """Report how the command ended."""
        if self._sender is not None:
            state = "COMPLETE" if self._error is None else "FAIL"
            self._sender.send(lambda events: events.of_command(state, error=self._error))

    def stopped(self, error: BaseException) -> None:
        """Report that an error or an interruption ended the command and the work that it had started."""
        if self._sender is None:
            return
        cause = error if isinstance(error, ParquetryError) else None
        state = "ABORT" if cause is None else "FAIL"
        for named, work in self._started.values():
            self._sender.send(partial(_event_of_work, state, named, work, error=cause))
        self._sender.send(lambda events: events.of_command(state, error=cause))


def _event_of_work(
    state: str, named: str, work: TableWork, events: Any, *, error: ParquetryError | None
) -> Any:
    return events.of_work(state, named, work, error=error)


@dataclass(slots=True, kw_only=True)
class _Sender:
    """The places that still get events, by the path of their setting. Without a library there are none."""

    events: Any = None
    places: dict[str, Callable[[Any], None]] = field(default_factory=dict)

    @classmethod
    def of(cls, workspace: Workspace, *, command: str, run_id: str | None) -> _Sender:
        """Return the sender to the places of a target; places that are not allowed get nothing."""
        target = workspace.project.target
        sender = cls()
        with sender.reporting("events"):
            found = tuple(s for s in unallowed(target.declared) if s.path.startswith(_SETTINGS))
            raise_unallowed(target.name, target.declared, found)
            library = _open_lineage()
            sender.events = library.CommandEvents(
                project=workspace.project.name, target=target.name, command=command, run_id=run_id
            )
            assert target.lineage is not None, "nothing is sent without a place"
            sender.places = dict(_places(target.lineage, library, workspace.project.root))
        return sender

    def send(self, make: Callable[[Any], Any]) -> None:
        """Make an event and send it to each place."""
        if not self.places:
            return
        event = None
        with self.reporting("events"):
            event = make(self.events)
        for path, place in tuple(self.places.items()):
            with self.reporting(path):
                if event is not None:
                    place(event)

    @contextmanager
    def reporting(self, path: str) -> Iterator[None]:
        """Warn of an error, after which the place gets nothing more."""
        try:
            yield
        except (ParquetryError, ImportError, OSError, ValueError, RuntimeError, HTTPError) as error:
            self.places.pop(path, None)
            reason = in_full(error.message) if isinstance(error, ParquetryError) else str(error)
            _LOG.warning("lineage: %s cannot be sent: %s; the command goes on without", path, reason)


def _places(
    settings: LineageSettings, library: ModuleType, root: Path
) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield a function that sends an event, for each place."""
    if settings.url is not None:
        url, key = settings.url, revealed({"key": settings.api_key})["key"]
        yield "lineage.url", lambda event: library.post(event, url, api_key=key)
    if settings.file is not None:
        file = Path(settings.file)
        yield "lineage.file", lambda event: _append(file, library.event_text(event), root=root)
    if settings.console:
        yield "lineage.console", lambda event: _write(library.event_text(event))


def _write(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _append(file: Path, text: str, *, root: Path) -> None:
    """Append a line to a file that has events or nothing; links in the project are not followed.

    Raises:
        UsageError: If the file has another content, or a link is in the way.
    """
    folder = _folder_of(file, root)
    appended = folder.append(file if folder.root != file.parent else file.name)
    try:
        status = os.fstat(appended)
        if status.st_size and not _has_events(file, status):
            raise UsageError("{file} exists and has no events; name another file", file=str(file))
        os.write(appended, f"{text}\n".encode())
    finally:
        os.close(appended)


def _has_events(file: Path, status: os.stat_result) -> bool:
    opened = open_regular(file)
    try:
        found = os.fstat(opened)
        same = (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
        return same and os.read(opened, len(_BEGIN)) == _BEGIN
    finally:
        os.close(opened)


def _folder_of(file: Path, root: Path) -> ConfinedFolder:
    """Return the repository or the project that contains the file, else the folder of the file."""
    repository = repository_root(root)
    for own in (*([repository] if repository else []), root):
        if file.is_relative_to(own):
            return ConfinedFolder(own)
    file.parent.mkdir(parents=True, exist_ok=True)
    return ConfinedFolder(file.parent)


def _open_lineage() -> ModuleType:
    """Return the module that makes events; raise MissingPackageError without openlineage-python."""
    try:
        return import_module("parquetry.compiler.lineage.events")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "openlineage":
            raise
        raise MissingPackageError(
            "events of lineage need the package openlineage-python; run `pip install openlineage-python`"
        ) from error
