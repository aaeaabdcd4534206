"""The client of a forge: what it waits for, what it gives up, and whom it never shows the token."""

from __future__ import annotations

import json

import pytest

from parquetry.cli.requests.forge import ForgeRequest
from parquetry.compiler.review.forge import ForgeError
from parquetry.compiler.review.github import github
from parquetry.compiler.review.http import JsonClient
from parquetry.errors import UsageError
from tests.support.github_server import TOKEN, local_github

HEAD = "1" * 40
BUSY = (502, {}, b"")


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.seconds, self.slept = 1_800_000_000.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds

    def now(self):
        return self.seconds


@pytest.fixture
def forge():
    with local_github() as made:
        yield made


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def repository(forge, clock):
    made = github("shop/lake", token=TOKEN, address=forge.address)
    object.__setattr__(made.client, "sleep", clock.sleep)
    object.__setattr__(made.client, "now", clock.now)
    return made


def test_lists_are_read_to_their_end(forge, repository):
    pull = forge.open(HEAD)
    for number in range(7):
        forge.comment(pull, "adam", f"comment {number}")
    forge.most_on_a_page = 3
    found = repository.comments(repository.pull_request(pull.number))
    assert [comment.text for comment in found] == [f"comment {number}" for number in range(7)]


def test_a_list_without_an_end_is_given_up(forge, repository):
    pull = repository.pull_request(forge.open(HEAD).number)
    again = {"Link": f'<{forge.address}/repos/shop/lake/issues/7/comments?page=1>; rel="next"'}
    forge.troubles += [(200, again, b"[]")] * 101
    with pytest.raises(ForgeError, match="more than 10,000 items"):
        repository.comments(pull)


def test_failures_of_the_server_are_tried_again_and_later_and_later(forge, repository, clock):
    forge.troubles += [BUSY] * 3
    assert repository.default_branch() == "main"
    assert len(clock.slept) == 3
    assert all(2**n <= pause <= 2**n * 1.5 for n, pause in enumerate(clock.slept))


def test_it_gives_up_in_the_end(forge, repository, clock):
    forge.troubles += [BUSY] * 9
    with pytest.raises(ForgeError, match="answers with 502, after 6 attempts"):
        repository.default_branch()
    assert len(clock.slept) == 5


@pytest.mark.parametrize(
    ("status", "headers", "content", "least"),
    [
        (429, {"Retry-After": "37"}, b"", 37),
        (403, {"Retry-After": "90"}, b"{}", 90),
        (503, {"Retry-After": "20"}, b"", 20),
        (503, {"Retry-After": "Fri, 15 Jan 2027 08:01:30 GMT"}, b"", 90),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000300"}, b"{}", 300),
        (429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000300"}, b"{}", 300),
        (403, {}, b'{"message": "You have exceeded a secondary rate limit."}', 60),
        (429, {"Retry-After": "tomorrow"}, b"", 60),
    ],
)
def test_limits_are_obeyed(forge, repository, clock, status, headers, content, least):
    forge.troubles.append((status, headers, content))
    assert repository.default_branch() == "main"
    (slept,) = clock.slept
    assert least <= slept < least + 2


@pytest.mark.parametrize("seconds", ["901", "inf", "1e300"])
def test_nobody_waits_for_longer_than_a_quarter_of_an_hour(forge, repository, clock, seconds):
    forge.troubles.append((429, {"Retry-After": seconds}, b""))
    with pytest.raises(ForgeError, match="limits the rate of requests"):
        repository.default_branch()
    assert clock.slept == []


def test_a_refusal_is_no_limit(forge, repository, clock):
    forge.troubles.append((403, {"x-ratelimit-remaining": "4999"}, b'{"message": "Forbidden"}'))
    with pytest.raises(ForgeError, match="the token lacks the permission"):
        repository.default_branch()
    assert clock.slept == []


def test_a_comment_is_not_added_twice(forge, repository):
    """A server that breaks down may have added it; one that refuses has not."""
    pull = repository.pull_request(forge.open(HEAD).number)
    forge.troubles.append(BUSY)
    with pytest.raises(ForgeError, match="check whether the change was made"):
        repository.add_comment(pull, "once")
    forge.troubles.append((429, {"Retry-After": "1"}, b""))
    repository.add_comment(pull, "once")
    assert len(forge.of_workflow(forge.pulls[pull.number])) == 1


def test_redirects_within_the_server_are_followed(forge, repository):
    forge.troubles.append((301, {"Location": "/repos/shop/lake"}, b""))
    assert repository.default_branch() == "main"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("scheme", ["http://127.0.0.1:{port}", "https://example.org", "//example.org"])
def test_the_token_goes_to_no_other_server(forge, repository, status, scheme):
    with local_github() as other:
        place = scheme.format(port=other.address.rpartition(":")[2])
        forge.troubles.append((status, {"Location": f"{place}/repos/shop/lake"}, b""))
        with pytest.raises(ForgeError, match="another server"):
            repository.default_branch()
        assert other.calls == []


def test_the_next_page_is_on_the_same_server(forge, repository):
    pull = repository.pull_request(forge.open(HEAD).number)
    with local_github() as other:
        forge.troubles.append((200, {"Link": f'<{other.address}/x>; rel="next"'}, b"[]"))
        with pytest.raises(ForgeError, match="another server"):
            repository.comments(pull)
        assert other.calls == []


def test_redirects_end(forge, repository):
    forge.troubles += [(302, {"Location": "/repos/shop/lake"}, b"")] * 9
    with pytest.raises(ForgeError, match="redirects again and again"):
        repository.default_branch()


def test_a_change_is_not_redirected(forge, repository):
    pull = repository.pull_request(forge.open(HEAD).number)
    forge.troubles.append((307, {"Location": "/repos/shop/lake/issues/7/comments"}, b""))
    with pytest.raises(ForgeError, match="307"):
        repository.add_comment(pull, "text")


def test_an_answer_has_an_end(forge, repository):
    forge.troubles.append((200, {}, b" " * ((16 << 20) + 1)))
    with pytest.raises(ForgeError, match="more than 16 MiB"):
        repository.default_branch()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"{}",
        b'{"default_branch": 7}',
        b'{"a": 1, "a": 2}',
        b"[" * 5000,
        b"\xff",
    ],
)
def test_an_answer_of_another_form_is_none(forge, repository, content):
    forge.troubles.append((200, {}, content))
    with pytest.raises(ForgeError):
        repository.default_branch()


@pytest.mark.parametrize(
    "entry", [{"head": {"sha": "abc"}}, {"merged": "yes"}, {"commits": True}, {"user": "adam"}]
)
def test_a_pull_request_is_whole(forge, repository, entry):
    pull = {
        "number": 7,
        "user": {"login": "adam", "type": "User"},
        "head": {"sha": HEAD},
        "base": {"ref": "main", "repo": {"full_name": "shop/lake"}},
        "merged": False,
        "merge_commit_sha": None,
        "commits": 1,
    }
    forge.troubles.append((200, {}, json.dumps(pull).encode()))
    assert repository.pull_request(7).head == HEAD
    for wrong in (pull | entry, {key: value for key, value in pull.items() if key not in entry}):
        forge.troubles.append((200, {}, json.dumps(wrong).encode()))
        with pytest.raises(ForgeError, match="the documented form"):
            repository.pull_request(7)


def test_a_commit_that_github_does_not_list_has_no_known_author(forge, repository):
    pull = repository.pull_request(forge.open(HEAD).number)
    forge.pulls[pull.number].commits.clear()
    with pytest.raises(ForgeError, match="has 1 commits, and GitHub lists 0"):
        repository.commit_authors(pull)


def test_the_token_is_in_no_text(forge, repository, clock):
    assert TOKEN not in repr(repository)
    forge.tokens.clear()
    with pytest.raises(ForgeError, match="the token is not valid") as failure:
        repository.default_branch()
    assert TOKEN not in repr(failure.value) + str(failure.value)
    assert {headers["Authorization"] for headers in forge.headers} == {f"Bearer {TOKEN}"}


def test_a_server_that_is_not_there(clock):
    client = JsonClient(address="http://127.0.0.1:9", headers={}, sleep=clock.sleep, now=clock.now)
    with pytest.raises(ForgeError, match=r"cannot be reached.*after 6 attempts"):
        client.get("/user")


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org",
        "ftp://example.org",
        "https://",
        "https://a:b@example.org",
        "https://example.org/?a=b",
        "x",
    ],
)
def test_an_address_is_https_and_nothing_else(address):
    with pytest.raises(UsageError):
        JsonClient(address=address, headers={})


@pytest.mark.parametrize(
    "name", ["shop", "shop/lake/x", "../lake", "shop/..", "shop/la ke", "shop/lake?x", ""]
)
def test_a_repository_is_an_owner_and_a_name(name):
    with pytest.raises(UsageError, match="write OWNER/NAME"):
        github(name, token=TOKEN)


def test_a_proxy_of_the_environment_is_used_but_for_this_machine(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    client = JsonClient(address="https://api.github.com", headers={})
    assert client._pool("https://api.github.com/user").proxy.host == "proxy.example.org"
    assert client._pool("http://127.0.0.1:80/user").proxy is None
    monkeypatch.setenv("no_proxy", "api.github.com")
    assert client._pool("https://api.github.com/user").proxy is None


@pytest.mark.parametrize(
    "address",
    ["https://[bad", "https://h:abc", "https://h:0", "https://h:70000", "https://h ost/", "https://h\n"],
)
def test_an_address_that_cannot_be_parsed_is_refused_at_once(address):
    with pytest.raises(UsageError, match="the address of a forge is https://HOST/PATH"):
        JsonClient(address=address, headers={})


def test_a_token_is_what_a_header_can_hold(forge):
    request = ForgeRequest(forge=None, repository="shop/lake", creator="adam", branch=None)
    given = {"GITHUB_API_URL": forge.address}
    assert request.open(given | {"GH_TOKEN": " \n", "GITHUB_TOKEN": f"{TOKEN}\n"}).default_branch() == "main"
    for token in ("tök", "a\nb", "a\x00b"):
        with pytest.raises(UsageError, match="GH_TOKEN is not a token of GitHub") as refused:
            request.open(given | {"GH_TOKEN": token})
        assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "header"), [(200, {"Link": '<https://[bad>; rel="next"'}), (302, {"Location": "https://[bad"})]
)
def test_a_server_that_leads_to_no_address_is_told(forge, repository, status, header):
    pull = repository.pull_request(forge.open(HEAD).number)
    forge.troubles.append((status, header, b"[]"))
    with pytest.raises(ForgeError, match="which is not a URL"):
        repository.comments(pull)
