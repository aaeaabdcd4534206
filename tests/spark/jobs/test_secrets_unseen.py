"""A secret of a target is on no command line, in no file below target/ or of the table, and is not printed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.command_script import environment, parquetry
from tests.support.project_folder import ProjectFolder, with_leave
from tests.support.secrets_seen import command_lines_with, files_with

pytestmark = pytest.mark.spark

VALUE = "hunter22-Zq9-is-secret"
WRITTEN = "hunter33-is-a-literal"
LAKE = {"PARQUETRY_SECRET_LAKE": VALUE}
SECRET = "{{ env_var('PARQUETRY_SECRET_LAKE') }}"
SPARK = {
    "master": "local[2]",
    "conf": {
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.lake.password": WRITTEN,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    },
}
ROWS = "order_id,city,amount,items,revision\n1,Oslo,1.5,1,1\n"


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    target = {"warehouse": "./warehouse", "spark": SPARK, "storage": {"secret": SECRET, "token": SECRET}}
    folder.project(targets={"dev": with_leave(target)})
    applied = parquetry("apply", "--auto-approve", "-q", "-p", folder.root, **LAKE)
    assert applied.returncode == 0, applied.stderr
    folder.deliver("a.csv", ROWS)
    return folder


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(ROWS, marks=pytest.mark.long, id="well"),
        pytest.param(f"{ROWS}{VALUE},Rome,2.5,2,1\n", id="with a failure"),
    ],
)
def test_a_run_shows_its_secrets_nowhere(folder, rows):
    folder.deliver("a.csv", rows)
    with command_lines_with(VALUE) as seen, command_lines_with(WRITTEN) as literal:
        done = parquetry("run", "-p", folder.root, **LAKE)
    assert done.returncode == (0 if rows == ROWS else 1), done.stderr
    assert (seen, literal) == (set(), set())
    assert VALUE not in done.stdout + done.stderr
    assert files_with(VALUE, [folder.root / "target", folder.root / "warehouse"]) == []
    if rows != ROWS:
        (log,) = folder.root.glob("target/runs/*/spark.log")
        assert f"Spark's log is {log}\n" in done.stderr
        assert done.stdout.startswith("orders ingest_landing  failed\n\n1 failed; 0 files (0 B) written in ")
        assert len(done.stderr.splitlines()) == 4
        assert "\n\tat " not in done.stdout + done.stderr
        assert "\n\tat " in log.read_text()


def test_a_compiled_script_shows_them_nowhere(folder):
    assert parquetry("compile", "-p", folder.root, **LAKE).returncode == 0
    with command_lines_with(VALUE) as seen, command_lines_with(WRITTEN) as literal:
        done = subprocess.run(
            [sys.executable, str(folder.root / "target/jobs/orders/ingest_landing.py")],
            capture_output=True,
            text=True,
            check=False,
            env=environment(**LAKE),
        )
    assert done.returncode == 0, done.stderr
    assert (seen, literal) == (set(), set())
    assert VALUE not in done.stdout + done.stderr
    assert files_with(VALUE, [folder.root / "target", folder.root / "warehouse"]) == []
