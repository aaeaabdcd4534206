"""A file is its content: whatever happens to names, times and sources, inserts take each content in once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.sources.identity import FileState, classify
from parquetry.runtime.sources.ledger import Consumption, EntryKind, SourceFile
from parquetry.runtime.sources.listing import FoundFile

PATHS = ("in/a", "in/b", "in/c", "other/a", "other/b")


@dataclass(frozen=True)
class OnDisk:
    """A file with a number for its content; contents of one parity have one size."""

    content: int
    modified_ms: int

    @property
    def size(self):
        return 10 + self.content % 2


def found(path, file, *, etags):
    etag = f"e{file.content}" if etags else None
    listed = SourceFile(path=path, size_bytes=file.size, modified_ms=file.modified_ms, etag=etag)
    return FoundFile(file=listed, uri=f"file:///{path}", spark_uri=f"file:///{path}")


class Disk:
    """A folder, a ledger, and what was ingested."""

    def __init__(self, *, etags):
        self.files = {}
        self.entries = []
        self.ingested = []
        self.clock = 0
        self.etags = etags
        self.read = 0

    def digests(self, files):
        self.read += len(files)
        return {each.file.path: f"d{self.files[each.file.path].content}" for each in files}

    def judged(self, *, every=True, ingests_copies=False):
        listing = [found(path, file, etags=self.etags) for path, file in sorted(self.files.items())]
        return classify(
            listing,
            self.entries,
            locate=lambda path: f"/{path}",
            hints={},
            digests=self.digests,
            every=every,
            ingests_copies=ingests_copies,
        )

    def run(self, source, **options):
        due = [each for each in self.judged(**options) if each.state is FileState.NEW]
        copies = [each for each in self.judged(**options) if each.state is FileState.COPY]
        self.ingested += [self.files[each.file.path].content for each in due]
        if due:
            self.entry(source, EntryKind.INGESTED, *(each.file for each in (*due, *copies)))
        return due

    def entry(self, source, kind, *files):
        self.entries.append((f"{len(self.entries):03}", Consumption(source=source, kind=kind, files=files)))

    def write(self, path, content):
        self.clock += 1
        self.files[path] = OnDisk(content, self.clock)

    def move(self, path, to):
        if path in self.files:
            self.files[to] = self.files.pop(path)

    def copy(self, path, to):
        if path in self.files:
            self.clock += 1
            self.files[to] = replace(self.files[path], modified_ms=self.clock)

    def touch(self, path):
        if path in self.files:
            self.clock += 1
            self.files[path] = replace(self.files[path], modified_ms=self.clock)


paths = st.sampled_from(PATHS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), paths, st.integers(0, 5)),
        st.tuples(st.just("move"), paths, paths),
        st.tuples(st.just("copy"), paths, paths),
        st.tuples(st.just("touch"), paths),
        st.tuples(st.just("run"), st.sampled_from(["feed", "renamed"])),
    ),
    max_size=25,
)


@given(steps=steps, etags=st.booleans())
def test_no_content_is_inserted_twice_and_none_is_lost(steps, etags):
    disk = Disk(etags=etags)
    for name, *arguments in [*steps, ("run", "feed")]:
        getattr(disk, name)(*arguments)
        assert len(disk.ingested) == len(set(disk.ingested))
    for each in disk.judged():
        content = disk.files[each.file.path].content
        # What is not taken in by now has replaced other content at its path: it waits for a decision.
        assert content in disk.ingested or each.state is FileState.CHANGED
        assert each.state in (FileState.KNOWN, FileState.CHANGED)


@given(steps=steps)
def test_a_plan_that_reads_less_comes_to_the_same(steps):
    disk = Disk(etags=False)
    for name, *arguments in steps:
        getattr(disk, name)(*arguments)
    read = disk.read
    few = disk.judged(every=False)
    few_read, read = disk.read - read, disk.read
    assert [(each.file.path, each.state) for each in few] == [
        (each.file.path, each.state) for each in disk.judged(every=True)
    ]
    assert few_read <= disk.read - read


def test_files_that_are_as_the_ledger_has_them_are_not_read():
    disk = Disk(etags=False)
    for number, path in enumerate(PATHS):
        disk.write(path, number)
    disk.run("feed")
    disk.read = 0
    assert {each.state for each in disk.judged()} == {FileState.KNOWN}
    assert disk.read == 0


def test_an_upsert_takes_a_delivery_again_whose_first_one_is_still_there():
    disk = Disk(etags=False)
    disk.write("in/a", 0)
    disk.run("feed", ingests_copies=True)
    disk.copy("in/a", "in/b")
    assert [each.file.path for each in disk.run("feed", ingests_copies=True)] == ["in/b"]
    disk.move("in/b", "other/b")
    assert disk.run("feed", ingests_copies=True) == []


def test_content_that_returns_to_its_path_is_a_change():
    disk = Disk(etags=False)
    disk.write("in/a", 0)
    disk.run("feed")
    first = disk.judged()[0].file
    disk.entry("feed", EntryKind.INGESTED, replace(first, digest="d2", modified_ms=5))
    disk.touch("in/a")
    assert [each.state for each in disk.judged()] == [FileState.CHANGED]


def test_a_decision_is_about_one_path_until_it_is_carried_out():
    disk = Disk(etags=False)
    disk.write("in/a", 0)
    disk.run("feed")
    disk.copy("in/a", "in/b")
    files = {each.file.path: each.file for each in disk.judged()}
    disk.entry("feed", EntryKind.ACCEPTED, files["in/b"])
    assert {each.file.path: each.state for each in disk.judged()} == {
        "in/a": FileState.KNOWN,
        "in/b": FileState.NEW,
    }
    disk.run("feed")
    assert {each.state for each in disk.judged()} == {FileState.KNOWN}
    disk.entry("feed", EntryKind.ACCEPTED, files["in/a"])
    disk.move("in/a", "other/a")
    assert [each.file.path for each in disk.run("feed")] == ["other/a"]
    disk.write("in/c", 1)
    (new,) = (each.file for each in disk.judged() if each.file.path == "in/c")
    disk.entry("feed", EntryKind.SKIPPED, new)
    assert disk.run("feed") == []
