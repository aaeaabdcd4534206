"""Encrypted tables of a project: each is read by the keys that its spec, source or caller names."""

from __future__ import annotations

import base64
import json
import shutil

import pyarrow as pa
import pytest
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from tests.support.project_folder import PROJECT, ProjectFolder

pytestmark = pytest.mark.spark

KEYS = {"A": b"a", "B": b"b", "C": b"c"}
ENCRYPT = {"trigger": "async", "execution": {"then": ["encrypt"]}}


@pytest.fixture
def folder(tmp_path, monkeypatch, spark):
    """`people`, encrypted by key A, and `visits`, encrypted by B, which are read from them."""
    made = ProjectFolder.create(tmp_path / "clinic")
    (made.root / "tables/orders.yml").unlink()
    monkeypatch.chdir(made.root)
    for name, letter in KEYS.items():
        (tmp_path / name).write_bytes(base64.b64encode(letter * 32))
    allow = [{"code": "PQ708", "table": name, "reason": "a test"} for name in ("people", "visits")]
    made.write("parquetry.yml", PROJECT | {"allow": allow})
    people(made, files={"encryption_key": key(made, "A")})
    visits(made, encryption_keys=[key(made, "A")])
    called("apply", "--auto-approve")
    made.deliver("1.csv", "id,v\n1,1\n2,2\n")
    called("run")
    return made


def key(folder, name):
    return f"file:{folder.root.parent / name}"


def declare(folder, name, **changes):
    columns = [{"name": "id", "type": "bigint", "nullable": False}, {"name": "v", "type": "bigint"}]
    document = {"apiVersion": "parquetry/v1", "kind": "table", "name": name, "columns": columns}
    folder.write(f"tables/{name}.yml", document | {"record_key": ["id"], "clustering": ENCRYPT} | changes)


def people(folder, **changes):
    source = {"name": "landing", "format": "csv", "path": "landing/*.csv"}
    declare(folder, "people", sources=[source], **changes)


def visits(folder, **changes):
    source = {"name": "people", "format": "hudi", "path": "warehouse/people", "ties": "any", **changes}
    tests = [{"name": "known", "relationships": {"columns": ["id"], "to": "people"}}]
    files = {"encryption_key": key(folder, "B")}
    declare(folder, "visits", sources=[source], tests=tests, files=files)


def called(*arguments, code=0):
    done = CliRunner().invoke(command_line, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def rows(spark, name):
    return sorted(tuple(row) for row in parquetry.load(".").table(name).read(spark).collect())


def files(folder, name):
    return list((folder.root / "warehouse" / name).glob("*.parquet"))


def test_a_source_and_a_test_of_rows_read_by_the_keys_that_are_named(folder, spark):
    assert rows(spark, "people") == rows(spark, "visits") == [(1, 1), (2, 2)]
    assert all(path.read_bytes().endswith(b"PARE") for path in files(folder, "people"))
    (known,) = json.loads(CliRunner().invoke(command_line, ["test", "--format", "json"]).stdout)["tests"]
    assert known["status"] == "passed"
    visits(folder)
    called("apply", "--auto-approve")
    folder.deliver("2.csv", "id,v\n3,3\n")
    said = called("run", code=6)
    assert "A' is not declared here" in said
    assert "its encryption_keys" in said
    assert rows(spark, "visits") == [(1, 1), (2, 2)]


def test_a_key_is_replaced_and_retired(folder, spark):
    people(folder, files={"encryption_key": key(folder, "C")})
    assert "SC406" in called("plan", code=1)
    people(folder, files={"encryption_key": key(folder, "C"), "former_encryption_keys": [key(folder, "A")]})
    visits(folder, encryption_keys=[key(folder, "A"), key(folder, "C")])
    called("apply", "--auto-approve")
    folder.deliver("2.csv", "id,v\n1,7\n3,3\n")
    called("run")
    assert rows(spark, "people") == rows(spark, "visits") == [(1, 7), (2, 2), (3, 3)]
    people(folder, files={"encryption_key": key(folder, "C")})
    called("apply", "--auto-approve")
    (folder.root.parent / "A").unlink()
    assert rows(spark, "people") == [(1, 7), (2, 2), (3, 3)]


def test_python_names_the_keys(folder, spark):
    place = folder.root / "warehouse/people"
    more = pa.table({"id": [4], "v": [4]})
    for keys in ([], [key(folder, "B")]):
        table = parquetry.open(place, keys=keys)
        with pytest.raises(parquetry.KeyUnavailableError, match="A' is not declared here"):
            table.upsert(more)
        with pytest.raises(Exception, match="A' is not declared here"):
            table.read(spark).collect()
    parquetry.open(place, keys=[key(folder, "A")]).upsert(more)
    assert rows(spark, "people") == [(1, 1), (2, 2), (4, 4)]


def test_a_sealed_file_of_another_table_stays_sealed(folder, spark):
    """An upsert into a table in the clear would have written its rows in the clear."""
    declare(folder, "open", clustering={})
    called("apply", "--auto-approve")
    table = parquetry.load(".").table("open")
    table.upsert(pa.table({"id": [1], "v": [0]}))
    (mine,) = files(folder, "open")
    (sealed,) = files(folder, "people")
    shutil.copy(sealed, mine)
    commit = max((folder.root / "warehouse/open/.hoodie").glob("*.commit"))
    said = json.loads(commit.read_text())
    said["partitionToWriteStats"][""][0]["fileSizeInBytes"] = mine.stat().st_size
    commit.write_text(json.dumps(said))
    for sidecar in (folder.root / "warehouse/open/.hoodie/.parquetry/stats").iterdir():
        sidecar.unlink()
    with pytest.raises(parquetry.KeyUnavailableError, match="A' is not declared here"):
        table.upsert(pa.table({"id": [1], "v": [9]}))
    assert files(folder, "open") == [mine]
