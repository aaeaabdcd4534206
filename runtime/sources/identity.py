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
from parquetry.runtime.sources.listing import FoundFile, deleted_file_error, open_file
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
class LedgerMention:
    """The last ledger entry that names a file."""

    instant: str
    source: str
    kind: EntryKind
    file: SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedFile:
    """A file of a source with its state.

    ``mention`` is the entry that ingested the same content, or the earlier content of the path. ``copy_of``
    is the path of the new file with the same content. ``is_accepted``: according to the ledger, the content
    is to be ingested regardless of earlier ingestions.
    """

    found: FoundFile
    state: FileState
    mention: LedgerMention | None = None
    copy_of: str | None = None
    is_accepted: bool = False

    @property
    def file(self) -> SourceFile:
        """The file as the ledger records it."""
        return self.found.file


def classify(
    found: Iterable[FoundFile],
    entries: Iterable[tuple[str, Consumption]],
    *,
    locate: Callable[[str], str],
    hints: Mapping[str, SourceFile],
    digests: Callable[[Sequence[FoundFile]], Mapping[str, str]],
    every: bool = False,
    ingests_copies: bool = False,
) -> tuple[ClassifiedFile, ...]:
    """Return the state of each file, in the given order.

    Args:
        found: The present files of the source.
        entries: The effective entries of the table's ledger, oldest first.
        locate: Returns the absolute location of a path. It is called for files whose path no entry names.
        hints: The earlier digests, by path.
        digests: Returns the digests of files, by path. It is called for files that the hints do not decide.
        every: Whether to compute the digests of all new files without an etag, as for a write that records
            them.
        ingests_copies: Whether a file is due although another file of the source that still exists has the
            same content. This is so for an upsert, where the later delivery wins.
    """
    ledger = _Ledger(entries, locate=locate)
    listed = [ledger.with_hint(each, hints) for each in found]
    unknown = [each for each in listed if each.file.content_id is None]
    sizes = Counter(each.file.size_bytes for each in unknown)
    wanted = [
        each
        for each in unknown
        if every or sizes[each.file.size_bytes] > 1 or ledger.has_digest_of_size(each.file.size_bytes)
    ]
    computed = digests(wanted) if wanted else {}
    present_paths = {each.file.path for each in listed}
    classified, taken = [], dict[tuple[int, str], str]()
    for each in listed:
        digest = computed.get(each.file.path, each.file.digest)
        file = ledger.classify(
            replace(each, file=replace(each.file, digest=digest)),
            present_paths,
            ingests_copies=ingests_copies,
        )
        contents = file.file.contents
        is_due = file.state in (FileState.NEW, FileState.CHANGED) and not file.is_accepted
        if is_due and contents and not ingests_copies:
            first = taken.setdefault(contents[0], file.file.path)
            if first != file.file.path:
                file = replace(file, state=FileState.COPY, copy_of=first)
        classified.append(file)
    return tuple(classified)


class _Ledger:
    """The ledger entries by path and by content."""

    def __init__(self, entries: Iterable[tuple[str, Consumption]], *, locate: Callable[[str], str]) -> None:
        self._locate = locate
        self._at: dict[str, LedgerMention] = {}
        self._contents: dict[tuple[int, str], LedgerMention] = {}
        self._accepted: dict[tuple[int, str], dict[str, LedgerMention]] = {}
        self._sizes: set[int] = set()
        self._names: dict[str, list[str]] | None = None
        for instant, entry in entries:
            for file in entry.files:
                mention = LedgerMention(instant=instant, source=entry.source, kind=entry.kind, file=file)
                if entry.kind.counts_as_ingested:
                    self._at[file.path] = mention
                for content in file.contents:
                    if entry.kind.counts_as_ingested:
                        self._contents[content] = mention
                    else:
                        self._accepted.setdefault(content, {})[file.path] = mention
                if file.digest is not None:
                    self._sizes.add(file.size_bytes)

    def has_digest_of_size(self, size_bytes: int) -> bool:
        """Return whether a file of that size was ingested and has a recorded digest."""
        return size_bytes in self._sizes

    def last_ingestion(self, path: str) -> LedgerMention | None:
        """Return the last ingestion from a path, however the path is spelled, or None."""
        if self._names is None:
            self._names = {}
            for known in self._at:
                self._names.setdefault(known.rpartition("/")[2], []).append(known)
        names = self._names.get(path.rpartition("/")[2], [])
        if names == [path]:
            return self._at[path]
        here = self._locate(path)
        alike = (p for p in names if self._locate(p) == here)
        return max((self._at[p] for p in alike), key=lambda mention: mention.instant, default=None)

    def with_hint(self, found: FoundFile, hints: Mapping[str, SourceFile]) -> FoundFile:
        """Return the file with its known digest, if the file is unchanged since the digest was computed."""
        last_ingestion = self.last_ingestion(found.file.path)
        return _hinted(
            found, None if last_ingestion is None else last_ingestion.file, hints.get(found.file.path)
        )

    def classify(
        self, found: FoundFile, present_paths: Collection[str], *, ingests_copies: bool
    ) -> ClassifiedFile:
        """Return the state of one file; ``present_paths`` are the paths of all present files."""
        last_ingestion = self.last_ingestion(found.file.path)
        mentions = [self._contents[c] for c in found.file.contents if c in self._contents]
        newest = max(mentions, key=lambda mention: mention.instant, default=None)
        accepted = self._acceptance(found.file, since=None if newest is None else newest.instant)
        path = found.file.path
        if accepted is not None and self._locate(accepted.file.path) == self._locate(path):
            return ClassifiedFile(found=found, state=FileState.NEW, mention=accepted, is_accepted=True)
        if accepted is not None and accepted.file.path not in present_paths and last_ingestion is None:
            # The file was moved after the decision.
            return ClassifiedFile(found=found, state=FileState.NEW, mention=accepted)
        if last_ingestion is None:
            is_new = newest is None or (ingests_copies and newest.file.path in present_paths)
            state = FileState.NEW if is_new else FileState.KNOWN
            return ClassifiedFile(found=found, state=state, mention=newest)
        is_as_before = bool(set(found.file.contents) & set(last_ingestion.file.contents))
        if is_as_before or last_ingestion.file.is_same_as(found.file):
            return ClassifiedFile(found=found, state=FileState.KNOWN, mention=newest or last_ingestion)
        if newest is not None and self._locate(newest.file.path) != self._locate(path):
            # The file was moved here after its ingestion, such as a rotated log.
            return ClassifiedFile(found=found, state=FileState.KNOWN, mention=newest)
        return ClassifiedFile(found=found, state=FileState.CHANGED, mention=last_ingestion)

    def _acceptance(self, file: SourceFile, *, since: str | None) -> LedgerMention | None:
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
    unknown = [each for each in listed if each.file.content_id is None]
    computed = digests(unknown) if unknown else {}
    return tuple(
        replace(each, file=replace(each.file, digest=computed.get(each.file.path, each.file.digest)))
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
            raise deleted_file_error(Value.uri(found.file.path)) from gone
        return digest.hexdigest()

    paths = [found.file.path for found in files]
    return dict(zip(paths, map_each(files, read), strict=True))


def read_hints(store: ObjectStore, source: str) -> Mapping[str, SourceFile]:
    """Return the files whose digests were computed before, by path; empty if the note is damaged."""
    try:
        noted = parsed_json(store.read(hints_path(source)))
        files = [from_json_value(SourceFile, file, place="hint") for file in noted]
    except (NotFoundError, InvalidDataError, ValueError, TypeError):  # they are computed again
        return {}
    return {file.path: file for file in files}


def keep_hints(store: ObjectStore, source: str, files: Iterable[SourceFile]) -> None:
    """Store the digests of files, so that these are not read again."""
    kept = [to_json_value(file) for file in files if file.content_id is not None]
    store.put(hints_path(source), json.dumps(kept).encode())
