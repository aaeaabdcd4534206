"""A message is a sentence with fields; its values and commands are known until it leaves the program."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass, field

import pytest

from parquetry.errors import ParquetryError, message_of
from parquetry.message import (
    PARTITION_FIELD,
    Message,
    Value,
    ValueKind,
    command,
    commands_of,
    in_full,
    joined,
    phrase,
    run,
    texts,
    with_commands,
    with_parts,
)

MESSAGE = Message(
    "t: roll it back with {rollback}, or {apply}",
    rollback=command("service", "rollback", "t", "a b"),
    apply=run("apply"),
)
TEXT = "t: roll it back with `parquetry service rollback t 'a b'`, or run `parquetry apply`"


def shout(part):
    return str(part).upper()


def test_fields_are_written_into_the_sentence():
    message = Message(
        "{{a}} {count:,} {name!r} {share:.1f} {nothing}, {names}",
        count=1234,
        name="x",
        share=0.25,
        nothing=None,
        names=["b", Value.partition("c")],
    )
    assert message.in_full() == "{a} 1,234 'x' 0.2 none, b, 'c'"
    assert (str(MESSAGE), MESSAGE.in_full()) == (TEXT, TEXT)


def test_a_value_is_hidden_until_it_is_cleared():
    message = Message("rows of {partition}", partition=Value.partition("Ada"))
    outer = Message("it failed: {reason}; {more}", reason=message, more=[message])
    assert str(outer) == "it failed: rows of ***; rows of ***"
    assert repr(message) == "Message('rows of ***')"
    assert outer.in_full() == "it failed: rows of 'Ada'; rows of 'Ada'"
    assert str(outer.masked(lambda value: value)) == outer.in_full()
    assert texts({"a": [message]}) == {"a": ["rows of ***"]}


def test_a_message_is_never_formatted_into_a_text():
    with pytest.raises(TypeError, match="make it a field"):
        f"{MESSAGE}"


def test_messages_in_messages_know_their_commands():
    expected = "t; t: roll it back with `PARQUETRY SERVICE ROLLBACK T 'A B'`, or RUN `PARQUETRY APPLY`"
    assert in_full(joined("; ", ("t", MESSAGE)), shout) == expected
    assert Message("{table}; {message}", table="t", message=MESSAGE).in_full(shout) == expected
    assert in_full("run `parquetry apply`", shout) == "run `parquetry apply`"
    assert in_full(joined(" {} ", ("{a}", "b"))) == "{a} {} b"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_equal_and_know_their_commands(again):
    assert again(MESSAGE) == MESSAGE
    assert hash(again(MESSAGE)) == hash(MESSAGE)
    assert again(MESSAGE).parts == MESSAGE.parts


def test_a_change_reaches_fields_and_words():
    message = Message("table {name}: {rollback}", name="t", rollback=MESSAGE.fields["rollback"])
    replaced = message.changed(lambda text: text.replace("t", "*"))
    assert in_full(replaced) == "table *: `parquetry service rollback '*' 'a b'`"
    assert in_full(replaced, lambda _: "X") == "table *: X"


def test_commands_find_their_texts_again_after_json():
    document = {"a": [{"text": MESSAGE, "plain": TEXT}, "run `parquetry run`"], "b": phrase("x", called="y")}
    named = json.loads(json.dumps(commands_of(document)))
    again = with_commands(json.loads(json.dumps(texts(document))), named)
    assert texts(again) == texts(document)
    assert again["a"][0]["text"] == MESSAGE
    assert type(again["a"][0]["plain"]) is str
    assert with_commands(document, []) is document


def test_commands_behind_a_hidden_value_find_their_texts_again():
    message = Message("{file}; {again}", file=Value.file("a/long/path"), again=run("apply"))
    for document in ([message], [message.masked(lambda value: value)]):
        again = with_commands(texts(document), commands_of(document))
        assert [part for part in again[0].parts if type(part) is not str] == [
            message.fields["again"].parts[0]
        ]


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
        with_commands(json.loads(json.dumps(texts(document))), [first | change])


def test_a_failure_is_written_by_the_face_through_which_it_leaves():
    failure = ParquetryError("a `parquetry run` b; {more}", more=MESSAGE)
    failure.origin = "f.yml:1:2"
    assert str(failure) == f"f.yml:1:2: a `parquetry run` b; {TEXT}"
    outer = ParquetryError("outer: {failure}", failure=failure.message)
    outer.writer = shout
    assert str(outer) == f"outer: f.yml:1:2: a `parquetry run` b; {MESSAGE.in_full(shout)}"
    assert message_of(ValueError("x")).in_full() == "x"
    assert str(pickle.loads(pickle.dumps(outer))) == str(outer)


@dataclass(frozen=True, kw_only=True)
class Nested:
    partitions: tuple[str, ...] = field(default=(), metadata=PARTITION_FIELD)
    members: object = ()


def test_each_part_of_a_result_is_changed_by_the_kind_of_its_field():
    result = Nested(members=({"x": [Nested(partitions=("a", "b"))]}, MESSAGE, Value.file("f"), 1, "c"))
    changed = with_parts(result, lambda part, kind: f"{kind} {part}" if isinstance(part, str) else part)
    ((nested,),) = changed.members[0].values()
    kind = ValueKind.PARTITION
    assert nested.partitions == (f"{kind} a", f"{kind} b")
    assert changed.members[1:] == (MESSAGE, Value.file("f"), 1, "None c")


def test_a_result_in_which_nothing_changes_stays_the_same_object():
    result = Nested(partitions=("a",), members=({"x": [1]},))
    assert with_parts(result, lambda part, _: part) is result
