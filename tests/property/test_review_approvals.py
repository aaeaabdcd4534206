"""Whatever people and programs do to a pull request: approved is what a reviewer saw of the merged commit, or nothing.

The model remembers what was on the screen when somebody approved; the product sees what the forge keeps of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from parquetry.compiler.review.approval import NotApprovedError, Reviewed, approval_at
from parquetry.compiler.review.forge import Account, CommitCheck, PullRequest, Review, ReviewVerdict
from tests.support.effort import examples

COMMITS = tuple(letter * 40 for letter in "abc")
IDS = tuple(f"sha256:{letter * 64}" for letter in "123")
MERGE = "f" * 40
BOT = "github-actions[bot]"
PEOPLE = ("adam", "rita", "mona", "sam", "eve", BOT)
WRITERS = {"adam", "rita", "mona", "eve", BOT}
REVIEWED = Reviewed(project="shop", target="prod", creator=BOT)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def account(login):
    return Account(login=login, is_person=not login.endswith("[bot]"))


@dataclass
class Memory:
    """A forge in memory, and beside it what each reviewer saw: the head, and the id that the bot showed for it."""

    repository = "shop/lake"
    now: datetime = BEGIN
    head: str = COMMITS[0]
    authors: set[str] = field(default_factory=lambda: {"adam"})
    made: list[CommitCheck] = field(default_factory=list)
    kept: dict[str, list[CommitCheck]] = field(default_factory=dict)
    given: list[Review] = field(default_factory=list)
    reset: datetime | None = None
    seen: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    objections: set[str] = field(default_factory=set)

    def tick(self):
        self.now += timedelta(seconds=1)
        return self.now

    def shown(self):
        ours = [
            c for c in self.kept.get(self.head, []) if c.author == account(BOT) and c.name == REVIEWED.check
        ]
        return ours[-1].text if ours and ours[-1].state == "success" else None

    def push(self, commit, author):
        self.tick()
        self.head = commit
        self.authors.add(author)

    def force(self, commit):
        self.reset = self.tick()
        self.head = commit
        self.seen.clear()  # nobody knows any more what they have looked at

    def retarget(self):
        self.reset = self.tick()
        self.seen.clear()

    def check(self, by, text, state, name):
        before = self.shown()
        self.made.append(
            CommitCheck(
                number=len(self.made),
                name=name,
                state=state,
                text=text,
                author=account(by),
                created=self.tick(),
            )
        )
        self.kept.setdefault(self.head, []).append(self.made[-1])
        if self.shown() != before:  # what was seen of this commit is not what is shown now
            self.seen = {who: what for who, what in self.seen.items() if what[0] != self.head}

    def verdict(self, by, verdict):
        review = Review(
            number=len(self.given),
            reviewer=account(by),
            verdict=verdict,
            commit=self.head,
            submitted=self.tick(),
        )
        self.given.append(review)
        self.seen.pop(by, None)
        self.objections.discard(by)
        if verdict is ReviewVerdict.APPROVED:
            self.seen[by] = (self.head, self.shown())
        elif verdict is ReviewVerdict.CHANGES_REQUESTED:
            self.objections.add(by)

    def approved(self):
        """The id that may be applied, by what was seen; None for none."""
        if self.objections & WRITERS or self.shown() is None:
            return None
        counts = WRITERS - self.authors - {"adam", BOT}
        saw = {self.seen[who] for who in counts if who in self.seen}
        return self.shown() if (self.head, self.shown()) in saw else None

    # The port.

    def default_branch(self):
        return "main"

    def pull_requests_of(self, _):
        pull = PullRequest(
            number=7,
            author=account("adam"),
            head=self.head,
            base="main",
            base_repository="Shop/Lake",
            is_merged=True,
            merge_commit=MERGE,
            commits=1,
        )
        return (pull,)

    def reviews(self, _):
        return tuple(self.given)

    def commit_authors(self, _):
        return frozenset(self.authors)

    def last_reset(self, _):
        return self.reset

    def may_write(self, one):
        return one.login in WRITERS

    def checks(self, commit):
        return tuple(self.kept.get(commit, ()))


people = st.sampled_from(PEOPLE)
commits = st.sampled_from(COMMITS)
names = st.sampled_from((REVIEWED.check, REVIEWED.check, REVIEWED.check, "parquetry/plan (shop/dev)"))
acts = st.one_of(
    st.tuples(st.just("push"), commits, st.sampled_from(("adam", "eve"))),
    st.tuples(st.just("force"), commits),
    st.tuples(st.just("retarget")),
    st.tuples(st.just("check"), st.just(BOT), st.sampled_from(IDS), st.just("success"), names),
    st.tuples(st.just("check"), people, st.sampled_from(IDS), st.sampled_from(("success", "failure")), names),
    st.tuples(st.just("verdict"), people, st.sampled_from(tuple(ReviewVerdict))),
    *(
        st.tuples(st.just("verdict"), st.just(who), st.just(ReviewVerdict.APPROVED))
        for who in ("rita", "eve", BOT)
    ),
)


@settings(max_examples=examples(1500), deadline=None)
@given(st.lists(acts, max_size=25))
def test_approved_is_what_a_reviewer_saw(history):
    forge = Memory()
    for commit in COMMITS:
        forge.head = commit
        forge.check(BOT, IDS[0], "success", REVIEWED.check)
    for name, *values in history:
        getattr(forge, name)(*values)
    expected = forge.approved()
    event("approved" if expected else "not approved")
    if expected is None:
        with pytest.raises(NotApprovedError):
            approval_at(forge, MERGE, REVIEWED)
        return
    found = approval_at(forge, MERGE, REVIEWED)
    assert (found.plan_id, found.head) == (expected, forge.head)
    assert set(found.approved_by) <= WRITERS - forge.authors - {BOT}
