"""Python files that lie in the project are not imported by Spark's workers, which start in its folder."""

from __future__ import annotations

import pytest

from tests.support.command_script import parquetry
from tests.support.project_folder import ProjectFolder

pytestmark = pytest.mark.spark


def test_a_module_in_the_project_is_not_carried_out_and_a_quiet_run_that_goes_well_says_nothing(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.deliver("a.csv", "order_id,city,amount,items,revision\n1,Oslo,1.5,1,1\n")
    mark = tmp_path / "executed"
    for module in ("socket", "queue"):
        (folder.root / f"{module}.py").write_text(f"open({str(mark)!r}, 'w')\nraise ImportError\n")
    assert parquetry("apply", "--auto-approve", cwd=folder.root).returncode == 0
    done = parquetry("run", "-q", cwd=folder.root)
    assert not mark.exists()
    assert (done.returncode, done.stderr) == (0, "")
