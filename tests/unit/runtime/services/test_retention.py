"""What the cleaner keeps: compared with Hudi's rules written down naively, and against what readers see."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.services.retention import (
    KEEP_LATEST_BY_HOURS,
    KEEP_LATEST_COMMITS,
    KEEP_LATEST_FILE_VERSIONS,
    Horizon,
    expired,
    horizon,
)
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.table.view import FileGroup

TIMES = [f"{n:03}" for n in range(100, 130)]


@st.composite
def histories(draw) -> tuple[list[str], list[FileGroup]]:
    """Completed writes, and file groups whose versions and ends are some of them."""
    completed = sorted(draw(st.sets(st.sampled_from(TIMES), min_size=1, max_size=20)))
    groups = []
    for number in range(draw(st.integers(1, 5))):
        versions = sorted(draw(st.sets(st.sampled_from(completed), min_size=1, max_size=8)), reverse=True)
        later = [time for time in completed if time > versions[0]]
        end = draw(st.sampled_from([None, *later]))
        slices = tuple(
            FileSlice(
                partition="p", file_id=f"f{number}", instant=time, path=f"p/f{number}_{time}", size_bytes=1
            )
            for time in versions
        )
        groups.append(FileGroup(partition="p", file_id=f"f{number}", slices=slices, replaced_at=end))
    return completed, groups


policies = st.builds(
    RetentionPolicy,
    keep_commits=st.none() | st.integers(1, 12),
    keep_versions=st.none() | st.integers(1, 4),
    max_age_seconds=st.none() | st.just(1),
)


def visible(groups: Sequence[FileGroup], time: str) -> set[str]:
    return {version.path for group in groups if (version := group.as_of(time)) is not None}


def without(groups: Sequence[FileGroup], gone: set[str]) -> list[FileGroup]:
    return [
        FileGroup(
            partition=group.partition,
            file_id=group.file_id,
            slices=tuple(version for version in group.slices if version.path not in gone),
            replaced_at=group.replaced_at,
        )
        for group in groups
    ]


@given(histories(), policies, st.sampled_from(TIMES), st.none() | st.sampled_from(TIMES), st.data())
def test_readers_of_what_is_retained_notice_nothing(history, policy, age, pending, data) -> None:
    completed, groups = history
    limits = horizon(policy, completed=completed, pending=[pending] if pending else [], oldest_age=age)
    savepoint = data.draw(st.none() | st.sampled_from(completed))
    saved = visible(groups, savepoint) if savepoint else set()
    protected = {("p", path.removeprefix("p/")) for path in saved}
    if limits is None:
        return
    gone = {version.path for version in expired(groups, limits, protected=protected)}
    left = without(groups, gone)
    retained = [time for time in completed if limits.earliest is None or time >= limits.earliest]
    for time in retained if limits.earliest is not None else completed[-1:]:
        assert visible(left, time) == visible(groups, time)
    if savepoint:
        assert saved.isdisjoint(gone)
    if pending:
        started_from = max((time for time in completed if time < pending), default=None)
        assert started_from is None or visible(left, started_from) == visible(groups, started_from)


@given(histories(), policies, st.sampled_from(TIMES))
def test_each_rule_gets_the_versions_it_asks_for(history, policy, age) -> None:
    completed, groups = history
    limits = horizon(policy, completed=completed, pending=[], oldest_age=age)
    gone = set() if limits is None else {version.path for version in expired(groups, limits)}
    left = without(groups, gone)
    if policy.keep_commits is not None:
        for time in completed[-policy.keep_commits :]:
            assert visible(left, time) == visible(groups, time)
    if policy.max_age_seconds is not None:
        for time in completed:
            assert time < age or visible(left, time) == visible(groups, time)
    if policy.keep_versions is not None:
        for before, after in zip(groups, left, strict=True):
            if before.replaced_at is None:
                assert after.slices[: policy.keep_versions] == before.slices[: policy.keep_versions]
    if (policy.keep_commits, policy.keep_versions, policy.max_age_seconds) == (None, None, None):
        assert gone == set()


@given(histories(), st.integers(1, 12), st.none() | st.sampled_from(TIMES))
def test_one_rule_by_commits_deletes_what_hudi_deletes(history, keep, pending) -> None:
    completed, groups = history
    assume(pending not in completed)
    policy = RetentionPolicy(keep_commits=keep)
    limits = horizon(policy, completed=completed, pending=[pending] if pending else [], oldest_age=None)
    earliest = hudi_earliest_commit_to_retain(completed, keep, pending)
    assert (limits.earliest if limits else None) == earliest
    deleted = {version.path for version in expired(groups, limits)} if limits else set()
    assert deleted == (hudi_files_by_commits(groups, earliest) if earliest else set())
    assert limits is None or limits.policy == KEEP_LATEST_COMMITS


@given(histories(), st.integers(1, 4))
def test_one_rule_by_versions_deletes_what_hudi_deletes(history, keep) -> None:
    completed, groups = history
    policy = RetentionPolicy(keep_commits=None, keep_versions=keep)
    limits = horizon(policy, completed=completed, pending=[], oldest_age=None)
    assert limits == Horizon(earliest=None, keep_versions=keep, policy=KEEP_LATEST_FILE_VERSIONS)
    assert {version.path for version in expired(groups, limits)} == {
        version.path
        for group in groups
        for number, version in enumerate(group.slices)
        if group.replaced_at is not None or number >= keep
    }


def test_a_pending_write_moves_no_limit_that_readers_are_told_where_versions_are_counted() -> None:
    policy = RetentionPolicy(keep_commits=None, keep_versions=2)
    limits = horizon(policy, completed=["1", "2", "4"], pending=["3"], oldest_age=None)
    assert limits == Horizon(earliest=None, keep_versions=2, policy=KEEP_LATEST_FILE_VERSIONS, barrier="2")
    assert horizon(policy, completed=["2", "4"], pending=["1"], oldest_age=None) is None


@given(st.sets(st.sampled_from(TIMES), min_size=1), st.sampled_from(TIMES))
def test_one_rule_by_age_retains_from_the_first_young_commit(completed, age) -> None:
    policy = RetentionPolicy(keep_commits=None, max_age_seconds=1)
    limits = horizon(policy, completed=sorted(completed), pending=[], oldest_age=age)
    young = [time for time in sorted(completed) if time >= age]
    assert (limits.earliest if limits else None) == (young[0] if young else None)
    assert limits is None or limits.policy == KEEP_LATEST_BY_HOURS


def hudi_earliest_commit_to_retain(completed: list[str], retained: int, pending: str | None) -> str | None:
    """CleanerUtils.getEarliestCommitToRetain of Hudi 0.15, for KEEP_LATEST_COMMITS."""
    if len(completed) <= retained:
        return None
    nth = completed[len(completed) - retained]
    if pending is None or nth <= pending:
        return nth
    before = [time for time in completed if time < pending]
    return before[-1] if before else None


def hudi_files_by_commits(groups: Sequence[FileGroup], earliest: str) -> set[str]:
    """CleanPlanner.getFilesToCleanKeepingLatestCommits of Hudi 0.15, one file group after the other."""
    deleted = set()
    for group in groups:
        if group.replaced_at is not None:
            if group.replaced_at < earliest:
                deleted |= {version.path for version in group.slices}
            continue
        last_version = group.slices[0].instant
        last_before = next((v.instant for v in group.slices if v.instant < earliest), None)
        for version in group.slices:
            if version.instant in (last_version, last_before):
                continue
            if earliest > version.instant:
                deleted.add(version.path)
    return deleted
