"""`parquetry publish` of several tables."""

from __future__ import annotations

from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.project_folder import EVENTS, ProjectFolder


def test_each_table_that_fails_is_named_and_the_others_are_published(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    for name in ("first", "events", "last"):
        folder.write(f"tables/{name}.yml", EVENTS | {"name": name, "publish": {"delta": {}}})
    assert (
        CliRunner().invoke(command_line, ["apply", "--auto-approve", "-p", str(folder.root)]).exit_code == 0
    )
    for name in ("first", "last"):
        log = folder.root / f"warehouse/{name}/_delta_log"
        for path in log.iterdir():
            path.write_text("{")
    done = CliRunner().invoke(command_line, ["publish", "-p", str(folder.root)])
    assert done.exit_code == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["events"]
    assert done.stderr.count("error: ") == 2
    assert "warehouse/first" in done.stderr
    assert "warehouse/last" in done.stderr

    for path in (folder.root / "warehouse/events/_delta_log").iterdir():
        path.write_text("{")
    done = CliRunner().invoke(command_line, ["publish", "-p", str(folder.root)])
    assert (done.exit_code, done.stdout) == (1, "")
