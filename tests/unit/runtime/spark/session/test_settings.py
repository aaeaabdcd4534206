"""Settings of a session that several threads need at the same time."""

from __future__ import annotations

import pytest

from parquetry.runtime.spark.session.settings import session_settings, set_by_user

ZONE = "spark.sql.session.timeZone"


class Conf(dict[str, str]):
    """As much of ``RuntimeConfig`` as is needed; settings without a key are refused."""

    def set(self, key: str, value: str) -> None:
        if not key:
            raise ValueError(key)
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)


class Session:
    def __init__(self, **settings: str) -> None:
        self.conf = Conf(settings)


@pytest.mark.parametrize("first_out", [0, 1])
@pytest.mark.parametrize("given", [{ZONE: "Europe/Rome"}, {}])
def test_a_setting_stays_until_the_last_that_needs_it_ends(given, first_out):
    spark = Session(**given)
    writes = [session_settings(spark, {ZONE: "UTC"}) for _ in range(2)]
    for write in writes:
        write.__enter__()
    writes[first_out].__exit__(None, None, None)
    assert spark.conf == {ZONE: "UTC"}
    writes[1 - first_out].__exit__(None, None, None)
    assert spark.conf == given


def test_of_several_values_the_newest_that_is_needed_holds():
    spark = Session(size="1")
    outer, inner = session_settings(spark, {"size": "2"}), session_settings(spark, {"size": "3"})
    outer.__enter__()
    inner.__enter__()
    assert spark.conf == {"size": "3"}
    inner.__exit__(None, None, None)
    assert spark.conf == {"size": "2"}
    with session_settings(spark, {"size": "4"}):
        outer.__exit__(None, None, None)
        assert spark.conf == {"size": "4"}
    assert spark.conf == {"size": "1"}


def test_of_several_limits_the_lowest_holds_and_the_users_setting_is_known():
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark = Session(**{key: "10000"})
    with session_settings(spark, {key: "64"}):
        with session_settings(spark, {key: "2048"}):
            assert spark.conf == {key: "64"}
            assert set_by_user(spark, key) == "10000"
        with session_settings(spark, {key: "4"}):
            assert spark.conf == {key: "4"}
        assert spark.conf == {key: "64"}
    assert set_by_user(spark, key) == spark.conf[key] == "10000"


def test_sessions_do_not_share_them():
    one, other = Session(size="1"), Session(size="1")
    with session_settings(one, {"size": "2"}):
        assert other.conf == {"size": "1"}
        with session_settings(other, {"size": "3"}):
            assert one.conf == {"size": "2"}
    assert one.conf == other.conf == {"size": "1"}


def test_a_setting_that_is_refused_leaves_the_others_as_they_were():
    spark = Session(size="1")
    with pytest.raises(ValueError, match=r"^$"), session_settings(spark, {"size": "2", "": "3"}):
        pytest.fail("it was refused")
    assert spark.conf == {"size": "1"}
