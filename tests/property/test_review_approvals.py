"""Whatever people and programs do to a pull request: approved is what a reviewer saw of the merged commit, or nothing.

The model remembers what was on the screen when somebody approved; the product sees what the forge keeps of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from parquetry.compiler.review.approval import NotApprovedError, Reviewed, approval_at, check_text
from parquetry.compiler.review.forge import Account, CommitCheck, PullRequest, Review, ReviewVerdict
from parquetry.compiler.review.gitlab import GitLab
from parquetry.compiler.review.http import NotThereError
from tests.support.effort import examples
from tests.support.gitlab_server import LocalGitLab

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
        return ours[-1].text.split()[0] if ours and ours[-1].state == "success" else None

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

    def check(self, by, plan_id, state, name):
        before = self.shown()
        self.made.append(
            CommitCheck(
                number=len(self.made),
                name=name,
                state=state,
                text=check_text(plan_id, COMMITS[len(self.made) % 2]),  # of a base that moves
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


class Unserved:
    """What asks a local GitLab without a server between them."""

    def __init__(self, forge: LocalGitLab) -> None:
        self.forge = forge

    def send(self, method, path, body, **_):
        url = urlsplit(f"/api{path}")
        operation, given = self.forge.operation_of(method, url.path)
        query = dict(parse_qsl(url.query))
        status, said = self.forge.answer(method, operation, {**query, **given}, body, BOT)
        if status == 404:
            raise NotThereError(path)
        assert status < 300, said
        return self.forge.checked_answer(method, operation, status, said)

    def get(self, path):
        return self.send("GET", path, None)

    def pages(self, path, **query):
        return iter(self.get(f"{path}?{urlencode(query)}"))


@dataclass
class OnGitLab(Memory):
    """The same people at a local GitLab, which keeps versions and approvals in the place of what they saw."""

    forge: LocalGitLab = field(default_factory=LocalGitLab)

    def __post_init__(self):
        levels = {who: "write" if who in WRITERS else "read" for who in PEOPLE}
        self.forge.people = levels
        self.pull = self.forge.open(self.head)

    def push(self, commit, author):
        super().push(commit, author)
        self.forge.push(self.pull, commit)
        self.pull.commits[-1] = (author, author)

    def force(self, commit):
        super().force(commit)
        self.forge.push(self.pull, commit, force=True)

    def retarget(self):
        super().retarget()
        self.forge.change_base(self.pull)

    def check(self, by, plan_id, state, name):
        super().check(by, plan_id, state, name)
        self.forge.status(self.head, by, name, self.made[-1].text, state)

    def verdict(self, by, verdict):
        super().verdict(by, verdict)
        self.forge.review(self.pull, by, str(verdict))


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(acts, max_size=25))
def test_what_gitlab_keeps_approves_nothing_that_no_reviewer_saw(history):
    """It keeps less than GitHub does, so it may approve less; never something else."""
    people = OnGitLab()
    people.check(BOT, IDS[0], "success", REVIEWED.check)
    for name, *values in history:
        getattr(people, name)(*values)
    people.forge.merge(people.pull, MERGE)
    lake = GitLab(repository="shop/lake", client=Unserved(people.forge))
    try:
        found = approval_at(lake, MERGE, REVIEWED)
    except NotApprovedError:
        event("not approved")
        last = history[-1] if history else None
        simple = last == ("verdict", "rita", ReviewVerdict.APPROVED)
        assert not (simple and people.approved()), "what was approved last is approved"
        return
    event("approved")
    assert (found.plan_id, found.head) == (people.approved(), people.head)
    assert set(found.approved_by) <= WRITERS - people.authors - {BOT}
