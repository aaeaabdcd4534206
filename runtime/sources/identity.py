"""The files of a source that its table has already ingested; a file is identified by its content at any path.

Path and time are hints that save reading a file again. If they do not suffice, an etag decides, or a digest
of the bytes. Computed digests are kept beside the ledger. They describe files and belong to no write.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from parquetry.message import Value
from parquetry.runtime.errors import InvalidDataError, NotFoundError
from parquetry.runtime.sources.ledger import Consumption, EntryKind, SourceFile, hints_path
from parquetry.runtime.sources.listing import FoundFile, has_gone, open_file
from parquetry.runtime.spec.codec import from_json_value, parsed_json, to_json_value
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each

_BLOCK_BYTES: Final = 1 << 20


class FileState(StrEnum):
    """The state of a file for its table."""

    NEW = "new"
    """Its content has never been ingested, or is to be ingested again."""
    KNOWN = "known"
    CHANGED = "changed"
    """Other content was ingested from this path."""
    COPY = "copy"
    """Another new file of the listing has the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """The last ledger entry that names a file."""

    instant: str
    source: str
    kind: EntryKind
    file: SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFile:
    """A file of a source with its state.

    ``by`` is the entry that ingested the same content, or the earlier content of the path. ``copy_of`` is the
    path of the new file with the same content. ``is_accepted``: according to the ledger, the content is to be
    ingested regardless of earlier ingestions.
    """

    found: FoundFile
    state: FileState
    by: Mention | None = None
    copy_of: str | None = None
    is_accepted: bool = False

    @property
    def file(self) -> SourceFile:
        """The file as the ledger records it."""
        return self.found.file


def judge(
    found: Iterable[FoundFile],
    entries: Iterable[tuple[str, Consumption]],
    *,
    place: Callable[[str], str],
    hints: Mapping[str, SourceFile],
    digests: Callable[[Sequence[FoundFile]], Mapping[str, str]],
    every: bool = False,
    redelivers: bool = False,
) -> tuple[JudgedFile, ...]:
    """Return the state of each file, in the given order.

    Args:
        found: The present files of the source.
        entries: The effective entries of the table's ledger, oldest first.
        place: Returns the absolute location of a path. It is called for files whose path no entry names.
        hints: The earlier digests, by path.
        digests: Returns the digests of files, by path. It is called for files that the hints do not decide.
        every: Whether to compute the digests of all new files without an etag, as for a write that records
            them.
        redelivers: Whether a file is due although another file of the source that still exists has the same
            content. This is so for an upsert, where the later delivery wins.
    """
    ledger = _Ledger(entries, place=place)
    listed = [ledger.with_hint(each, hints) for each in found]
    unknown = [each for each in listed if each.file.token is None]
    sizes = Counter(each.file.size_bytes for each in unknown)
    wanted = [
        each
        for each in unknown
        if every or sizes[each.file.size_bytes] > 1 or ledger.may_know(each.file.size_bytes)
    ]
    read = digests(wanted) if wanted else {}
    there = {each.file.path for each in listed}
    judged, taken = [], dict[tuple[int, str], str]()
    for each in listed:
        digest = read.get(each.file.path, each.file.digest)
        one = ledger.judge(
            replace(each, file=replace(each.file, digest=digest)), there, redelivers=redelivers
        )
        contents = one.file.contents
        is_due = one.state in (FileState.NEW, FileState.CHANGED) and not one.is_accepted
        if is_due and contents and not redelivers:
            first = taken.setdefault(contents[0], one.file.path)
            if first != one.file.path:
                one = replace(one, state=FileState.COPY, copy_of=first)
        judged.append(one)
    return tuple(judged)


class _Ledger:
    """The ledger entries by path and by content."""

    def __init__(self, entries: Iterable[tuple[str, Consumption]], *, place: Callable[[str], str]) -> None:
        self._place = place
        self._at: dict[str, Mention] = {}
        self._contents: dict[tuple[int, str], Mention] = {}
        self._accepted: dict[tuple[int, str], dict[str, Mention]] = {}
        self._sizes: set[int] = set()
        self._names: dict[str, list[str]] | None = None
        for instant, entry in entries:
            for file in entry.files:
                mention = Mention(instant=instant, source=entry.source, kind=entry.kind, file=file)
                if entry.kind.takes:
                    self._at[file.path] = mention
                for content in file.contents:
                    if entry.kind.takes:
                        self._contents[content] = mention
                    else:
                        self._accepted.setdefault(content, {})[file.path] = mention
                if file.digest is not None:
                    self._sizes.add(file.size_bytes)

    def may_know(self, size_bytes: int) -> bool:
        """Return whether a file of that size was ingested and has a recorded digest."""
        return size_bytes in self._sizes

    def before(self, path: str) -> Mention | None:
        """Return the last ingestion from a path, however the path is spelled, or None."""
        if self._names is None:
            self._names = {}
            for known in self._at:
                self._names.setdefault(known.rpartition("/")[2], []).append(known)
        names = self._names.get(path.rpartition("/")[2], [])
        if names == [path]:
            return self._at[path]
        here = self._place(path)
        alike = (p for p in names if self._place(p) == here)
        return max((self._at[p] for p in alike), key=lambda mention: mention.instant, default=None)

    def with_hint(self, found: FoundFile, hints: Mapping[str, SourceFile]) -> FoundFile:
        """Return the file with its known digest, if the file is unchanged since the digest was computed."""
        before = self.before(found.file.path)
        return _hinted(found, None if before is None else before.file, hints.get(found.file.path))

    def judge(self, found: FoundFile, there: Collection[str], *, redelivers: bool) -> JudgedFile:
        """Return the state of one file; ``there`` are the paths of all present files."""
        before = self.before(found.file.path)
        mentions = [self._contents[c] for c in found.file.contents if c in self._contents]
        newest = max(mentions, key=lambda mention: mention.instant, default=None)
        accepted = self._acceptance(found.file, since=None if newest is None else newest.instant)
        path = found.file.path
        if accepted is not None and self._place(accepted.file.path) == self._place(path):
            return JudgedFile(found=found, state=FileState.NEW, by=accepted, is_accepted=True)
        if accepted is not None and accepted.file.path not in there and before is None:
            # The file was moved after the decision.
            return JudgedFile(found=found, state=FileState.NEW, by=accepted)
        if before is None:
            is_new = newest is None or (redelivers and newest.file.path in there)
            state = FileState.NEW if is_new else FileState.KNOWN
            return JudgedFile(found=found, state=state, by=newest)
        is_as_before = bool(set(found.file.contents) & set(before.file.contents))
        if is_as_before or before.file.is_same_as(found.file):
            return JudgedFile(found=found, state=FileState.KNOWN, by=newest or before)
        if newest is not None and self._place(newest.file.path) != self._place(path):
            # The file was moved here after its ingestion, such as a rotated log.
            return JudgedFile(found=found, state=FileState.KNOWN, by=newest)
        return JudgedFile(found=found, state=FileState.CHANGED, by=before)

    def _acceptance(self, file: SourceFile, *, since: str | None) -> Mention | None:
        """Return a decision to ingest the content that no ingestion has followed yet, or None.

        Decisions for the path of the file are preferred.
        """
        found = [m for c in file.contents for m in self._accepted.get(c, {}).values()]
        open_ones = [m for m in found if since is None or m.instant > since]
        exact = [m for m in open_ones if m.file.path == file.path]
        return next(iter(exact or open_ones), None)


def _hinted(found: FoundFile, *known: SourceFile | None) -> FoundFile:
    """Return the file with the digest of the first known file that is the same as it, if there is one."""
    same = next((each for each in known if each is not None and each.is_same_as(found.file)), None)
    if same is None or found.file.digest is not None:
        return found
    return replace(found, file=replace(found.file, digest=same.digest))


def with_contents(
    found: Iterable[FoundFile],
    hints: Mapping[str, SourceFile],
    *,
    digests: Callable[[Sequence[FoundFile]], Mapping[str, str]],
) -> tuple[FoundFile, ...]:
    """Return the files with etags or digests.

    ``digests`` computes the digests that the hints do not contain.
    """
    listed = [_hinted(each, hints.get(each.file.path)) for each in found]
    unknown = [each for each in listed if each.file.token is None]
    read = digests(unknown) if unknown else {}
    return tuple(
        replace(each, file=replace(each.file, digest=read.get(each.file.path, each.file.digest)))
        for each in listed
    )


def digests_of(files: Sequence[FoundFile], storage: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the SHA-256 digests of files, by path; the files are read in parallel, block by block."""

    def read(found: FoundFile) -> str:
        digest = hashlib.sha256()
        try:
            with open_file(found, storage) as handle:
                while block := handle.read(_BLOCK_BYTES):
                    digest.update(block)
        except NotFoundError as gone:
            raise has_gone(Value.uri(found.file.path)) from gone
        return digest.hexdigest()

    paths = [found.file.path for found in files]
    return dict(zip(paths, map_each(files, read), strict=True))


def read_hints(store: ObjectStore, source: str) -> Mapping[str, SourceFile]:
    """Return the files whose digests were computed before, by path; empty if the note is damaged."""
    try:
        noted = parsed_json(store.read(hints_path(source)))
        files = [from_json_value(SourceFile, one, place="hint") for one in noted]
    except (NotFoundError, InvalidDataError, ValueError, TypeError):  # they are computed again
        return {}
    return {file.path: file for file in files}


def keep_hints(store: ObjectStore, source: str, files: Iterable[SourceFile]) -> None:
    """Store the digests of files, so that these are not read again."""
    kept = [to_json_value(file) for file in files if file.token is not None]
    store.put(hints_path(source), json.dumps(kept).encode())
