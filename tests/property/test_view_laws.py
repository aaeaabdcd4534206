"""Random histories: our view against a model that knows what was committed, and against hudi-rs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hudi import HudiTableBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.handmade import HandmadeTable, at

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
PARTITIONS = ("p=a", "p=b")
GROUPS = ("f-0", "g-0", "h-0")

groups = st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(GROUPS))
steps = st.one_of(
    st.tuples(st.just("commit"), st.sets(groups, max_size=3)),
    st.tuples(st.just("dead"), st.sets(groups, max_size=2)),
    st.tuples(st.just("replace"), st.sets(groups, min_size=1, max_size=2)),
)


@dataclass
class History:
    """What every group's newest version was after each step."""

    current: dict[tuple[str, str], str] = field(default_factory=dict)
    gone: set[tuple[str, str]] = field(default_factory=set)
    after: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)

    def commit(self, time, written):
        self.current |= dict.fromkeys(written, at(time))
        self.after[time] = dict(self.current)

    def replace(self, time, replaced, written):
        self.gone |= replaced
        self.current = {group: instant for group, instant in self.current.items() if group not in replaced}
        self.commit(time, written)


def play(folder: Path, actions) -> tuple[HandmadeTable, History]:
    """Replaced file ids never come back, as file ids are unique in a real table."""
    table, history = HandmadeTable(folder), History()
    for number, (action, touched) in enumerate(actions, start=1):
        time = str(number)
        files = {
            (partition, file_id) for partition, file_id in touched if (partition, file_id) not in history.gone
        }
        by_partition = {partition: {f: [] for p, f in files if p == partition} for partition, _ in files}
        if action == "commit":
            table.commit(time, by_partition)
            history.commit(time, files)
        elif action == "dead":
            table.files(time, by_partition)
            table.request(time)
        else:
            new = {(partition, f"{partition[-1]}{time}-0") for partition, _ in touched}
            replaced = {partition: [f for p, f in files if p == partition] for partition, _ in files}
            table.commit(
                time,
                {partition: {file_id: []} for partition, file_id in new},
                operation="INSERT_OVERWRITE",
                replaced=replaced,
            )
            history.replace(time, files, new)
    return table, history


def shown(slices):
    return {(part.partition, part.file_id): part.instant for part in slices}


@settings(max_examples=examples(60))
@given(st.lists(steps, max_size=8))
def test_the_view_is_what_was_committed_now_and_at_every_time(actions):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        table, history = play(Path(folder) / "t", actions)
        view = table.view()
        assert shown(view.all_slices()) == history.current
        for time, expected in history.after.items():
            assert shown(view.all_slices(at(time))) == expected


@settings(max_examples=examples(40))
@given(st.lists(steps, max_size=6))
def test_hudi_rs_takes_the_same_files(actions):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        table, _ = play(Path(folder) / "t", actions)
        theirs = HudiTableBuilder.from_base_uri(str(table.folder)).build().get_file_slices()
        assert {part.base_file_relative_path() for part in theirs} == {
            part.path for part in table.view().all_slices()
        }


@settings(max_examples=examples(40))
@given(st.lists(steps.filter(lambda step: step[0] != "replace"), min_size=1, max_size=8), st.data())
def test_archiving_what_lies_before_the_oldest_pending_write_changes_nothing(actions, data):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        table, history = play(Path(folder) / "t", actions)
        pending = [number for number, (action, _) in enumerate(actions, start=1) if action == "dead"]
        completed = [int(time) for time in history.after]
        oldest = min(pending, default=len(actions) + 1)
        kept = max((time for time in completed if time < oldest), default=0)
        archived = data.draw(st.integers(0, max(kept - 1, 0)))
        if kept > 0:
            table.forget("20260101000000000")
            for number in range(1, archived + 1):
                table.forget(str(number))
        assert shown(table.view().all_slices()) == history.current


@settings(max_examples=examples(40))
@given(st.lists(steps, min_size=1, max_size=8), st.data())
def test_changes_in_two_steps_are_the_changes_in_one_where_nothing_was_written_again(actions, data):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        table, _ = play(Path(folder) / "t", actions)
        view = table.view()
        middle = data.draw(st.integers(0, len(actions)))
        first = view.changed_between("0", at(str(middle)))
        second = view.changed_between(first.end)
        whole = view.changed_between("0")
        newest = {(part.partition, part.file_id): part for part in (*first.slices, *second.slices)}
        still = {key: part for key, part in newest.items() if key in shown(view.all_slices(whole.end))}
        assert {part.path for part in still.values()} == {part.path for part in whole.slices}
        assert second.end == whole.end
