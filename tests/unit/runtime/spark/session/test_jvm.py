"""Settings reach a JVM by a file that nobody else can read, and that goes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from parquetry.runtime.spark.session import jvm
from parquetry.runtime.spark_log import NO_RULES

ODD = {"spark.a": " x=y\\z\n#é😀 ", "spark.b c": "", "spark.driver.memory": "1g"}


def properties(content: bytes) -> dict[str, str]:
    """What Java reads of lines as they are written here."""
    found = {}
    for line in content.decode("ascii").splitlines():
        if line.strip():
            key, _, value = line.partition("=")
            units = (
                text.encode("ascii")
                .decode("unicode_escape")
                .encode("utf-16", "surrogatepass")
                .decode("utf-16")
                for text in (key, value)
            )
            key, value = units
            found[key] = value
    return found


@pytest.fixture
def launched(monkeypatch):
    """What a launcher is given, and the bytes of the file that it is told of."""
    seen = {}

    def launch(popen_kwargs):
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        path = Path(words[words.index("--properties-file") + 1])
        seen.update(words=words, path=path, content=path.read_bytes(), mode=path.stat().st_mode)
        seen["folder"] = path.parent.stat().st_mode
        return "gateway"

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    return seen


def start(tmp_path):
    return jvm.start_jvm(ODD, local_folder="/own", environment=(), log=tmp_path / "spark.log", rules=NO_RULES)


def test_every_setting_comes_through_as_it_is(tmp_path, launched, monkeypatch):
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert start(tmp_path) == "gateway"
    assert properties(launched["content"]) == ODD
    assert launched["words"][2:] == ["pyspark-shell"]
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ
    assert not launched["path"].exists()


def test_defaults_of_the_machine_hold_beside_them(tmp_path, launched, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text("spark.b 2")
    (tmp_path / "mine.conf").write_text("spark.mine=1")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    start(tmp_path)
    assert launched["content"].startswith(b"spark.b 2\n\nspark.a=")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path}/mine.conf --name x pyspark-shell"
    )
    start(tmp_path)
    assert launched["content"].startswith(b"spark.mine=1\n\nspark.a=")
    assert launched["words"][2:] == ["--name", "x", "pyspark-shell"]
    assert os.environ["PYSPARK_SUBMIT_ARGS"].endswith("--name x pyspark-shell")


def test_without_files_in_memory_it_is_a_private_file_that_goes(tmp_path, launched, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delattr(os, "memfd_create")
    start(tmp_path)
    assert launched["path"].parent.parent == tmp_path
    assert (stat.S_IMODE(launched["mode"]), stat.S_IMODE(launched["folder"])) == (0o600, 0o700)
    assert [file.name for file in tmp_path.iterdir()] == ["spark.log"]


def test_a_process_that_is_killed_leaves_nothing(tmp_path):
    script = (
        "import os, signal\n"
        "from parquetry.runtime.spark.session import jvm\n"
        "from parquetry.runtime.spark_log import NO_RULES\n"
        "def launch(popen_kwargs):\n"
        "    print(os.environ['PYSPARK_SUBMIT_ARGS'], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "jvm.launch_gateway = launch\n"
        "jvm.start_jvm({'spark.a': 'hunter22'}, local_folder='/own', environment=(), log=None, rules=NO_RULES)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout.startswith("--properties-file /proc/")
    assert list(tmp_path.iterdir()) == []
