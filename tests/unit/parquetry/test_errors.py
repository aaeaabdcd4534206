"""What a failure says is kept as fields: its statements, and the SQL of the spec that it is about."""

from __future__ import annotations

import pickle

import pytest

from parquetry.errors import ParquetryError, failures_at
from parquetry.runtime.errors import CorruptTableError


def test_a_failure_is_a_sentence_with_fields_that_can_be_reworded():
    failure = CorruptTableError("{files} are gone; restore them", files=["a", "b"])
    assert str(failure) == "a, b are gone; restore them"
    assert failure.message.fields == {"files": ["a", "b"]}
    failure.reword(lambda message: message.changed(str.upper))
    assert str(failure) == "A, B are gone; restore them"


def test_the_innermost_block_says_which_sql_it_is_about():
    with (
        pytest.raises(ParquetryError) as caught,
        failures_at("sources.landing.select"),
        failures_at("columns.day.generated"),
        failures_at(None),
    ):
        raise ParquetryError("no")
    assert caught.value.declared == "columns.day.generated"


def test_a_failure_keeps_its_fields_on_its_way_to_another_process():
    failure = CorruptTableError("a is gone; restore it")
    failure.declared, failure.origin = "columns.day.generated", "tables/events.yml:3:5"
    again = pickle.loads(pickle.dumps(failure))
    assert (str(again), again.declared) == (
        "tables/events.yml:3:5: a is gone; restore it",
        "columns.day.generated",
    )
