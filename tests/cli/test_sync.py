"""Tables in a catalog (Glue, as moto has it, and a metastore in memory), by the commands of the script."""

from __future__ import annotations

import itertools
import json

import pytest

from parquetry.runtime.storage.open import open_store
from tests.support.command_script import parquetry
from tests.support.glue import CREDENTIALS, CountedGlue, credentials
from tests.support.hive_metastore import CountedHive, memory_metastore
from tests.support.project_folder import EVENTS, PROJECT, ProjectFolder, with_leave
from tests.support.small_table import SmallTable

_NUMBERS = itertools.count()


@pytest.fixture
def shop(tmp_path, s3_options):
    """A project with one table that is registered, its entry, and a function that runs commands."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables" / "orders.yml").unlink()
    folder.write("tables/events.yml", EVENTS)
    catalog = {"type": "glue", "region": "eu-west-1", "endpoint": s3_options["endpoint_url"]}
    database = f"shop{next(_NUMBERS)}"
    target = PROJECT["targets"]["dev"] | {
        "catalogs": {"lake": catalog},
        "catalog": "lake",
        "database": database,
    }
    folder.project(targets={"dev": with_leave(target)})
    with credentials():
        glue = CountedGlue(s3_options["endpoint_url"], database=database, table="events")

        def run(*arguments: str) -> str:
            done = parquetry(*arguments, "-p", folder.root, **CREDENTIALS)
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield folder, glue, run


def write(folder: ProjectFolder, *partitions: str) -> None:
    store = open_store(folder.root / "warehouse" / "events")
    SmallTable(store=store).upsert({f"{partition}1": (1, partition) for partition in partitions})


def test_sync_registers_and_follows(shop) -> None:
    folder, glue, run = shop
    run("apply", "--auto-approve")
    write(folder, "a", "b")
    assert "2 partitions added" in run("sync")
    assert run("sync", "events").strip().endswith("nothing to change")
    document = json.loads(run("sync", "--format", "json"))
    assert document["tables"][0]["place"] == glue.place
    assert [part.values for part in glue.every_partition()] == [("a",), ("b",)]


def test_sync_registers_in_a_metastore(tmp_path) -> None:
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables" / "orders.yml").unlink()
    folder.write("tables/events.yml", EVENTS)
    with memory_metastore() as uri:
        catalogs = {"lake": {"type": "hive", "uri": uri}}
        target = PROJECT["targets"]["dev"] | {"catalogs": catalogs, "catalog": "lake", "database": "shop"}
        folder.project(targets={"dev": target})
        refused = parquetry("sync", "-p", folder.root)
        assert refused.returncode == 1
        assert "catalogs.lake.uri" in refused.stderr
        folder.project(targets={"dev": with_leave(target)})
        assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
        write(folder, "a", "b")
        done = parquetry("sync", "-p", folder.root)
        assert "2 partitions added" in done.stdout, done.stderr
        found = CountedHive(uri, database="shop", table="events").every_partition()
        assert [part.values for part in found] == [("a",), ("b",)]


def test_an_endpoint_needs_leave(shop) -> None:
    folder, _, run = shop
    run("apply", "--auto-approve")
    text = (folder.root / "parquetry.yml").read_text()
    (folder.root / "parquetry.yml").write_text(text.replace("127.0.0.1", "localhost", 1))
    refused = parquetry("sync", "-p", folder.root, **CREDENTIALS)
    assert refused.returncode == 1
    assert "catalogs.lake.endpoint" in refused.stderr


def test_a_location_has_no_catalog(shop) -> None:
    folder, _, _ = shop
    refused = parquetry("sync", f"{folder.root}/warehouse/events", "-p", folder.root)
    assert refused.returncode == 2
    assert "give the name of the table" in refused.stderr
