"""A message is a text, and knows its commands on every way to whoever prints it."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from parquetry.errors import ParquetryError, message_of
from parquetry.message import (
    Message,
    changed,
    command,
    commands_of,
    joined,
    phrase,
    run,
    with_commands,
    written,
)

MESSAGE = "t: roll it back with " + command("service", "rollback", "t", "a b") + ", or " + run("apply")
TEXT = "t: roll it back with `parquetry service rollback t 'a b'`, or run `parquetry apply`"


def shout(part):
    return str(part).upper()


def test_a_message_is_its_text():
    assert MESSAGE == TEXT
    assert (f"{MESSAGE}", json.loads(json.dumps(MESSAGE)), str(MESSAGE)) == (TEXT, TEXT, TEXT)
    assert {MESSAGE: 1}[TEXT] == 1


def test_sums_and_joined_texts_know_their_commands():
    expected = "t; t: roll it back with `PARQUETRY SERVICE ROLLBACK T 'A B'`, or RUN `PARQUETRY APPLY`"
    assert written(joined("; ", ("t", MESSAGE)), shout) == expected
    assert written(Message("t", "; ", MESSAGE), shout) == expected
    assert type(joined("; ", ("a", "b"))) is str
    assert written("run `parquetry apply`", shout) == "run `parquetry apply`"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_know_their_commands(again):
    assert again(MESSAGE).parts == MESSAGE.parts


def test_a_change_reaches_texts_and_words():
    masked = changed(MESSAGE, lambda text: text.replace("t", "*"))
    assert masked == "*: roll i* back wi*h `parquetry service rollback '*' 'a b'`, or run `parquetry apply`"
    assert written(masked, lambda _: "X") == "*: roll i* back wi*h X, or X"


def test_commands_find_their_texts_again_after_json():
    document = {"a": [{"text": MESSAGE, "plain": TEXT}, "run `parquetry run`"], "b": phrase("x", called="y")}
    named = json.loads(json.dumps(commands_of(document)))
    again = with_commands(json.loads(json.dumps(document)), named)
    assert again == document
    assert written(again["a"][0]["text"], shout) == written(MESSAGE, shout)
    assert type(again["a"][0]["plain"]) is str
    assert with_commands(document, []) is document


@pytest.mark.parametrize(
    "change",
    [
        {"at": 3},
        {"at": -1},
        {"words": ["apply"]},
        {"words": []},
        {"place": ["a", 1]},
        {"place": ["a"]},
        {"place": ["b", "text"]},
        {"place": ["a", 0, "plain", 0]},
        {"imperative": True},
        {"place": ["a", 1], "at": 3, "words": []},
    ],
)
def test_a_command_that_is_not_where_it_is_said_to_be_is_refused(change):
    document = {"a": [{"text": MESSAGE, "plain": TEXT}, "b: `parquetry`"]}
    first, *_ = json.loads(json.dumps(commands_of(document)))
    with pytest.raises(ValueError, match="at the recorded position"):
        with_commands(json.loads(json.dumps(document)), [first | change])


def test_a_failure_is_written_by_the_face_through_which_it_leaves():
    failure = ParquetryError("a `parquetry run` b", MESSAGE)
    failure.origin = "f.yml:1:2"
    assert str(failure) == f"f.yml:1:2: a `parquetry run` b; {TEXT}"
    outer = ParquetryError("outer: " + failure.message)
    outer.writer = shout
    assert str(outer) == f"outer: f.yml:1:2: a `parquetry run` b; {written(MESSAGE, shout)}"
    assert failure.args == ("a `parquetry run` b", MESSAGE)
    assert message_of(ValueError("x")) == "x"
    assert str(pickle.loads(pickle.dumps(outer))) == str(outer)
