from __future__ import annotations

import os
import time

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.locks import held_lock
from parquetry.runtime.claims import open_session
from parquetry.runtime.services.locking import table_lock
from tests.support.small_table import FAST, make_table


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t")


def said(*arguments, **settings):
    result = CliRunner().invoke(command_line, ["unlock", *map(str, arguments)], **settings)
    return result.exit_code, result.output


def test_a_living_writer_is_named_with_its_instant(table):
    handle = table.handle
    after = handle.timeline().last_instant
    with open_session(
        table.store, purpose="test", after=after, zone=handle.config.timezone, timing=FAST
    ) as session:
        with table_lock(handle, session):
            found = held_lock(table.store)
            assert (found.instant, found.abandoned) == (session.instant, False)
            assert str(os.getpid()) in found.holder
            assert 0 <= found.age_seconds < 60
        assert held_lock(table.store) is None


def test_the_age_is_that_of_the_lock_file(table, tmp_path):
    place = tmp_path / "t" / ".hoodie" / ".aux" / "lock"
    place.parent.mkdir(exist_ok=True)
    place.write_text("job 12")
    then = time.time() - 7_300
    os.utime(place, (then, then))
    assert 7_299 <= held_lock(table.store).age_seconds <= 7_360
    code, text = said(tmp_path / "t", "--list")
    assert (code, "held by another program (job 12)" in text, "for 2 h" in text) == (0, True, True)
    assert place.exists()


def test_releasing_asks_first_and_no_leaves_the_lock(table, tmp_path, monkeypatch):
    place = tmp_path / "t" / ".hoodie" / ".aux" / "lock"
    place.parent.mkdir(exist_ok=True)
    place.write_text("job 12")
    monkeypatch.setattr("parquetry.cli.asking.is_terminal", lambda: True)
    code, text = said(tmp_path / "t", input="n\n")
    assert (code, place.exists()) == (1, True)
    assert "Release the lock of" in text
    assert said(tmp_path / "t", input="y\n")[0] == 0
    assert not place.exists()
    assert table.upsert({"a": (1, "x")}).instant
