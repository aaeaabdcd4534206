"""Rows of a table with personal data reach no message, no result and no log, in whatever way they are wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import parquetry as face
from parquetry.runtime.spec.table_spec import Column, TableSpec
from tests.support.command_script import environment, parquetry
from tests.support.effort import in_full
from tests.support.project_folder import ProjectFolder
from tests.support.secrets_seen import files_with

pytestmark = pytest.mark.spark

VALUE = "Zelda-Quux-1234567"
COLUMNS = [
    {"name": "id", "type": "string", "nullable": False, "pii": True},
    {"name": "name", "type": "string", "pii": True},
    {"name": "born", "type": "date", "pii": True},
    {"name": "score", "type": "int", "pii": True},
    {"name": "n", "type": "int"},
]
HEADER = "id,name,born,score,n\n"
GOOD = f"{HEADER}{VALUE},{VALUE},2000-01-01,1,1\n"
QUERY = "SELECT id, name, cast(born AS date) AS born, score, cast(n AS int) AS n FROM source"


def csv(text: str):
    return lambda path: path.write_text(text)


def lines(*records: dict):
    return lambda path: path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


TEXTS = pa.table({"id": [VALUE], "score": [VALUE]})
CASES = {
    "csv, a personal cell": ({"format": "csv"}, csv(f"{HEADER}{VALUE},x,{VALUE},1,1\n")),
    "csv, a cell that is moved": ({"format": "csv"}, csv(f"{HEADER}x,{VALUE},2000-01-01,1,{VALUE}\n")),
    "csv, a value too many": ({"format": "csv"}, csv(f"{HEADER}{VALUE},{VALUE},2000-01-01,1,1,{VALUE}\n")),
    "csv, quotes left open": ({"format": "csv"}, csv(f'{HEADER}"{VALUE},{VALUE}\n')),
    "csv, lines in a cell": (
        {"format": "csv", "options": {"multiLine": "true"}},
        csv(f'{HEADER}x,"a\n{VALUE}\n\tat org.apache.{VALUE}",{VALUE},x,1\n'),
    ),
    "csv, a key that is null": ({"format": "csv"}, csv(f"{HEADER},{VALUE},2000-01-01,1,1\n")),
    "json, a personal value": ({"format": "json"}, lines({"id": VALUE, "name": VALUE, "born": VALUE})),
    "json, another shape": ({"format": "json"}, lines({"id": VALUE, "score": {"x": VALUE}})),
    "json, no json": ({"format": "json"}, csv(f'{{"id": "{VALUE}", "name": {VALUE}\n')),
    "a cast": (
        {"format": "csv", "select": QUERY.replace("score", "cast(name AS int) AS score")},
        csv(GOOD),
    ),
    "an error that a query raises": (
        {"format": "csv", "select": QUERY.replace("score", "int(raise_error(concat(name, '!'))) AS score")},
        csv(GOOD),
    ),
    "a condition that does not fit": (
        {"format": "csv", "delete_when": f"id = '{VALUE}' AND born"},
        csv(GOOD),
    ),
    "a time that is parsed": (
        {"format": "csv", "select": QUERY.replace("cast(born AS date)", "to_timestamp(name, 'yyyy')")},
        csv(GOOD),
    ),
    "a map with a key twice": (
        {
            "format": "csv",
            "select": QUERY.replace("score", "map_from_arrays(array(name, id), array(1, 2))['x'] AS score"),
        },
        csv(GOOD),
    ),
    "a condition of deletes": (
        {"format": "csv", "delete_when": "int(raise_error(name)) = 1"},
        csv(GOOD),
    ),
    "a literal of a query": (
        {"format": "csv", "select": QUERY.replace("score", f"int('{VALUE}') AS score")},
        csv(GOOD),
    ),
    "parquet of another type": ({"format": "parquet"}, lambda path: pq.write_table(TEXTS, path)),
    "parquet, cut": (
        {"format": "parquet"},
        lambda path: path.write_bytes(b"PAR1" + VALUE.encode() * 9 + b"PAR1"),
    ),
    "orc of another type": ({"format": "orc"}, lambda path: orc.write_table(TEXTS, path)),
    "orc, cut": ({"format": "orc"}, lambda path: path.write_bytes(b"ORC" + VALUE.encode() * 9)),
}


def table(name: str, source: dict, columns: list[dict]) -> dict:
    landing = {"name": "landing", "path": f"landing/{name}/*", "operation": "upsert"} | source
    return {
        "apiVersion": "parquetry/v1",
        "kind": "table",
        "name": name,
        "columns": columns,
        "record_key": ["id"],
        "sources": [landing],
    }


def ran(
    root: Path, columns: list[dict], cases: Iterable[str] = tuple(CASES), *, log_format: str = "text"
) -> tuple[ProjectFolder, dict[str, str], subprocess.CompletedProcess[str]]:
    """Each of the cases as a table of one project, after one run: the errors by case, and what was printed."""
    folder = ProjectFolder.create(root / "shop")
    (folder.root / "tables/orders.yml").unlink()
    names = {f"t{number:02}": case for number, case in enumerate(cases)}
    for name, case in names.items():
        source, write = CASES[case]
        folder.write(f"tables/{name}.yml", table(name, source, columns))
        (folder.root / "landing" / name).mkdir()
        write(folder.root / "landing" / name / "a")
    applied = parquetry("apply", "--auto-approve", "-q", "-p", folder.root)
    assert applied.returncode == 0, applied.stderr
    formats = ("--format", "json", "--log-format", log_format)
    done = parquetry("run", "--only", "ingest", *formats, "-p", folder.root)
    jobs = json.loads(done.stdout)["jobs"]
    assert [job["table"] for job in jobs if not job["error"]] == []
    return folder, {names[job["table"]]: job["error"] for job in jobs}, done


def log_of(folder: ProjectFolder) -> Path:
    (log,) = folder.root.glob("target/runs/*/spark.log")
    return log


def test_what_is_wrong_is_told_without_the_rows(tmp_path):
    folder, errors, done = ran(tmp_path, COLUMNS)
    assert {case: error for case, error in errors.items() if VALUE in error} == {}
    assert VALUE not in done.stdout + done.stderr
    assert files_with(VALUE, [folder.root / "target"]) == []
    for case, error in errors.items():
        assert re.match(r"(tables/t\d\d\.yml:\d+:\d+: )?source landing of t\d\d: ", error), case
        assert "a bug" not in error
        assert "\u2063" not in error
    assert "/a cannot be read: line 2, column 'born': \"***\" is not date" in errors["csv, a personal cell"]
    assert (
        "[USER_RAISED_EXCEPTION] ***; correct the query or the data" in errors["an error that a query raises"]
    )
    said = log_of(folder).read_text()
    assert "[MALFORMED_RECORD_IN_PARSING" in said
    assert "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] ***" in said
    assert "\tat org.apache.spark.sql.catalyst.csv.UnivocityParser" in said


def test_without_personal_columns_values_and_traces_are_told(tmp_path):
    public = [{key: value for key, value in column.items() if key != "pii"} for column in COLUMNS]
    told = ("csv, a personal cell", "an error that a query raises", "a time that is parsed")
    cases = CASES if in_full() else told
    folder, errors, done = ran(tmp_path, public, cases, log_format="json")
    assert f"line 2, column 'born': \"{VALUE}\" is not date" in errors["csv, a personal cell"]
    assert f"{VALUE}!" in errors["an error that a query raises"]
    log = log_of(folder)
    assert VALUE in log.read_text()
    assert "\u2063" not in str(errors) + log.read_text()
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["log"] for line in lines if "log" in line] == [str(log)]
    assert sum(f"line 2, column 'born': \"{VALUE}\"" in line["message"] for line in lines) == 1


@pytest.mark.parametrize("program", ["python", pytest.param("spark-submit", marks=pytest.mark.long)])
def test_a_script_that_others_start_tells_no_row(program, tmp_path):
    source, write = CASES["an error that a query raises"]
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    folder.write("tables/people.yml", table("people", source, COLUMNS))
    assert parquetry("apply", "--auto-approve", "-q", "-p", folder.root).returncode == 0
    assert parquetry("compile", "-q", "-p", folder.root).returncode == 0
    (folder.root / "landing/people").mkdir()
    write(folder.root / "landing/people/a")
    done = subprocess.run(
        [Path(sys.executable).parent / program, folder.root / "target/jobs/people/ingest_landing.py"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "[USER_RAISED_EXCEPTION] ***; correct the query or the data" in done.stdout + done.stderr
    assert VALUE not in done.stdout + done.stderr


def test_rows_of_python_are_in_no_error(spark, tmp_path):
    columns = tuple(Column(name=c["name"], type=c["type"], pii=c.get("pii", False)) for c in COLUMNS)
    people = face.create(tmp_path / "people", TableSpec(name="people", columns=columns, record_key=("id",)))
    rows = [
        spark.range(1).selectExpr("'x' AS id", f"CAST(raise_error('{VALUE}') AS string) AS name"),
        pa.table({"id": ["x"], "score": [VALUE]}),
        pa.table({"id": ["x"], "born": [VALUE]}),
        pa.table({"id": ["x"], "score": pa.array([2**40], pa.int64())}).to_pandas(),
    ]
    for frame in rows:
        with pytest.raises(Exception, match="rows") as failure:
            people.upsert(frame)
        told = "".join(traceback.format_exception(failure.value))
        assert VALUE not in told
        assert str(2**40) not in told
