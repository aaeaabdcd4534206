"""What is said to a JVM about logging before it starts."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from parquetry.runtime.spark.session.start import _quiet_start, _redaction
from parquetry.runtime.spec.job import SparkSettings

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def no_installed_spark(monkeypatch):
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_warnings_and_errors_are_still_printed():
    with _quiet_start({OPTIONS: "-Xss4m", "spark.ui.enabled": "false"}) as quiet:
        given, _, setting = quiet[OPTIONS].partition(" -Dlog4j2.configurationFile=")
        file = Path(unquote(urlsplit(setting).path))
        lines = file.read_text().splitlines()

    assert given == "-Xss4m"
    assert "rootLogger.level = warn" in lines
    assert not file.exists()


def test_what_the_user_has_configured_stays(monkeypatch, tmp_path):
    with _quiet_start({OPTIONS: "-Dlog4j2.configurationFile=mine.xml"}) as quiet:
        assert quiet == {}
    (tmp_path / "log4j2.properties").write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with _quiet_start({"spark.ui.enabled": "false"}) as quiet:
        assert quiet == {}


def test_spark_masks_the_settings_that_are_secret_beside_those_it_knows():
    conf = {
        "spark.my.x": {"environment_text": "${X}"},
        "spark.url": "jdbc://u:p@h/d",
        "spark.ui.enabled": "1",
    }
    (pattern,) = _redaction(SparkSettings(conf=conf)).values()
    names = ("spark.my.x", "spark.url", "spark.ssl.keyPassword", "spark.ui.enabled", "sparkxmy.x")
    assert [name for name in names if re.search(pattern, name)] == list(names[:3])
    assert _redaction(SparkSettings(conf={"spark.ui.enabled": "1"})) == {}
    assert _redaction(SparkSettings(conf=conf | {"spark.redaction.regex": "mine"})) == {}


def test_under_spark_submit_the_jvm_is_running_already():
    with _quiet_start({}) as quiet:
        assert quiet == {}
