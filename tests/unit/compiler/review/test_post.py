"""One comment for each project and target, of the account whose plans count."""

from __future__ import annotations

import pytest

from parquetry.compiler.review.forge import ForgeError
from parquetry.compiler.review.github import github
from parquetry.compiler.review.post import post_comment
from tests.support.github_server import BOT, TOKEN, local_github

HEAD = "1" * 40
MARKER = "<!-- parquetry:plan project=shop target=prod -->"


@pytest.fixture
def forge():
    with local_github() as made:
        made.open(HEAD)
        made.tokens["ghp_mona"] = "mona"
        yield made


def post(forge, text, *, token=TOKEN, creator=BOT):
    repository = github("shop/lake", token=token, address=forge.address)
    return post_comment(repository, repository.pull_request(7), text, creator=creator)


def bodies(forge):
    return [(comment["user"]["login"], comment["body"]) for comment in forge.pulls[7].comments]


def test_a_comment_is_replaced_by_its_first_line(forge):
    others = [f"{MARKER[:-3]}-2 -->\na", f" {MARKER}\nb", f"text\n{MARKER}\nc", f"{MARKER} d"]
    for text in others:
        forge.comment(forge.pulls[7], BOT, text)
    assert post(forge, f"{MARKER}\none")[1] is False
    forge.pulls[7].comments[-1]["body"] = f"{MARKER}\r\nas a browser saves it"
    assert post(forge, f"{MARKER}\ntwo")[1] is True
    assert bodies(forge) == [(BOT, text) for text in (*others, f"{MARKER}\ntwo")]


def test_of_comments_that_were_added_at_once_one_stays(forge):
    for text in ("one", "two", "three"):
        forge.comment(forge.pulls[7], BOT, f"{MARKER}\n{text}")
    forge.comment(forge.pulls[7], "adam", f"{MARKER}\nmine")
    post(forge, f"{MARKER}\nnew")
    assert bodies(forge) == [(BOT, f"{MARKER}\nnew"), ("adam", f"{MARKER}\nmine")]


def test_a_comment_beyond_the_first_page_is_found(forge):
    forge.most_on_a_page = 2
    for number in range(5):
        forge.comment(forge.pulls[7], "adam", str(number))
    post(forge, f"{MARKER}\none")
    for number in range(5):
        forge.comment(forge.pulls[7], "adam", str(number))
    assert post(forge, f"{MARKER}\ntwo")[1] is True
    assert len(bodies(forge)) == 11


def test_a_person_posts_under_their_own_name(forge):
    forge.comment(forge.pulls[7], BOT, f"{MARKER}\nthe workflow's")
    assert post(forge, f"{MARKER}\nmine", token="ghp_mona", creator="Mona")[1] is False
    assert post(forge, f"{MARKER}\nagain", token="ghp_mona", creator="mona")[1] is True
    assert bodies(forge) == [(BOT, f"{MARKER}\nthe workflow's"), ("mona", f"{MARKER}\nagain")]


def test_whose_token_is_another_one_posts_nothing(forge):
    with pytest.raises(
        ForgeError, match=r"the token is that of mona, and plans count if github-actions\[bot\]"
    ):
        post(forge, f"{MARKER}\nmine", token="ghp_mona")
    assert bodies(forge) == []
