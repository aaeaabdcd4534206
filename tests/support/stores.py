"""Stores around a store: one counts, one stops, one loses answers, one refuses to write, one has another time.

All of them pickle and keep what they count in a file, so that operations of worker processes
count too.
"""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore, ObjectVersion, PutOutcome
from parquetry.runtime.storage.paths import temporary_path


class Kind(StrEnum):
    """The operations of a store; each is about one request, ``create_file`` when it ends."""

    READ = "read"
    READ_RANGE = "read_range"
    OPEN_INPUT = "open_input"
    STAT = "stat"
    LIST = "list"
    LIST_FOLDERS = "list_folders"
    PUT = "put"
    PUT_IF_ABSENT = "put_if_absent"
    READ_VERSION = "read_version"
    PUT_IF_MATCH = "put_if_match"
    CREATE_FILE = "create_file"
    MOVE = "move"
    DELETE = "delete"
    DELETE_ALL = "delete_all"
    DELETE_FOLDER = "delete_folder"


WRITES = frozenset(
    {
        *(Kind.PUT, Kind.PUT_IF_ABSENT, Kind.PUT_IF_MATCH, Kind.CREATE_FILE),
        *(Kind.MOVE, Kind.DELETE, Kind.DELETE_ALL, Kind.DELETE_FOLDER),
    }
)


class WrappedStore(ObjectStore):
    """Does what the store inside does; what happens before and after is for sub-classes."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner

    def before(self, kind: Kind, path: str) -> None:
        """Called before the operation takes effect."""

    def after(self, kind: Kind, path: str) -> None:
        """Called when it has taken effect, before its caller hears of it."""

    def _perform(self, kind: Kind, path: str, *arguments: Any, **options: Any) -> Any:
        self.before(kind, path)
        result = getattr(self.inner, kind)(path, *arguments, **options)
        self.after(kind, path)
        return result

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def allowed(self) -> Allowed:
        return self.inner.allowed

    def read(self, path: str, **options: Any) -> bytes:
        return self._perform(Kind.READ, path, **options)

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        return self._perform(Kind.READ_RANGE, path, start, stop)

    def open_input(self, path: str) -> Any:
        return self._perform(Kind.OPEN_INPUT, path)

    def stat(self, path: str) -> ObjectInfo | None:
        return self._perform(Kind.STAT, path)

    def list(self, prefix: str = "", *, recursive: bool = False) -> Any:
        return self._perform(Kind.LIST, prefix, recursive=recursive)

    def list_each(self, prefixes: Iterable[str]) -> dict[str, Any]:
        return {prefix: self.list(prefix) for prefix in prefixes}

    def list_folders(self, prefix: str = "") -> Any:
        return self._perform(Kind.LIST_FOLDERS, prefix)

    def put(self, path: str, data: bytes) -> None:
        self._perform(Kind.PUT, path, data)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        return self._perform(Kind.PUT_IF_ABSENT, path, data, nonce=nonce)

    def read_version(self, path: str) -> ObjectVersion | None:
        return self._perform(Kind.READ_VERSION, path)

    def put_if_match(
        self, path: str, data: bytes, *, tag: str | None, patience_seconds: float | None = None
    ) -> str | None:
        return self._perform(Kind.PUT_IF_MATCH, path, data, tag=tag, patience_seconds=patience_seconds)

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        with self.inner.create_file(path) as sink:
            yield sink
            self.before(Kind.CREATE_FILE, path)
        self.after(Kind.CREATE_FILE, path)

    def move(self, path: str, to: str) -> None:
        self.before(Kind.MOVE, f"{path}\n{to}")
        self.inner.move(path, to)
        self.after(Kind.MOVE, f"{path}\n{to}")

    def delete(self, path: str) -> None:
        self._perform(Kind.DELETE, path)

    def delete_all(self, paths: Iterable[str]) -> None:
        listed = [*paths]
        self.before(Kind.DELETE_ALL, "\n".join(listed))
        self.inner.delete_all(listed)
        self.after(Kind.DELETE_ALL, "\n".join(listed))

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:
        self._perform(Kind.DELETE_FOLDER, prefix, objects=objects)

    def now_ms(self) -> int:
        return self.inner.now_ms()

    def spark_uri(self, path: str) -> str:
        return self.inner.spark_uri(path)


class ShiftedStore(WrappedStore):
    """A store whose clock is ``days`` ahead of that of its files, or behind if they are negative."""

    def __init__(self, inner: ObjectStore, *, days: float = 0) -> None:
        super().__init__(inner)
        self.days = days

    def now_ms(self) -> int:
        return self.inner.now_ms() + round(self.days * 86_400_000)


class CountingStore(WrappedStore):
    """Writes each operation that took place as a line ``kind path`` into the file ``log``."""

    def __init__(self, inner: ObjectStore, log: Path) -> None:
        super().__init__(inner)
        self.log = log

    def before(self, kind: Kind, path: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{kind} {path.encode('unicode_escape').decode()}\n")

    def calls(self) -> tuple[tuple[Kind, str], ...]:
        """The operations since the last reset, in their order, of all processes."""
        if not self.log.exists():
            return ()
        pairs = (line.split(" ", 1) for line in self.log.read_text().split("\n") if line)
        return tuple((Kind(kind), path.encode().decode("unicode_escape")) for kind, path in pairs)

    def counts(self) -> Counter[Kind]:
        """How many operations of each kind there were since the last reset."""
        return Counter(kind for kind, _ in self.calls())

    def reset(self) -> None:
        self.log.unlink(missing_ok=True)


class Stopped(BaseException):
    """The writer ends here: no handler of ordinary errors may go on."""


class Stop(StrEnum):
    """How far the last operation gets: not at all, half way, or whole and unanswered."""

    BEFORE = "before"
    HALFWAY = "halfway"
    AFTER = "after"


class FaultyStore(WrappedStore):
    """Ends the writer at its ``stop_at``-th counted operation; nothing works from then on.

    Half way, a write has left its temporary file, a move its copy, and a deletion of several has deleted some.
    What other threads do by the clock below ``uncounted`` prefixes does not count, and fails with
    a StorageError afterwards. ``stop_at`` 0 never stops: ``operations()`` then says how many
    there are.
    """

    def __init__(
        self,
        inner: ObjectStore,
        counter: Path,
        *,
        stop_at: int = 0,
        stop: Stop = Stop.BEFORE,
        counted: frozenset[Kind] = WRITES,
        uncounted: tuple[str, ...] = (".hoodie/.heartbeat",),
    ) -> None:
        super().__init__(inner)
        self.counter = counter
        self.stop_at = stop_at
        self.stop = stop
        self.counted = counted
        self.uncounted = uncounted

    def operations(self) -> int:
        return self.counter.stat().st_size if self.counter.exists() else 0

    def stopped(self) -> bool:
        return 0 < self.stop_at <= self.operations()

    def before(self, kind: Kind, path: str) -> None:
        if path.startswith(self.uncounted):
            if self.stopped():
                msg = f"the writer is stopped, {kind} {path} does not happen"
                raise StorageError(msg)
            return
        number = self._next() if kind in self.counted else 0
        if number == self.stop_at != 0:
            if self.stop is Stop.AFTER:
                return
            if self.stop is Stop.HALFWAY:
                self._half(kind, path)
            raise Stopped(f"{self.stop} {kind} {path}")
        if 0 < self.stop_at < number or (number == 0 and self.stopped()):
            raise Stopped(f"{kind} {path}: the writer is stopped")

    def after(self, kind: Kind, path: str) -> None:
        if kind in self.counted and not path.startswith(self.uncounted) and self.stopped():
            raise Stopped(f"{Stop.AFTER} {kind} {path}")

    def _next(self) -> int:
        with self.counter.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(b".")
            file.flush()
            return file.tell()

    def _half(self, kind: Kind, path: str) -> None:
        match kind:
            case Kind.PUT | Kind.PUT_IF_ABSENT | Kind.PUT_IF_MATCH | Kind.CREATE_FILE:
                self.inner.put(temporary_path(path), b"unfinished")
            case Kind.MOVE:
                source, to = path.split("\n")
                if self.inner.stat(source) is not None:
                    self.inner.put(to, self.inner.read(source))
            case Kind.DELETE_ALL:
                paths = [line for line in path.split("\n") if line]
                self.inner.delete_all(paths[: (len(paths) + 1) // 2])
            case Kind.DELETE_FOLDER:
                paths = [info.path for info in self.inner.list(path, recursive=True)]
                self.inner.delete_all(paths[: (len(paths) + 1) // 2])


class LostAnswerStore(WrappedStore):
    """Every write takes effect and its answer gets lost; the client repeats it, as S3's does.

    An object that the repeated ``put_if_absent`` finds is recognised by the nonce, or, without
    one, by its bytes. ``delete`` finds nothing the second time.
    """

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(path, data)
        self.inner.put(path, data)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        first = self.inner.put_if_absent(path, data, nonce=nonce)
        second = self.inner.put_if_absent(path, data, nonce=nonce)
        if first is PutOutcome.WON and nonce is None and self.inner.read(path) == data:
            return PutOutcome.MINE
        return second

    def move(self, path: str, to: str) -> None:
        self.inner.move(path, to)
        self.inner.move(path, to)

    def delete(self, path: str) -> None:
        self.inner.delete(path)
        self.inner.delete(path)

    def delete_all(self, paths: Iterable[str]) -> None:
        listed = [*paths]
        self.inner.delete_all(listed)
        self.inner.delete_all(listed)

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:
        listed = None if objects is None else [*objects]
        self.inner.delete_folder(prefix, objects=listed)
        self.inner.delete_folder(prefix, objects=listed)


class ReadOnlyStore(WrappedStore):
    """Refuses everything that writes, as a read-only mount does."""

    def before(self, kind: Kind, path: str) -> None:
        if kind in WRITES:
            msg = f"cannot {kind} {self.uri}/{path}: Read-only file system; mount the file system read-write, or choose another location"
            raise StorageError(msg)
