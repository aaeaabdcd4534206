"""What GitLab says of merge requests, and what parquetry refuses to believe without its word."""

from __future__ import annotations

import json

import pytest

from parquetry.cli.requests.forge import ForgeRequest
from parquetry.compiler.review.approval import NotApprovedError, Reviewed, approval_at, check_text, unplanned
from parquetry.compiler.review.forge import Account, CheckState, ForgeError, OpenPullRequest
from parquetry.compiler.review.gitlab import gitlab
from parquetry.compiler.review.http import NotAllowedError
from parquetry.errors import UsageError
from tests.support.github_server import TOKEN
from tests.support.gitlab_server import BOT, PROJECT, local_gitlab

HEAD, OTHER, MERGE = "1" * 40, "2" * 40, "f" * 40
REVIEWED = Reviewed(project="shop", target="dev", creator=BOT)
PLAN_ID, BASE = "sha256:" + "a" * 64, "3" * 40
PLAN = check_text(PLAN_ID, BASE)
ANOTHER = check_text("sha256:" + "b" * 64, BASE)
_LAST = {"hasNextPage": False, "endCursor": None}
_NONE_LISTED = {
    "commitCount": 2,
    "committers": {"nodes": [], "pageInfo": _LAST},
    "commits": {"nodes": [], "pageInfo": _LAST},
}
_OLDER = {"nodes": [{"sha": OTHER, "author": None}], "pageInfo": _LAST}
_AN_OLDER_VERSION = json.dumps(
    {"data": {"project": {"mergeRequest": _NONE_LISTED | {"commitCount": 1, "commits": _OLDER}}}}
).encode()
_TWO_COMMITS_AND_NONE_LISTED = json.dumps({"data": {"project": {"mergeRequest": _NONE_LISTED}}}).encode()


@pytest.fixture
def forge():
    with local_gitlab() as made:
        yield made


@pytest.fixture(params=[str(PROJECT), "shop/lake"])
def project(forge, request):
    """The project, by its number and by its path."""
    return gitlab(request.param, token=TOKEN, address=forge.address)


@pytest.fixture
def lake(forge):
    return gitlab("shop/lake", token=TOKEN, address=forge.address)


def planned(forge, *, head=HEAD, plan=PLAN):
    pull = forge.open(head)
    forge.status(head, BOT, REVIEWED.check, plan)
    return pull


def refusal(lake):
    with pytest.raises(NotApprovedError) as refused:
        approval_at(lake, MERGE, REVIEWED)
    return str(refused.value)


def test_an_approval_of_the_head_is_found(forge, project):
    pull = planned(forge)
    forge.review(pull)
    forge.merge(pull, MERGE)
    found = approval_at(project, MERGE, REVIEWED)
    assert (found.plan_id, found.base, found.head, found.approved_by) == (PLAN_ID, BASE, HEAD, ("rita",))


@pytest.mark.parametrize("is_squashed", [False, True])
def test_what_a_merge_request_became(forge, lake, is_squashed):
    """A merge commit, the commit it was squashed to, or its own head: a fast-forward."""
    pull = forge.open(HEAD)
    pull.is_squashed = is_squashed
    assert lake.pull_request(7).merge_commit is None
    forge.merge(pull, MERGE)
    assert lake.pull_request(7).merge_commit == MERGE
    forge.merge(pull, HEAD)
    assert lake.pull_request(7).merge_commit == HEAD


def test_an_approval_is_of_the_version_that_was_the_newest_then(forge, lake):
    """Approvals outlive a push, unless the project resets them."""
    pull = planned(forge)
    forge.review(pull)
    forge.push(pull, OTHER)
    forge.status(OTHER, BOT, REVIEWED.check, PLAN)
    forge.review(pull, "mona")
    verdicts = {review.reviewer.login: review.commit for review in lake.reviews(lake.pull_request(7))}
    assert verdicts == {"rita": HEAD, "mona": OTHER}
    forge.merge(pull, MERGE)
    assert approval_at(lake, MERGE, REVIEWED).approved_by == ("mona",)


def test_a_push_after_the_plan_and_back_takes_the_approval_away(forge, lake):
    pull = planned(forge)
    forge.review(pull)
    forge.push(pull, OTHER, force=True)
    forge.push(pull, HEAD, force=True)
    forge.merge(pull, MERGE)
    assert "forced push" in refusal(lake)


def test_a_server_that_does_not_say_when_somebody_approved_is_refused(forge, lake):
    pull = planned(forge)
    forge.review(pull)
    forge.merge(pull, MERGE)
    forge.says_when = False
    with pytest.raises(ForgeError, match=r"does not return the time of an approval"):
        approval_at(lake, MERGE, REVIEWED)


def test_a_head_of_which_there_is_no_version_yet_is_refused(forge, lake):
    """GitLab makes the version of a push some time after it."""
    pull = planned(forge)
    forge.review(pull)
    pull.head = OTHER
    forge.status(OTHER, BOT, REVIEWED.check, PLAN)
    forge.merge(pull, MERGE)
    with pytest.raises(ForgeError, match="no version of merge request 7 with its head"):
        approval_at(lake, MERGE, REVIEWED)


def test_a_status_counts_from_its_end(forge, lake):
    """One that was pending when somebody approved is given another id."""
    pull = planned(forge)
    begun = forge.tick()
    forge.review(pull)
    forge.status(HEAD, BOT, REVIEWED.check, ANOTHER)["begun_at"] = begun
    forge.merge(pull, MERGE)
    assert "before the commit was planned" in refusal(lake)


def test_a_job_with_the_name_of_the_check_holds_no_plan(forge, lake):
    """The pipeline of a branch can name its jobs as it likes; they are their owner's, and have no text."""
    pull = planned(forge)
    for by in ("adam", BOT):
        forge.status(HEAD, by, REVIEWED.check, None)
    forge.review(pull)
    forge.merge(pull, MERGE)
    assert "instead of a plan id" in refusal(lake)


def test_a_reviewer_who_requests_changes_stops_the_others(forge, lake):
    pull = planned(forge)
    forge.review(pull, "mona")
    forge.review(pull, "rita", state="CHANGES_REQUESTED")
    forge.merge(pull, MERGE)
    assert '"rita" requests changes' in refusal(lake)


@pytest.mark.parametrize("pages", [1, 2, 100])
def test_authors_and_committers_of_every_commit_count(forge, lake, pages):
    forge.most_on_a_page = pages
    pull = forge.open(HEAD)
    pull.commits = [("adam", None), (None, "mona"), ("rita", "adam")]
    assert lake.commit_authors(lake.pull_request(7)) == {"adam", "mona", "rita"}


def test_more_committers_than_gitlab_lists_are_refused(forge, lake):
    pull = forge.open(HEAD)
    pull.commits = [("adam", f"c{number}") for number in range(101)]
    with pytest.raises(ForgeError, match="the other authors are unknown"):
        lake.commit_authors(lake.pull_request(7))


@pytest.mark.parametrize(
    "answer",
    [
        b'{"errors": [{"message": "too complex"}], "data": null}',
        b'{"data": {"project": null}}',
        b'{"data": {"project": {"mergeRequest": {"commitCount": 0}}}}',
        _TWO_COMMITS_AND_NONE_LISTED,
        _AN_OLDER_VERSION,
    ],
)
def test_authors_that_gitlab_does_not_list_are_nobody(forge, lake, answer):
    forge.open(HEAD)
    pull = lake.pull_request(7)
    path = b'{"path_with_namespace": "shop/lake"}'
    forge.troubles += [(200, {}, path), (200, {}, answer)]
    with pytest.raises(ForgeError):
        lake.commit_authors(pull)


@pytest.mark.parametrize("line", ["/approve", " /merge", "\t/label ~x", "text\n\n  /assign me"])
def test_no_line_of_a_comment_is_a_command(forge, lake, line):
    """GitLab carries out what begins with a slash, with the rights of the account that posts."""
    forge.open(HEAD)
    pull = lake.pull_request(7)
    added = lake.add_comment(pull, f"<!-- marker -->\n{line}")
    lake.replace_comment(pull, added, f"{line}\n{line}")
    (comment,) = lake.comments(pull)
    assert not [one for one in comment.text.splitlines() if one.strip().startswith("/")]
    assert comment.text.replace("\u2060", "") == f"{line}\n{line}"
    lake.delete_comment(pull, added)
    lake.delete_comment(pull, added)
    assert lake.comments(pull) == ()


def test_notes_of_gitlab_itself_are_no_comments(forge, lake):
    pull = forge.open(HEAD)
    forge.comment(pull, "adam", "words")
    assert [comment.text for comment in lake.comments(lake.pull_request(7))] == ["words"]


@pytest.mark.parametrize(("login", "may"), [("rita", True), ("mona", True), ("sam", False), ("eve", False)])
def test_who_may_push(forge, lake, login, may):
    assert lake.may_write(Account(login=login, is_person=True)) is may


def test_an_approval_by_an_account_that_is_gone_counts_for_nothing(forge, lake):
    forge.open(HEAD)
    pull = lake.pull_request(7)
    moment = forge.tick()
    answer = {"approved_by": [{"user": None, "approved_at": moment}]}
    forge.troubles.append((200, {}, json.dumps(answer).encode()))
    assert lake.reviews(pull) == ()


def test_two_people_with_one_name_may_do_nothing(forge, lake):
    forge.people["RITA"] = "admin"
    assert lake.may_write(Account(login="rita", is_person=True)) is False


def test_programs_are_no_people(forge, lake):
    forge.people["evil[bot]"] = "write"
    pull = planned(forge)
    for who in ("evil[bot]", BOT):
        forge.review(pull, who)
    forge.merge(pull, MERGE)
    said = refusal(lake)
    assert said.count("is not a person") == 2


def test_open_merge_requests(forge, lake):
    forge.open(HEAD)
    forge.open(OTHER).is_fork = True
    forge.open(OTHER, base="feature")
    forge.merge(forge.open(HEAD), MERGE)
    assert lake.open_pull_requests("main") == (
        OpenPullRequest(number=7, head=HEAD, is_fork=False),
        OpenPullRequest(number=8, head=OTHER, is_fork=True),
    )


def test_a_merge_request_is_planned_once(forge, lake):
    """What counts is the check of the account that posts, of the head, for the project and target."""
    pull = planned(forge)
    assert unplanned(lake, REVIEWED).pull_requests == ()
    forge.push(pull, OTHER)
    forge.status(OTHER, "adam", REVIEWED.check, PLAN)
    forge.status(OTHER, BOT, "parquetry/plan (shop/prod)", PLAN)
    assert [pull.head for pull in unplanned(lake, REVIEWED).pull_requests] == [OTHER]
    forge.status(OTHER, BOT, REVIEWED.check, "blocked", "failure")
    assert unplanned(lake, REVIEWED).pull_requests == ()


def test_a_token_that_may_only_read(forge, lake):
    forge.readers.add(TOKEN)
    with pytest.raises(NotAllowedError):
        lake.set_check(HEAD, name=REVIEWED.check, state=CheckState.SUCCESS, text=PLAN)


@pytest.mark.parametrize("name", ["lake", "", "../lake", "shop/..", "a b/c", "shop//lake", "-/%2e"])
def test_a_name_that_is_no_project(name):
    with pytest.raises(UsageError, match="not a GitLab project"):
        gitlab(name, token=TOKEN)


@pytest.mark.parametrize("address", ["https://gitlab.example.org", "https://gitlab.example.org/v4"])
def test_an_address_that_is_not_the_api(address):
    with pytest.raises(UsageError, match="ends with /api/v4"):
        gitlab("shop/lake", token=TOKEN, address=address)


def request_of(**given):
    return ForgeRequest(**{"forge": None, "repository": None, "creator": None, "branch": None, **given})


def test_the_environment_says_which_forge_it_is(forge):
    job = {"GITLAB_CI": "true", "GITLAB_TOKEN": TOKEN, "CI_API_V4_URL": forge.address}
    for project in ({"CI_PROJECT_ID": "42"}, {"CI_PROJECT_PATH": "shop/lake"}):
        assert request_of().open(job | project).default_branch() == "main"
    outside = {
        "GITLAB_TOKEN": TOKEN,
        "GITLAB_API_URL": forge.address,
        "CI_API_V4_URL": "https://other/api/v4",
    }
    assert request_of(forge="gitlab", repository="shop/lake").open(outside).default_branch() == "main"


@pytest.mark.parametrize(
    ("given", "environment", "problem"),
    [
        ({}, {"GITLAB_CI": "true"}, "name the repository on GitLab"),
        (
            {"repository": "shop/lake"},
            {"GITLAB_CI": "true", "CI_JOB_TOKEN": "x"},
            "set the variable GITLAB_TOKEN",
        ),
        ({"forge": "github"}, {"GITLAB_CI": "true", "CI_PROJECT_ID": "1"}, "name the repository on GitHub"),
    ],
)
def test_what_is_missing_is_named(given, environment, problem):
    with pytest.raises(UsageError, match=problem):
        request_of(**given).open(environment)


def test_the_account_that_posts_has_to_be_named_on_gitlab():
    with pytest.raises(UsageError, match="name the account that posts plans"):
        request_of().creator_or_default({"GITLAB_CI": "true"})
    assert request_of(creator=BOT).creator_or_default({"GITLAB_CI": "true"}) == BOT
    assert request_of().creator_or_default({}) == "github-actions[bot]"
