"""Results of table services, held locks, checks of the doctor, and the files of sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.compiler.spec_words import human_duration
from parquetry.message import in_full
from parquetry.runtime.sources.ledger import STREAM
from parquetry.runtime.spec.codec import to_json_value
from parquetry.text import shell

if TYPE_CHECKING:  # each command loads its own
    from parquetry.compiler.reports.doctor import Check
    from parquetry.compiler.reports.locks import HeldLock
    from parquetry.runtime.services.source_files import Decision, ListedFile, ListedSource


class ServiceView:
    """The fields of any service's result."""

    def text(self, outcome: object, paint: Paint) -> str:
        """Return one line per field."""
        document: dict[str, Any] = to_json_value(outcome)
        width = max(len(key) for key in document)
        return "\n".join(
            f"{paint.bold(key.replace('_', ' ').ljust(width))}  {_shown(value)}"
            for key, value in document.items()
        )

    def json(self, outcome: object) -> Any:
        """Return every field."""
        return to_json_value(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackView(ServiceView):
    """The fields of a rollback or restore of ``table``, and the files that the next run ingests again."""

    table: str
    typed_options: TypedOptions = field(default_factory=TypedOptions)

    def text(self, outcome: object, paint: Paint) -> str:
        """Return a line per field, and for each source how to prevent that its files are ingested again."""
        fields: dict[str, Any] = to_json_value(outcome)
        sources = fields.pop("reads_again")
        lines = [super(RollbackView, self).text(fields, paint)]
        options = self.typed_options.without_selection()
        for each in sources:
            name, files = each["source"], each["files"]
            if name.startswith(STREAM):
                lines.append(
                    f"{name} writes these batches again only if it restarts from an older checkpoint"
                )
                continue
            name_word = shell.path_word(f"{self.table}.{name}")
            what = f"{count(files, 'file')}, {human_size(each['size_bytes'])}," if files else "the files"
            lines.append(f"the next run ingests {what} of source {paint.bold(name)} again")
            if files:
                known = options.named("parquetry", "source", "list", name_word, "-v")
                skip = options.named("parquetry", "source", "skip", name_word, "FILE")
                lines.append(f"  to keep their rows out: {skip}; {known} shows the files")
        return "\n".join(lines)


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


class DoctorView:
    """One line per check."""

    def text(self, outcome: Sequence[Check], paint: Paint) -> str:
        """Return a line per check with its finding, marked as ok or to be fixed."""
        width = max(len(check.name) for check in outcome)
        labels = {True: paint.good("ok  "), False: paint.bad("fix ")}
        return "\n".join(f"{labels[c.ok]}  {c.name.ljust(width)}  {in_full(c.found)}" for c in outcome)

    def json(self, outcome: Sequence[Check]) -> Any:
        """Return the checks, and whether all of them are ok."""
        return {
            "ok": all(check.ok for check in outcome),
            "checks": [{"name": check.name, "ok": check.ok, "found": check.found} for check in outcome],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LocksView:
    """The held locks; commands get the ``typed_options``."""

    typed_options: TypedOptions = field(default_factory=TypedOptions)

    def text(self, outcome: Sequence[HeldLock], paint: Paint) -> str:
        """Return the holder and age of each lock, and advice."""
        if not outcome:
            return "no lock is held"
        return "\n".join(_lines(lock, paint, self.typed_options) for lock in outcome)

    def json(self, outcome: Sequence[HeldLock]) -> Any:
        """Return every field of every lock."""
        return {"locks": [to_json_value(lock) for lock in outcome]}


class ReleaseView:
    """The lock that was released."""

    def text(self, outcome: HeldLock, paint: Paint) -> str:
        """Return the table of the lock, and its former holder."""
        return f"{paint.good('released')} the lock of {paint.bold(outcome.table)}: held by {outcome.holder}"

    def json(self, outcome: HeldLock) -> Any:
        """Return every field."""
        return {"released": to_json_value(outcome)}


def _lines(lock: HeldLock, paint: Paint, typed_options: TypedOptions) -> str:
    unlock = typed_options.without_selection().named("parquetry", "unlock", shell.path_word(lock.table))
    advice = (
        f"its writer ended: the next write of parquetry removes the lock; for Hudi's writers run {unlock}"
        if lock.abandoned
        else f"wait until its holder ends; if it no longer runs: {unlock}"
    )
    age = human_duration(lock.age_seconds)
    rest = lock.expires_in_seconds
    since = (
        f"for {age}"
        if rest is None
        else f"renewed {age} ago, expires in {human_duration(rest)} unless renewed"
    )
    return f"{paint.bold(lock.table)}  held by {lock.holder}\n  {since}, {lock.path}\n  {advice}"


_STATES = {
    "new": "waiting",
    "known": "known",
    "changed": "changed since it was ingested",
    "copy": "a copy of another new file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesView:
    """A paragraph for each source; with ``verbose`` a line for each file."""

    verbose: bool

    def text(self, outcome: Sequence[ListedSource], paint: Paint) -> str:
        """Return the number of files by state, then the files."""
        if not outcome:
            return "The applied spec has no sources."
        return "\n\n".join(self._source(source, paint) for source in outcome)

    def json(self, outcome: Sequence[ListedSource]) -> Any:
        """Return every field, with every file."""
        return {"sources": [to_json_value(source) for source in outcome]}

    def _source(self, source: ListedSource, paint: Paint) -> str:
        last = "" if source.last_commit is None else f", last by {source.last_commit}"
        lines = [
            f"{paint.bold(source.source)}  {source.format} {source.path}",
            f"  {count(source.ingested_files, 'file')} ingested{last}",
        ]
        if source.problem is not None:
            return "\n".join([*lines, f"  {paint.warn('not listed')}: {in_full(source.problem)}"])
        for state, words in _STATES.items():
            files = [file for file in source.files if file.state == state]
            if files:
                size = sum(file.size_bytes for file in files)
                lines.append(f"  {count(len(files), 'file')} there, {human_size(size)}: {words}")
                lines += [f"    {_file(file)}" for file in files if self.verbose or state != "known"]
        return "\n".join(lines)


def _file(file: ListedFile) -> str:
    by = "" if file.instant is None else f", {file.source} in {file.instant}"
    return f"{file.path}  {human_size(file.size_bytes)}{by}"


class DecisionView:
    """The recorded decision about files of a source."""

    def text(self, outcome: Decision, paint: Paint) -> str:
        """Return the number of files, and whether the next run ingests them."""
        does = "ingests" if outcome.kind == "accepted" else "does not ingest"
        what = count(len(outcome.files), "file") if outcome.files else "all files"
        return (
            f"{paint.good('recorded')} the next run of {outcome.table} {does} "
            f"{what} of {outcome.source}; commit {outcome.instant}"
        )

    def json(self, outcome: Decision) -> Any:
        """Return every field."""
        return to_json_value(outcome)
