"""Local stages whose processes are gone are swept by whoever stages beside them next."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.spark.prepare.local_stages import remove_dead_stages
from parquetry.runtime.stage.location import LocalStage


def staged(spark_folders: Path, application: str, note: str | None) -> Path:
    """A stage below the folder of an application, with its owner's note."""
    root = spark_folders / f"spark-{application}" / f"userFiles-{application}"
    root.mkdir(parents=True)
    place = Path(LocalStage.make(str(root)).folder)
    (place / "000000-ab.rows").write_bytes(b"rows")
    if note is not None:
        (place / "owner.json").write_text(note)
    return place


def test_stages_of_processes_that_are_gone_are_removed_and_no_others(tmp_path) -> None:
    here = Owner.here()
    with subprocess.Popen(["true"]) as child:
        pass
    owners = {
        "alive": here,
        "gone": replace(here, pid=child.pid, process_start="1"),
        "earlier-boot": replace(here, boot_id="another"),
        "elsewhere": replace(here, host="elsewhere", pid=child.pid, process_start="1"),
        "earlier-boot-elsewhere": replace(here, host="elsewhere", boot_id="another"),
    }
    places = {name: staged(tmp_path, name, json.dumps(o.to_json())) for name, o in owners.items()}
    places |= {"unfinished": staged(tmp_path, "unfinished", None), "torn": staged(tmp_path, "torn", '{"ho')}

    remove_dead_stages(tmp_path / "spark-next" / "userFiles-next")

    left = {name for name, place in places.items() if place.exists()}
    assert left == {*places} - {"gone"}
