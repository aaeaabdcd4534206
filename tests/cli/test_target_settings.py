"""Settings of targets are planned, shown, allowed and applied: a branch cannot change unseen what runs execute."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from parquetry.compiler.errors import UnappliedError
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.runtime.main import run_document
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder

OPTIONS = "spark.driver.extraJavaOptions"
BLOCKED = 1
ATTACKS = {
    "java options": ({"spark": {"conf": {OPTIONS: "-javaagent:evil.jar"}}}, f"spark.conf.{OPTIONS}"),
    "executor's": (
        {"spark": {"conf": {"spark.executor.defaultJavaOptions": "-XX:OnError=x"}}},
        "spark.conf.spark.executor.defaultJavaOptions",
    ),
    "packages": ({"spark": {"packages": ["evil:evil:1"]}}, "spark.packages"),
    "python": ({"spark": {"conf": {"spark.pyspark.python": "./evil"}}}, "spark.conf.spark.pyspark.python"),
    "class name": (
        {"spark": {"conf": {"spark.sql.adaptive.customCostEvaluatorClass": "evil.Cost"}}},
        "spark.conf.spark.sql.adaptive.customCostEvaluatorClass",
    ),
    "known key": (
        {"spark": {"conf": {"spark.sql.shuffle.partitions": "1 -javaagent:x"}}},
        "spark.conf.spark.sql.shuffle.partitions",
    ),
    "arguments": ({"spark": {"submit_args": ["--jars", "evil.jar"]}}, "spark.submit_args"),
    "launcher": ({"spark": {"launcher": "spark-submit"}}, "spark.launcher"),
    "master": ({"spark": {"master": "spark://evil:7077"}}, "spark.master"),
    "endpoint": ({"storage": {"endpoint_url": "http://evil:9000"}}, "storage.endpoint_url"),
    "endpoint within": (
        {"storage": {"client_kwargs": {"endpoint_url": "http://evil:9000"}}},
        "storage.client_kwargs.endpoint_url",
    ),
    "dotted": ({"storage": {"client_kwargs.region": "x"}}, 'storage."client_kwargs.region"'),
    "default of a variable": (
        {"spark": {"conf": {OPTIONS: "{{ env_var('PARQUETRY_OPTIONS', '-javaagent:evil.jar') }}"}}},
        f"spark.conf.{OPTIONS}",
    ),
}


def parq(folder, *arguments):
    """A command on the project, which is to end in words."""
    result = CliRunner().invoke(command_line, [arguments[0], "--project", str(folder.root), *arguments[1:]])
    assert "Traceback" not in result.output, result.output
    return result


def target(folder, **changes):
    """Give the target of the project these keys."""
    dev = PROJECT["targets"]["dev"]
    spark = {**dev["spark"], **changes.pop("spark", {})}
    folder.project(targets={"dev": {**dev, "spark": spark, **changes}})


def value_at(attack, path):
    """The value in a target's mapping."""
    section, _, rest = path.partition(".")
    below = attack[section]
    if rest.startswith("conf."):
        return below["conf"][rest.removeprefix("conf.")]
    if rest.startswith('"'):
        return below[json.loads(rest)]
    for step in rest.split("."):
        below = below[step]
    return below


def allowing(attack, path, reason="it is ours"):
    return {**attack, "allow": [{"setting": path, "value": value_at(attack, path), "reason": reason}]}


def commit(folder):
    git = ["git", "-C", str(folder.root), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    if not (folder.root / ".git").exists():
        subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "parquetry.yml", "tables"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "one"], check=True)


@pytest.fixture
def folder(tmp_path):
    """A project whose table is applied and committed."""
    folder = ProjectFolder.create(tmp_path / "shop")
    commit(folder)
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    return folder


@pytest.mark.parametrize("name", ATTACKS)
def test_what_executes_is_shown_refused_and_goes_on_when_it_is_allowed_and_applied(folder, name):
    attack, path = ATTACKS[name]
    target(folder, **attack)

    planned = parq(folder, "plan", "--detailed-exitcode")
    assert planned.exit_code == BLOCKED
    assert "targets.dev  blocked SC702" in planned.output
    assert path in planned.output
    assert "parquetry.yml:" in planned.output

    differing = parq(folder, "diff", "--base", "HEAD", "--detailed-exitcode")
    assert differing.exit_code == 3
    assert f"{path}: " in differing.output
    assert "executes" in differing.output

    for command in (("run",), ("run", "--only", "services"), ("compile",), ("apply", "--auto-approve")):
        refused = parq(folder, *command)
        assert refused.exit_code == 1, refused.output
    for service in ("clean", "archive", "savepoint", "cluster"):
        refused = CliRunner().invoke(
            command_line, ["service", service, "orders", "--project", str(folder.root)]
        )
        assert refused.exit_code == 1
        assert "SC702" in refused.output
        assert path in refused.output
    with pytest.raises(UnappliedError, match="SC702"):
        parquetry.load(folder.root).table("orders")

    target(folder, **allowing(attack, path))
    planned = parq(folder, "plan", "--detailed-exitcode")
    assert planned.exit_code == 3
    assert "targets.dev  executes" in planned.output
    assert "allowed: it is ours" in planned.output
    assert "1 executes, 0 unchanged" in planned.output
    refused = parq(folder, "run")
    assert refused.exit_code == 1
    assert "SC702 parquetry.yml:" in refused.output
    assert "apply --target dev" in refused.output

    applied = parq(folder, "apply", "--auto-approve")
    assert applied.exit_code == 0, applied.output
    assert parq(folder, "plan", "--detailed-exitcode").exit_code == 0
    assert "SC702" not in parq(folder, "run").output


@pytest.mark.parametrize("name", ["packages", "endpoint", "arguments"])
def test_a_new_table_is_no_way_round(folder, name):
    attack, path = ATTACKS[name]
    folder.write("tables/items.yml", ORDERS | {"name": "items"})
    target(folder, **attack)
    planned = parq(folder, "plan", "--select", "items")
    assert planned.exit_code == BLOCKED
    assert path in planned.output
    target(folder, **allowing(attack, path))
    planned = parq(folder, "plan", "--select", "items")
    assert planned.exit_code == 0
    assert "apply records it in 1 table: items" in planned.output
    assert parq(folder, "apply", "--auto-approve", "--select", "items").exit_code == 0
    assert "SC702" in parq(folder, "run", "--select", "orders").output
    assert "SC702" not in parq(folder, "run", "--select", "items", "--only", "services").output


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("plan", "--due"),
        ("plan", "--select", "state:changed"),
        ("drift",),
        ("doctor",),
        ("inspect", "orders"),
        ("timeline", "orders"),
        ("unlock", "orders"),
    ],
    ids=" ".join,
)
def test_an_endpoint_that_is_not_allowed_is_sent_nothing(folder, command, monkeypatch):
    opened = []
    monkeypatch.setattr(
        "s3fs.core.S3FileSystem.__init__", lambda *_, **options: opened.append(options), raising=True
    )
    folder.project(
        targets={
            "dev": {
                "warehouse": "s3://lake/shop",
                "storage": {"key": "k", "secret": "s", "endpoint_url": "http://evil:9000"},
            }
        }
    )
    told = CliRunner().invoke(command_line, [*command, "--project", str(folder.root)])
    assert told.exit_code == BLOCKED, told.output
    assert "SC702" in told.output
    assert "storage.endpoint_url" in told.output
    assert "storage.endpoint_url: http://evil" not in told.output  # as if it were applied
    assert opened == []


def test_no_port_of_an_endpoint_hides_as_a_password(folder):
    """What is before ``#`` or ``?`` is the host that is asked; behind it ``@`` means nothing."""
    target(folder, storage={"endpoint_url": "http://evil:80#@lake.example"})
    assert "http://evil:80#@lake.example" in parq(folder, "plan").output
    target(folder, storage={"endpoint_url": "http://user:hidden@lake.example"})
    assert "hidden" not in parq(folder, "plan").output


def test_an_allowed_setting_is_allowed_with_its_value_alone(folder):
    attack, path = ATTACKS["packages"]
    first = allowing(attack, path)
    target(folder, **first)
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    changed = {"spark": {"packages": ["other:other:2"]}, "allow": first["allow"]}
    target(folder, **changed)
    planned = parq(folder, "plan")
    assert planned.exit_code == BLOCKED
    assert "evil:evil:1 -> other:other:2" in planned.output


def test_an_avro_source_adds_no_package_that_nobody_allowed(folder):
    """Its reader is one of the target's packages: named by `validate`, planned, and covered by the plan's id."""
    folder.orders(sources=[{"name": "landing", "format": "avro", "path": "landing/*.avro"}])
    warned = parq(folder, "validate")
    assert "PQ711" in warned.output and "no package of target 'dev' reads the Avro of source" in warned.output
    package = re.search(r"list (org\.apache\.spark:spark-avro_\S+) under spark\.packages", warned.output)[1]
    workspace = folder.workspace()
    assert {job.spark.packages for job in jobs_of(workspace, workspace.table("orders"))} == {()}

    def planned():
        plan = parq(folder, "plan", "--format", "json")
        return plan.exit_code, json.loads(plan.stdout)["plan_id"]

    without = planned()
    attack = {"spark": {"packages": [package]}}
    target(folder, **attack)
    assert "PQ711" not in parq(folder, "validate").output
    assert planned()[0] == BLOCKED
    shown = " ".join(parq(folder, "plan").output.split())
    assert "blocked SC702" in shown and f'value: ["{package}"]' in shown
    target(folder, **allowing(attack, "spark.packages"))
    assert planned()[0] == 0
    assert planned() != without
    workspace = folder.workspace()
    assert {job.spark.packages for job in jobs_of(workspace, workspace.table("orders"))} == {(package,)}


def test_what_executes_does_not_go_unseen_either(folder):
    attack, path = ATTACKS["endpoint"]
    target(folder, **allowing(attack, path))
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    folder.project()
    planned = parq(folder, "plan")
    assert planned.exit_code == BLOCKED
    assert "value: null" in planned.output
    assert "SC702" in parq(folder, "run").output
    target(folder, allow=[{"setting": path, "value": None, "reason": "back home"}])
    assert parq(folder, "plan").exit_code == 0
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    assert "SC601" in parq(folder, "plan").output


def test_an_entry_stays_as_long_as_the_setting(folder):
    attack, path = ATTACKS["endpoint"]
    target(folder, **allowing(attack, path))
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    target(folder, **attack)
    # What is read over an endpoint cannot vouch for it.
    assert parq(folder, "plan").exit_code == BLOCKED
    assert "SC702" in parq(folder, "run").output


def test_a_variable_is_no_way_round(folder):
    conf = {"spark.jars": "{{ var('jar') }}"}
    entry = {"setting": "spark.conf.spark.jars", "value": "{{ var('jar') }}", "reason": "ours"}
    dev = PROJECT["targets"]["dev"] | {"spark": {"conf": conf}, "allow": [entry]}
    folder.project(vars={"jar": "a.jar"}, targets={"dev": dev})
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    folder.project(vars={"jar": "evil.jar"}, targets={"dev": dev})
    planned = parq(folder, "plan", "--detailed-exitcode")
    assert "spark.conf.spark.jars: a.jar -> evil.jar" in planned.output
    assert planned.exit_code == 3
    assert "SC702" in parq(folder, "run").output


def test_harmless_settings_are_used_and_told(folder):
    target(folder, spark={"conf": {"spark.sql.shuffle.partitions": 400}}, budget={"per_run": "2GiB"})
    planned = parq(folder, "plan", "--detailed-exitcode")
    assert planned.exit_code == 3
    assert "targets.dev  policy" in planned.output
    assert "spark.conf.spark.sql.shuffle.partitions: (none) -> 400" in planned.output
    ran = parq(folder, "run")
    assert ran.exit_code == 0, ran.output
    assert "used as declared, not applied yet: budget.per_run is 2GiB, but nothing is applied" in " ".join(
        ran.output.split()
    )
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    assert "not applied yet" not in parq(folder, "run").output
    assert parq(folder, "plan", "--detailed-exitcode").exit_code == 0


def test_protection_that_goes_is_shown(folder):
    target(folder, protect=["orders"])
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    folder.project()
    planned = parq(folder, "plan", "--detailed-exitcode")
    assert planned.exit_code == 3
    assert "protect: orders -> (none)" in planned.output


def test_a_change_of_the_target_is_shown_once_for_all_tables(folder):
    for name in ("items", "parts", "sales"):
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name})
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    target(folder, spark={"conf": {"spark.executor.memory": "4g"}})
    text = parq(folder, "plan").output
    assert text.count("spark.executor.memory") == 1
    assert "in 4 tables: items, orders, parts and 1 more" in text


@pytest.mark.parametrize("shape", ["text", "json", "markdown", "html", "github"])
def test_saved_plans_show_the_target_in_every_shape(folder, shape):
    attack, path = ATTACKS["packages"]
    for mapping, marks in ((attack, ("SC702",)), (allowing(attack, path), ("it is ours", "executes"))):
        target(folder, **mapping)
        parq(folder, "plan", "--out", str(folder.root / "plan.json"))
        shown = (
            CliRunner()
            .invoke(command_line, ["show", str(folder.root / "plan.json"), "--format", shape])
            .output
        )
        assert path in shown
        assert "evil:evil:1" in shown
        for mark in marks:
            assert mark in shown or (shape == "github" and mark == "it is ours"), (shape, mark)


def test_a_saved_plan_is_applied_with_the_settings_that_it_shows(folder):
    target(folder, spark={"conf": {"spark.executor.memory": "4g"}})
    plan = folder.root / "plan.json"
    assert parq(folder, "plan", "--out", str(plan)).exit_code == 0
    before = json.loads(plan.read_text())["plan_id"]
    target(folder, spark={"conf": {"spark.executor.memory": "8g"}})
    refused = parq(folder, "apply", str(plan))
    assert refused.exit_code == 4
    assert "spark.conf.spark.executor.memory" in refused.output
    assert json.loads(parq(folder, "plan", "--format", "json").stdout)["plan_id"] != before


def test_compiled_jobs_refuse_what_is_not_applied(folder, capsys):
    attack, path = ATTACKS["packages"]
    target(folder, **allowing(attack, path))
    assert parq(folder, "compile").exit_code == 0
    job = folder.root / "target/jobs/orders/clean.json"
    assert run_document(json.loads(job.read_text()), folder=str(job.parent)) == 4
    assert f"SC702 file://{folder.root}/warehouse/orders: the target's {path}" in capsys.readouterr().err
    assert parq(folder, "apply", "--auto-approve").exit_code == 0
    assert run_document(json.loads(job.read_text()), folder=str(job.parent)) == 0


def test_records_hold_no_secret(folder):
    storage = {
        "key": "{{ env_var('PARQUETRY_SECRET_KEY') }}",
        "secret": "written-out",
        "endpoint_url": "http://me:hidden@lake:9000",
    }
    entry = {"setting": "storage.endpoint_url", "value": "http://me:hidden@lake:9000", "reason": "ours"}
    target(folder, storage=storage, allow=[entry])
    runner = CliRunner(env={"PARQUETRY_SECRET_KEY": "from-outside"})
    options = ["--project", str(folder.root)]
    planned = runner.invoke(command_line, ["plan", *options])
    applied = runner.invoke(command_line, ["apply", *options, "--auto-approve"])
    assert applied.exit_code == 0, applied.output
    settings = read_applied(open_store(folder.table)).ref.settings
    assert settings["storage.key"] == "{{ env_var('PARQUETRY_SECRET_KEY') }}"
    assert settings["storage.secret"] == "***"
    assert settings["storage.endpoint_url"] == "http://me:***@lake:9000"
    text = planned.output + applied.output + json.dumps(settings)
    assert not [word for word in ("written-out", "hidden", "from-outside") if word in text]
    # A difference of revisions sees that a password changed, and does not say what it is.
    commit(folder)
    target(folder, storage=storage | {"secret": "another"}, allow=[entry])
    differing = parq(folder, "diff", "--base", "HEAD", "--detailed-exitcode")
    assert differing.exit_code == 3
    assert "storage.secret: *** -> ***" in differing.output


@pytest.mark.parametrize(
    ("section", "option", "shown"),
    [
        (
            "storage",
            {"connection_string": "AccountName=lake;AccountKey=hidden=="},
            "AccountName=lake;AccountKey=***",
        ),
        ("storage", {"account_key": "hidden"}, "***"),
        ("storage", {"client_kwargs": {"sas_token": "hidden"}}, "***"),
        ("spark", {"conf": {"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "hidden"}}, "***"),
        (
            "spark",
            {"submit_args": ["--conf", "spark.hadoop.fs.s3a.access.key=hidden"]},
            "spark.hadoop.fs.s3a.access.key=***",
        ),
    ],
    ids=["connection string", "account key", "below", "property", "argument"],
)
def test_a_secret_that_is_written_out_is_in_no_plan_and_no_difference(folder, section, option, shown):
    target(folder, **{section: option})
    plan = folder.root / "plan.json"
    planned = parq(folder, "plan", "--out", str(plan))
    differing = parq(folder, "diff", "--base", "HEAD", "--detailed-exitcode")
    assert shown in planned.output
    assert shown in differing.output
    told = planned.output + differing.output
    for shape in ("text", "json", "markdown", "html", "github"):
        told += parq(folder, "plan", "--format", shape).output
        if plan.exists():
            told += CliRunner().invoke(command_line, ["show", str(plan), "--format", shape]).output
    assert "hidden" not in told + (plan.read_text() if plan.exists() else "")
    # That it changed is seen between revisions.
    commit(folder)
    target(folder, **json.loads(json.dumps({section: option}).replace("hidden", "another")))
    changed = parq(folder, "diff", "--base", "HEAD", "--detailed-exitcode")
    assert changed.exit_code == 3
    assert "another" not in changed.output


def test_a_difference_shows_every_target(folder):
    prod = {"warehouse": "./prod"}
    folder.project(targets=PROJECT["targets"] | {"prod": prod})
    commit(folder)
    attack, path = ATTACKS["arguments"]
    folder.project(default_target="prod", targets=PROJECT["targets"] | {"prod": prod | attack})
    differing = parq(folder, "diff", "--base", "HEAD", "--target", "dev", "--detailed-exitcode")
    assert differing.exit_code == 3
    assert "targets.prod" in differing.output
    assert f"blocked: {path} needs an allow entry" in differing.output
    assert "default_target: dev -> prod" in differing.output
    document = json.loads(parq(folder, "diff", "--base", "HEAD", "--format", "json").stdout)
    assert [entry["target"] for entry in document["targets"]] == ["prod"]


def test_a_record_has_the_settings_of_its_target(folder):
    assert read_applied(open_store(folder.table)).ref.settings == {"spark.master": "local[2]"}


def test_entries_have_a_setting_a_value_and_a_reason(folder):
    for entry in ({"setting": "storage.x", "value": 1}, {"setting": "storage.x", "reason": "r"}):
        target(folder, allow=[entry])
        assert parq(folder, "validate").exit_code == 1
    target(folder, allow=[{"setting": "storage.x", "value": 1, "reason": "{{ env_var('HOME') }}"}])
    refused = parq(folder, "validate")
    assert "PQ208" in refused.output


@pytest.mark.parametrize(
    "attack",
    [
        {"spark": {"submit_args": ["--jars", "a'b\".jar", "#x"]}},
        {"spark": {"submit_args": ["--conf", "spark.x.password={{ env_var('DATABASE_PW') }}"]}},
        {"spark": {"submit_args": ["--conf=spark.x.y={{ env_var('PARQUETRY_SECRET_KEY') }}"]}},
        {"spark": {"conf": {"spark.x.password": "{{ env_var('DATABASE_PW') }}"}}},
        {"storage": {"client_kwargs": {"aws_session_token": "{{ env_var('DATABASE_PW') }}"}}},
    ],
)
def test_the_remedy_can_be_pasted(folder, attack, monkeypatch):
    for name in ("DATABASE_PW", "PARQUETRY_SECRET_KEY"):
        monkeypatch.setenv(name, "hunter2")
    target(folder, **attack)
    document = json.loads(parq(folder, "plan", "--format", "json").stdout)
    remedy = document["intent"]["blocked"][0]["remedy"]
    entries = yaml.safe_load(remedy[remedy.index("allow: ") :])["allow"]
    target(folder, **attack, allow=entries)
    planned = parq(folder, "plan")
    assert planned.exit_code == 0, planned.output
    assert "hunter2" not in planned.output


def test_what_is_allowed_reads_no_secret_that_the_setting_may_not_read(folder):
    """What stands beside a word in the entry decides, not what stands in the setting."""
    arguments = ["--conf", "spark.x.password={{ env_var('PARQUETRY_SECRET_KEY') }}"]
    entry = {"setting": "spark.submit_args", "value": ["--name", arguments[1]], "reason": "ours"}
    target(folder, spark={"submit_args": arguments}, allow=[entry])
    assert "PQ205" in parq(folder, "validate").output
