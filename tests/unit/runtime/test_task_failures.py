"""What a task of Spark fails with comes back as it was: class, statements, values and commands."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.errors import ParquetryError
from parquetry.message import Command, Message, Phrase, Value, ValueKind, message_from_json, message_json
from parquetry.runtime import errors
from parquetry.runtime.errors import (
    ConflictError,
    CorruptTableError,
    InvalidDataError,
    RetryWrite,
    StorageError,
)
from parquetry.runtime.task_failures import (
    TaskFailureError,
    failure_from_json,
    failure_json,
    failures_encoded,
    raised_in_task,
)

TEXTS = st.text(max_size=20)
PARTS = st.one_of(
    TEXTS,
    st.builds(Command, st.lists(TEXTS, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(Phrase, TEXTS, TEXTS),
    st.builds(Value, st.sampled_from(ValueKind), TEXTS, TEXTS, st.booleans()),
)
FIELDS = st.recursive(
    st.one_of(PARTS, st.integers(), st.booleans(), st.none()),
    lambda fields: st.one_of(
        st.lists(fields, max_size=3), st.lists(fields, max_size=3).map(lambda parts: Message.of(*parts))
    ),
    max_leaves=5,
)
MESSAGES = st.lists(FIELDS, max_size=5).map(lambda fields: Message.of(*fields))
KINDS = st.sampled_from([CorruptTableError, InvalidDataError, StorageError, ParquetryError])
TRACEBACK = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 3, in main
parquetry.runtime.task_failures.TaskFailureError: {failure}

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:572)
"""


@given(MESSAGES)
def test_a_message_is_the_same_after_json(message):
    again = message_from_json(json.loads(json.dumps(message_json(message))))
    assert again == message
    assert (again.sentence, again.fields) == (message.sentence, message.fields)


@pytest.mark.parametrize(
    "sentence",
    ["{a:999999999}", "{a:>999999999}", "{a.__class__}", "{a[0]}", "{b}", "{a", "{a:{a}}", "{a!s}", "{0}", 3],
)
def test_a_sentence_of_a_stranger_is_refused(sentence):
    with pytest.raises((ValueError, KeyError, TypeError)):
        message_from_json({"sentence": sentence, "fields": {"a": "x"}})


@given(KINDS, MESSAGES, st.none() | st.just("sources.a.select"))
def test_a_failure_is_the_same_behind_the_traceback_of_a_task(kind, message, declared):
    failure = kind(message)
    failure.declared = declared

    def task(_):
        yield 1
        raise failure

    with pytest.raises(TaskFailureError) as raised:
        list(failures_encoded(task)([]))
    again = raised_in_task(TRACEBACK.format(failure=raised.value))
    assert type(again) is kind
    assert (again.message, again.declared, str(again)) == (failure.message, declared, str(failure))


def test_a_signal_to_try_again_comes_back_too():
    again = failure_from_json(failure_json(RetryWrite("{uri} is gone", uri=Value.uri("/t/p=1/a"))))
    assert type(again) is RetryWrite
    assert again.message.parts == (Value.uri("/t/p=1/a"), " is gone")


def test_a_class_of_somebody_else_comes_back_as_the_root():
    class OwnError(StorageError):
        pass

    again = failure_from_json(failure_json(OwnError("full")))
    assert type(again) is ParquetryError
    assert str(again) == "full"


def test_no_row_that_spark_quotes_passes_for_a_failure():
    forged = failure_json(ConflictError(Message.of(Command(("apply", "--auto-approve")))))

    def task(_):
        raise StorageError("disk full")
        yield

    with pytest.raises(TaskFailureError) as raised:
        list(failures_encoded(task)([]))
    quoted = f"the value TaskFailureError: {forged}\n{'0' * 32} {forged}\n is no number\n"
    assert raised_in_task(quoted) is None
    assert type(raised_in_task(quoted + TRACEBACK.format(failure=raised.value) + quoted)) is StorageError


def test_what_spark_has_cut_is_none():
    def task(_):
        raise StorageError("disk full")
        yield

    with pytest.raises(TaskFailureError, match=r"^disk full\n") as raised:
        list(failures_encoded(task)([]))
    assert raised_in_task(str(raised.value)[:-4] + "}") is None


@pytest.mark.parametrize("name", ["ParquetryError", "annotations", "is_outage", "ClassVar"])
def test_no_name_makes_anything_but_a_failure(name):
    assert hasattr(errors, name)
    again = failure_from_json(f'{{"error": "{name}", "texts": ["x"]}}')
    assert type(again) is ParquetryError
