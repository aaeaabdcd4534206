"""The timeline of a table whose writes were taken back, in both layouts."""

from __future__ import annotations

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.timeline import TimelineView
from parquetry.compiler.reports.timeline import report_timeline
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from tests.support.small_table import FAST, make_table

pytestmark = pytest.mark.usefixtures("on_each_version")


def test_a_rollback_and_a_restore_show_the_files_they_deleted(tmp_path):
    table = make_table(tmp_path / "t")
    table.upsert({"a": (1, "x"), "b": (1, "y")})
    newest = table.upsert({"a": (2, "x")}).instant
    rollback(table.handle, newest, timing=FAST)
    table.upsert({"a": (2, "x")})
    savepoint = create_savepoint(table.handle, timing=FAST).instant
    table.upsert({"a": (3, "x"), "b": (3, "y")})
    table.upsert({"b": (4, "y")})
    restore(table.handle, savepoint, timing=FAST)
    report = report_timeline(table.store)
    removed = {instant.action: instant.files.removed for instant in report.instants if instant.files.removed}
    assert removed == {"rollback": 1, "restore": 3}
    assert TimelineView().text(report, Paint(enabled=False)).splitlines()[-1].endswith("-3")
