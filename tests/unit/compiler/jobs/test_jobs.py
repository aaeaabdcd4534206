"""Jobs, their requirements and their scripts."""

from __future__ import annotations

import ast
import json
import re
import stat
import subprocess
import sys
from dataclasses import replace

import pytest

import parquetry
from parquetry.compiler.jobs.manifest import compile_project
from parquetry.compiler.jobs.scripts import render_job
from parquetry.compiler.security.secrets import reference, references, revealed
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.errors import UsageError
from parquetry.project.validation.interpolate import Secret
from parquetry.runtime.apply.requirements import check_requirements
from parquetry.runtime.errors import InvalidDataError, StalePlanError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements, SparkSettings, resolve_environment
from parquetry.runtime.spec.table_spec import Column, Source, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.timeline.effective_writes import EffectiveWrites, WriteState
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import FAST, SmallTable, make_table

SPEC = TableSpec(
    name="t",
    columns=(Column(name="a", type="int"),),
    sources=(Source(name="in", format="csv", path="in/'\"\\*.csv", select='SELECT "quoted" \\ FROM source'),),
)
JOB = JobPlan(
    kind=JobKind.INGEST,
    project="p",
    target="dev",
    table="t",
    location="/w/t",
    directory="/p",
    requirements=Requirements(exists=True, applied_digest="sha256:x"),
    spec=SPEC,
    source="in",
    storage={"key": {"environment_text": "${KEY}"}},
    spark=SparkSettings(master="local[2]", conf={"spark.a": "1"}, packages=("g:a:1",)),
)


def test_a_job_round_trips_through_json():
    assert JobPlan.from_json(json.loads(json.dumps(JOB.to_json()))) == JOB


def test_a_job_of_another_version_or_shape_is_refused():
    with pytest.raises(StalePlanError, match="version 2 is not 1"):
        JobPlan.from_json(JOB.to_json() | {"version": 2})
    with pytest.raises(InvalidDataError, match=r"job\.more: unknown key"):
        JobPlan.from_json(JOB.to_json() | {"more": 1})
    with pytest.raises(InvalidDataError, match=r"job\.requirements\.exists"):
        JobPlan.from_json(JOB.to_json() | {"requirements": {"exists": "yes"}})


def script_of(job):
    return render_job(job, file=f"{job.name}.py", package="../parquetry.zip")


def test_a_script_is_python_that_holds_exactly_its_job():
    tree = ast.parse(script_of(JOB))
    (assigned,) = [node for node in tree.body if isinstance(node, ast.Assign)]
    assert JobPlan.from_json(ast.literal_eval(assigned.value)) == JOB
    assert "Ingest source in into table t." in ast.get_docstring(tree)


def test_every_job_of_a_project_renders(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    workspace = folder.workspace()
    jobs = jobs_of(workspace, workspace.table("orders"))
    assert [job.name for job in jobs] == ["create", "ingest_landing", "clean"]
    for job in jobs:
        assert ast.get_docstring(ast.parse(script_of(job)))


def test_compiled_scripts_have_relative_paths_and_name_what_is_there(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    written = compile_project(folder.workspace()).files
    assert {str(path) for path in written} >= {"target/manifest.json", "target/jobs/parquetry.zip"}
    for path in written:
        full = folder.root / path
        if path.suffix in (".py", ".json"):
            assert str(tmp_path) not in full.read_text()
        if path.suffix == ".py":
            named = re.findall(r"[\w./]+\.(?:zip|py)\b", ast.get_docstring(ast.parse(full.read_text())))
            assert len(named) == 2
            assert all((full.parent / name).is_file() for name in named)


def test_what_is_compiled_is_its_owners_alone(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    written = [folder.root / path for path in compile_project(folder.workspace()).files]
    texts = [path for path in written if path.suffix in (".json", ".py")]
    assert len(texts) > 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in texts} == {0o600}
    assert stat.S_IMODE((folder.root / "target/jobs/orders").stat().st_mode) == 0o700


def test_compiled_scripts_run_from_any_folder_and_after_the_project_has_moved(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    compile_project(folder.workspace())
    moved = (folder.root).rename(tmp_path / "moved project")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    jobs = moved / "target" / "jobs" / "orders"
    for command in (
        [jobs / "create.py"],
        [jobs / "clean.py"],
        ["-m", "parquetry.runtime", jobs / "clean.json"],
    ):
        done = subprocess.run(
            [sys.executable, *map(str, command)], cwd=elsewhere, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert list(elsewhere.iterdir()) == []
    table = moved / parquetry.load(moved).tables["orders"]
    assert (table / ".hoodie" / "hoodie.properties").is_file()
    relative = subprocess.run(
        [sys.executable, "clean.py"], cwd=jobs, capture_output=True, text=True, check=False
    )
    assert relative.returncode == 0, relative.stderr


@pytest.mark.parametrize(
    ("directory", "location", "expected"),
    [
        ("../../..", "warehouse/t", ("/p", "/p/warehouse/t")),
        ("../../..", "../lake/t", ("/p", "/lake/t")),
        ("../../..", "s3://b/t", ("/p", "s3://b/t")),
        ("/q", "/w/t", ("/q", "/w/t")),
    ],
)
def test_paths_of_a_job_start_at_its_file(directory, location, expected):
    placed = replace(JOB, directory=directory, location=location).with_absolute_paths("/p/target/jobs/t")
    assert (placed.directory, placed.location) == expected


def secret(template, text):
    return Secret(masked="***", template=template, names=("PARQUETRY_SECRET_KEY",), _text=text)


def test_secrets_are_revealed_to_stores_and_referred_to_in_writing():
    options = {
        "key": secret("a {{ env_var('PARQUETRY_SECRET_KEY') }}", "a s3cret"),
        "nested": {"list": [1, "x"]},
    }
    assert revealed(options)["key"] == "a s3cret"
    written = references(options)
    assert "s3cret" not in json.dumps(written)
    assert resolve_environment(written, {"PARQUETRY_SECRET_KEY": "s3cret"}) == revealed(options)
    with pytest.raises(StalePlanError, match="PARQUETRY_SECRET_KEY, which is not set"):
        resolve_environment(written, {})


def test_a_secret_that_is_more_than_a_variable_cannot_go_into_a_job():
    with pytest.raises(UsageError, match="env_var") as failure:
        reference(secret("{{ env_var('PARQUETRY_SECRET_KEY') | upper }}", "X"))
    assert str(failure.value).startswith("PARQUETRY_SECRET_KEY: the value is a secret")


def test_requirements_are_met_or_named(tmp_path):
    store = open_store(tmp_path / "t")
    check_requirements(store, Requirements(exists=False))
    with pytest.raises(StalePlanError, match="a table was expected, but none exists"):
        check_requirements(store, Requirements(exists=True))
    handle = create_table(store, SPEC, project="p")
    with pytest.raises(StalePlanError, match="no table was expected"):
        check_requirements(store, Requirements(exists=False))
    digest = digest_of(SPEC.to_json())
    write_applied(store, SPEC, number=1)
    check_requirements(
        store,
        Requirements(exists=True, table_id=handle.table_id, applied_number=1, applied_digest=digest),
    )
    for wrong, what in (
        ({"table_id": "other"}, "table id"),
        ({"applied_number": 0}, "record 1 is applied, but record 0 was expected"),
        ({"applied_digest": "sha256:0"}, "its spec differs from the expected"),
        ({"minimum_parquetry": "99.0"}, "parquetry 99.0 or newer"),
    ):
        with pytest.raises(StalePlanError, match=what):
            check_requirements(store, Requirements(exists=True, **wrong))


def test_instants_count_while_they_are_in_effect(tmp_path):
    table = make_table(tmp_path / "t")
    assert isinstance(table, SmallTable)
    kept = table.upsert({"a": (1, "x")}).instant
    rolled_back = table.upsert({"a": (2, "x")}).instant
    from parquetry.runtime.services.rollback import rollback

    rollback(table.handle, rolled_back, timing=FAST)
    handle = open_table(table.store)
    effective = EffectiveWrites(handle.timeline())
    assert effective.state_of(kept) is WriteState.COMPLETED
    assert effective.state_of(rolled_back) is WriteState.NOT_IN_EFFECT


def test_archived_instants_still_count(tmp_path):
    from parquetry.runtime.services.archive import archive
    from parquetry.runtime.services.clean import clean
    from parquetry.runtime.spec.table_spec import RetentionPolicy

    table = make_table(tmp_path / "t")
    times = [table.upsert({"a": (n, "x")}).instant for n in range(6)]
    policy = RetentionPolicy(keep_commits=1, archive_keep_commits=2)
    clean(table.handle, policy=policy, timing=FAST)
    archive(table.handle, policy=policy, timing=FAST)
    handle = open_table(table.store)
    timeline = handle.timeline()
    assert not timeline.contains(times[0])
    effective = EffectiveWrites(timeline)
    assert all(effective.counts(time) for time in times)
    assert effective.state_of(times[0]) is WriteState.SETTLED
    assert effective.state_of(times[-1]) is WriteState.COMPLETED
