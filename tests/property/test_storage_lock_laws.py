"""The law of the storage lock: of ours and Hudi's writers that sleep, die and wake up, one at most may publish."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from parquetry.runtime.commit.claims import Heartbeat, Session, claim_instant
from parquetry.runtime.commit.lock import LockHold, break_lock
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH, Lease, StorageLock
from parquetry.runtime.timeline.instant import Timezone
from tests.support.effort import examples
from tests.support.hudi_storage_lock import ModelledHudiLock
from tests.support.small_table import FAST
from tests.support.versioned_folder import VersionedFolder

TIMING = replace(FAST, dead_after_seconds=180.0)
METHOD = StorageLock(lease=Lease(renewal_seconds=1e9))
"""Leases are renewed by the machine alone."""

WRITERS = st.integers(0, 2)


@dataclass
class Writer:
    """A writer of ours with an instant, perhaps asleep."""

    session: Session
    hold: LockHold | None = None
    asleep: bool = False


class Writers(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = VersionedFolder(str(self.folder / "t"))
        self.fenced: list[str] = []
        self.newest: str | None = None
        self.ours = [self.writer() for _ in range(3)]

    @initialize(skews=st.tuples(*[st.integers(-500, 30_000)] * 2))
    def hudi_writers(self, skews):
        self.hudi = [ModelledHudiLock(self.store, skew_ms=skew) for skew in skews]

    def writer(self) -> Writer:
        owner = Owner.here()
        claim = claim_instant(
            self.store, owner, purpose="test", after=self.newest, zone=Timezone.UTC, timing=TIMING
        )
        self.newest = claim.instant
        heartbeat = Heartbeat(self.store, claim.instant, TIMING)
        heartbeat.beat()
        return Writer(Session(store=self.store, claim=claim, heartbeat=heartbeat, timing=TIMING))

    @rule(which=WRITERS)
    def take(self, which):
        mine = self.ours[which]
        if mine.hold is not None or mine.asleep:
            return
        left_by = self.left_by()
        mine.hold = METHOD.take(mine.session)
        if mine.hold is not None:
            assert left_by in (None, *self.fenced)
            return
        held = METHOD.read(self.store)
        if held is not None and held.is_dead(self.store, TIMING):
            break_lock(mine.session, METHOD, held, fence=self.fenced.append)

    def left_by(self) -> str | None:
        """The instant of ours whose lock has not been released."""
        found = self.store.read_version(STORAGE_LOCK_PATH)
        data = None if found is None else json.loads(found.content)
        if data is None or data["expired"] or not data["owner"].startswith("parquetry-"):
            return None
        return data["owner"].split("-")[1]

    @rule(which=WRITERS)
    def release(self, which):
        mine = self.ours[which]
        if mine.hold is not None and not mine.asleep:
            mine.hold.release()
            mine.session.acknowledge()
            mine.session.claim.owner.finish()
            self.ours[which] = self.writer()

    @rule(which=WRITERS)
    def renew(self, which):
        mine = self.ours[which]
        if mine.hold is not None and not mine.asleep:
            mine.hold.renew()

    @rule(which=WRITERS)
    def fall_asleep_or_wake_up(self, which):
        mine = self.ours[which]
        mine.asleep = not mine.asleep

    @rule(which=WRITERS)
    def die(self, which):
        self.ours[which].session.claim.owner.finish()
        self.ours[which] = self.writer()

    @rule(which=st.integers(0, 1), action=st.sampled_from(["take", "renew", "release"]))
    def let_hudi(self, which, action):
        theirs = self.hudi[which]
        if action != "take" or theirs.tag is None:
            getattr(theirs, action)()

    @rule(ms=st.sampled_from([100, 700, 20_000, 200_000, 269_000, 290_000, 301_000]))
    def time_passes(self, ms):
        self.store.ahead_ms += ms
        for mine in self.ours:
            if not mine.asleep:
                mine.session.heartbeat.beat()

    @invariant()
    def one_at_most_may_publish(self):
        ours = [mine.session.instant for mine in self.ours if mine.hold is not None and mine.hold.is_held()]
        theirs = [theirs.owner for theirs in getattr(self, "hudi", ()) if theirs.believes_held()]
        assert len(ours) + len(theirs) <= 1
        assert not set(ours) & set(self.fenced)

    def teardown(self):
        for mine in self.ours:
            mine.session.claim.owner.finish()
        shutil.rmtree(self.folder)


TestStorageLockLaws = Writers.TestCase
TestStorageLockLaws.settings = settings(max_examples=examples(240), stateful_step_count=40, deadline=None)
