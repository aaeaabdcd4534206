"""Specs from a manifest of dbt: what they say, what stays in them, and what no manifest can do."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import ANY

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.spec_files.dbt_manifest import read_manifest
from tests.support.project_folder import PROJECT

MANIFEST = Path(__file__).with_name("dbt_manifest.json")
"""The manifest that `dbt parse` makes of tests/interop/dbt_project, without the keys that are not read."""

ORDERS, CUSTOMERS, NOTES = "model.shop.orders", "model.shop.customers", "model.shop.notes"


@pytest.fixture
def dbt(tmp_path):
    return Dbt(tmp_path)


class Dbt:
    """A manifest that a test edits, and the project that gets its specs."""

    def __init__(self, folder):
        self.root = folder / "lake"
        self.root.mkdir()
        (self.root / "parquetry.yml").write_text(yaml.safe_dump(PROJECT, sort_keys=False))
        self.file = folder / "manifest.json"
        self.manifest = json.loads(MANIFEST.read_text())
        del self.nodes[NOTES]

    @property
    def nodes(self):
        return self.manifest["nodes"]

    def meta(self, model):
        return self.nodes[model]["config"]["meta"]["parquetry"]

    def init(self, *options):
        self.file.write_text(json.dumps(self.manifest))
        command = ["init", str(self.root), "--from-dbt", str(self.file), "--format", "json", *options]
        done = CliRunner().invoke(command_line, command)
        assert done.exit_code in (0, 1, 3), done.output
        return done.exit_code, json.loads(done.stdout)

    def reason(self, model):
        """The reason why a model is left out, of which nothing was written."""
        before = self.files()
        exit_code, answer = self.init()
        assert exit_code == 1
        (found,) = (each for each in answer["left_out"] if each["model"].strip('"') == model)
        assert not [path for path in self.files() if path not in before and "orders" in path]
        return found["reason"]

    def files(self):
        top = self.root.parent
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def path(self, table="orders"):
        return self.root / "tables" / f"{table}.yml"

    def spec(self, table="orders"):
        return yaml.safe_load(self.path(table).read_text())

    def edit(self, old, new, table="orders"):
        text = self.path(table).read_text()
        assert old in text
        self.path(table).write_text(text.replace(old, new))


def parquetry(*arguments):
    return CliRunner().invoke(command_line, [str(each) for each in arguments])


def test_models_become_specs(dbt):
    (dbt.root / "parquetry.yml").unlink()
    exit_code, answer = dbt.init()
    assert exit_code == 0
    assert {"parquetry.yml", "tables/orders.yml", "tables/customers.yml"} <= {*answer["files"]}
    assert dbt.path().read_text().startswith("# yaml-language-server: $schema=../schemas/table.json\n")
    assert not dbt.path("days").exists()  # a view
    assert not dbt.path("scratch").exists()  # meta.parquetry: false
    spec = dbt.spec()
    assert spec["record_key"] == ["order_id"]
    assert (spec["ordering"], spec["partition_by"], spec["owner"]) == ("updated_at", ["order_day"], "sales")
    assert spec["columns"] == [
        {"name": "order_id", "type": "bigint", "nullable": False},
        {"name": "customer_id", "type": "bigint"},
        {"name": "state", "type": "string", "description": "As { { state }} of the shop"},
        {"name": "amount", "type": "decimal(12,2)"},
        {"name": "updated_at", "type": "timestamp"},
        {"name": "order_day", "type": "date"},
    ]
    assert [{**test, "name": None} for test in spec["tests"]] == [
        {"name": None, "not_null": ["order_id"], "severity": "warn"},
        {"name": None, "unique": ["order_id"]},
        {"name": None, "relationships": {"columns": ["customer_id"], "to": "customers"}},
        {"name": None, "accepted_values": {"column": "state", "values": ["open", "paid", "no"]}},
    ]
    assert dbt.spec("customers")["columns"][1]["pii"] is True
    (note,) = answer["notes"]
    assert "its where selects rows" in note
    for command in (("validate",), ("fmt", "--check"), ("plan",)):
        assert parquetry(*command, "--project", dbt.root).exit_code == 0


def test_nothing_changes_without_a_change_in_dbt(dbt):
    dbt.init()
    before = dbt.files()
    assert dbt.init("--check") == (0, {**dbt.init()[1], "files": []})
    assert dbt.files() == before


def test_hand_written_parts_and_comments_stay(dbt):
    dbt.init()
    dbt.edit("owner: sales", "owner: someone else # asked twice\nretention: {clean: {keep_commits: 7}}")
    dbt.edit("\ncolumns:", "\ncolumns: # in the order of the files")
    dbt.edit("{name: customer_id, type: bigint}", "{name: customer_id, type: LONG, pii: true} # a person")
    dbt.edit("small_file_limit: 32MiB}", "small_file_limit: 32MiB, min_fill: 0.1}")
    dbt.edit("tests:", "tests:\n  # by hand\n  - {name: mine, not_null: [amount]}")
    dbt.edit("queries:", "queries:\n  - {name: by-hand, where: amount > 5}")
    columns = dbt.nodes[ORDERS]["columns"]
    columns["amount"]["data_type"] = "decimal(14,2)"
    columns["amount"]["description"] = "Before: tax, {% now %}"
    del columns["state"]
    columns["city"] = {"name": "city", "data_type": "text"}
    accepted = next(name for name in dbt.nodes if "accepted_values" in name)
    del dbt.nodes[accepted]
    assert dbt.init("--check") == (3, ANY)
    exit_code, answer = dbt.init()
    assert (exit_code, answer["files"], answer["unchanged"]) == (0, ["tables/orders.yml"], 1)
    text, spec = dbt.path().read_text(), dbt.spec()
    for kept in ("# asked twice", "# in the order of the files", "# a person", "  # by hand"):
        assert kept in text
    assert spec["owner"] == "sales"
    assert spec["retention"] == {"clean": {"keep_commits": 7}}
    assert spec["sizing"] == {"max_file_size": "64MiB", "small_file_limit": "32MiB", "min_fill": 0.1}
    assert [query["name"] for query in spec["queries"]] == ["by-hand", "of-a-customer"]
    assert {"name": "customer_id", "type": "LONG", "pii": True} in spec["columns"]
    assert {"name": "amount", "type": "decimal(14,2)", "description": "Before: tax, { % now %}"} in spec[
        "columns"
    ]
    names = ["order_id", "customer_id", "amount", "updated_at", "order_day", "city"]
    assert [column["name"] for column in spec["columns"]] == names
    assert spec["tests"][0] == {"name": "mine", "not_null": ["amount"]}
    assert len(spec["tests"]) == 4
    assert dbt.init("--check")[0] == 0


def test_the_check_writes_nothing(dbt):
    dbt.init()
    dbt.nodes[ORDERS]["description"] = "Another."
    before = dbt.files()
    exit_code, answer = dbt.init("--check")
    assert (exit_code, answer["files"]) == (3, ["tables/orders.yml"])
    assert {path: data for path, data in dbt.files().items() if "lake" in path} == {
        path: data for path, data in before.items() if "lake" in path
    }


def test_a_model_that_is_gone_leaves_its_spec(dbt):
    dbt.init()
    del dbt.nodes[CUSTOMERS]
    exit_code, answer = dbt.init("--check")
    assert (exit_code, answer["gone"]) == (3, ["tables/customers.yml"])
    # The relationship to it is no test of the project now.
    assert dbt.init()[1]["files"] == ["tables/orders.yml"]
    assert dbt.path("customers").exists()


def test_a_spec_that_was_written_by_hand_is_not_changed(dbt):
    dbt.init()
    dbt.edit(f"# dbt: {ORDERS}\n", "")
    dbt.nodes[ORDERS]["description"] = "Another."
    before = dbt.path().read_text()
    exit_code, answer = dbt.init()
    (left_out,) = answer["left_out"]
    assert exit_code == 1
    assert f"add the line # dbt: {ORDERS}" in left_out["reason"]
    assert dbt.path().read_text() == before


def test_a_renamed_table_keeps_its_model(dbt):
    dbt.init()
    assert parquetry("rename", "customers", "people", "--project", dbt.root).exit_code == 0
    assert dbt.init("--check")[0] == 0
    assert dbt.spec()["tests"][2]["relationships"]["to"] == "people"


def test_an_empty_value_removes_nothing(dbt):
    """Otherwise a manifest could end the encryption of a table."""
    dbt.init()
    dbt.edit("owner: sales", "owner: sales\nfiles: {encryption_key: env:LAKE_KEY}")
    before = dbt.path().read_text()
    dbt.meta(ORDERS).update(files=None, queries=[], sizing={})
    assert dbt.init("--check")[0] == 0
    assert dbt.path().read_text() == before


@pytest.mark.parametrize("has_mark", [True, False])
def test_a_relationship_stays_while_the_other_model_is_left_out(dbt, has_mark):
    dbt.init()
    before = dbt.path().read_text()
    dbt.nodes[CUSTOMERS]["columns"]["email"]["data_type"] = None
    if not has_mark:
        dbt.edit(f"# dbt: {CUSTOMERS}\n", "", "customers")
    exit_code, answer = dbt.init()
    assert (exit_code, [each["model"] for each in answer["left_out"]]) == (1, [CUSTOMERS])
    assert not any("relationships" in note for note in answer["notes"])
    assert dbt.path().read_text() == before


def rename_columns(dbt, spelled):
    """Spell the names of columns otherwise, in models and in tests."""
    for node in dbt.nodes.values():
        if node["resource_type"] == "model":
            node["columns"] = {
                spelled(name): {**column, "name": spelled(name)} for name, column in node["columns"].items()
            }
        elif node["resource_type"] == "test":
            kwargs = node["test_metadata"]["kwargs"]
            kwargs |= {key: spelled(kwargs[key]) for key in ("column_name", "field") if key in kwargs}


def test_names_of_columns_are_compared_without_case(dbt):
    """Snowflake lists names in capitals; the spec keeps its spelling, and what it says of the columns."""
    dbt.init()
    for node in (ORDERS, CUSTOMERS):
        for column in dbt.nodes[node]["columns"].values():
            column["meta"] = column["config"]["meta"] = {}
    before = {table: dbt.spec(table) for table in ("orders", "customers")}
    rename_columns(dbt, str.upper)
    dbt.meta(ORDERS)["partition_by"] = ["ORDER_DAY"]
    assert dbt.init()[0] == 0
    for table, spec in before.items():
        new = dbt.spec(table)
        assert [{**test, "name": None} for test in new.pop("tests")] == [
            {**test, "name": None} for test in spec.pop("tests")
        ]
        assert new == spec
    email = dbt.spec("customers")["columns"][1]
    assert (email["name"], email["pii"]) == ("email", True)
    assert dbt.init("--check")[0] == 0


def test_one_spec_has_another_spelling_than_the_other(dbt):
    """A relationship names the column of each spec as that one spells it."""
    dbt.init()
    dbt.path().unlink()
    rename_columns(dbt, str.upper)
    assert dbt.init()[0] == 0
    related = next(test["relationships"] for test in dbt.spec()["tests"] if "relationships" in test)
    assert related == {"columns": ["CUSTOMER_ID"], "to": "customers", "to_columns": ["customer_id"]}
    assert parquetry("validate", "--project", dbt.root).exit_code == 0


def test_two_columns_that_differ_in_case_are_refused(dbt):
    dbt.nodes[ORDERS]["columns"]["STATE"] = {"name": "STATE", "data_type": "text"}
    assert "two columns are STATE" in dbt.reason(ORDERS)


@pytest.mark.parametrize("key", ["pii: true", "generated: upper(state)"])
def test_a_column_with_keys_of_the_spec_is_not_removed(dbt, key):
    """Renamed in dbt, it would come back without them."""
    dbt.init()
    dbt.edit("{name: state, type: string,", "{name: state, type: string, " + key + ",")
    before = dbt.path().read_text()
    columns = dbt.nodes[ORDERS]["columns"]
    columns["status"] = {**columns.pop("state"), "name": "status"}
    line = before[: before.index("name: state")].count("\n") + 1
    reason = dbt.reason(ORDERS)
    assert f"tables/orders.yml, line {line}: the model no longer lists column state" in reason
    assert key.partition(":")[0] in reason
    assert dbt.path().read_text() == before


def test_columns_in_another_file_are_not_replaced(dbt):
    dbt.init()
    text = dbt.path("customers").read_text()
    start = text.index("columns:")
    (dbt.root / "customers.avsc").write_text(
        '{"type": "record", "name": "c", "fields": [{"name": "customer_id", "type": "long"}]}'
    )
    dbt.path("customers").write_text(
        f"{text[:start]}columns: {{file: customers.avsc}}\nrecord_key: [customer_id]\n"
    )
    assert "the columns are not listed there" in dbt.reason(CUSTOMERS)


def test_an_older_form_of_meta_is_read(dbt):
    """Before dbt 1.10, the meta of columns was not in their config."""
    column = dbt.nodes[CUSTOMERS]["columns"]["email"]
    column["meta"] = column.pop("config")["meta"]
    dbt.init()
    assert dbt.spec("customers")["columns"][1]["pii"] is True


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("../../outside", "cannot be the name of a table"),
        ("/tmp/outside", "cannot be the name of a table"),
        ("orders\n", "cannot be the name of a table"),
        ('x"; rm', "cannot be the name of a table"),
        ("{{ env_var('HOME') }}", "contains a template"),
        ("parquetry.yml", "cannot be the name of a table"),
        ("CUSTOMERS", "is not its spec"),
    ],
)
def test_a_name_leads_nowhere_else(dbt, name, part):
    dbt.meta(ORDERS)["name"] = name
    assert (part if name != "CUSTOMERS" else "another model is table") in dbt.reason(ORDERS)
    dbt.meta(ORDERS).pop("name")
    dbt.nodes[ORDERS]["alias"] = name
    if "{{" not in name:
        assert part in dbt.reason(ORDERS)


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("owner", "{{ env_var('AWS_SECRET_ACCESS_KEY') }}", "contains a template"),
        ("queries", [{"name": "q", "where": "amount > {% if true %}1"}], "contains a template"),
        ("policy", {"{# a #}": "x"}, "contains a template"),
        ("location", "/etc/x", "location"),
        ("location", None, "location"),
        ("files", {"encryption_key": "env:AWS_SECRET_ACCESS_KEY"}, "files.encryption_key"),
        ("files", {"encryption_key": None}, "files.encryption_key"),
        ("files", {"former_encryption_keys": ["file:/etc/x"]}, "files.former_encryption_keys"),
        ("sources", [{"name": "a", "encryption_keys": ["env:HOME"]}], "sources.encryption_keys"),
        ("clustering", {"plan": {"strategy": "theirs"}}, "clustering.plan.strategy"),
        ("clustering", {"execution": {"strategy": "theirs"}}, "clustering.execution.strategy"),
        ("columns", [], '"columns"'),
        ("tests", [], '"tests"'),
        ("apiVersion", "x", '"apiVersion"'),
        ("record_keys", ["order_id"], "record_key"),
        ("record_key", ["no"], "PQ"),
        ("sizing", {"max_file_size: 1, x": 1}, "PQ102"),
        ("queries", [{"name": "q", "where": "(select 1)"}], "PQ"),
    ],
)
def test_meta_cannot_say_what_no_spec_may(dbt, key, value, part):
    dbt.meta(ORDERS)[key] = value
    reason = dbt.reason(ORDERS)
    assert part in reason
    if key in ("location", "files", "sources", "clustering"):
        assert "declare it in the spec" in reason


@pytest.mark.parametrize(
    "text",
    [
        "x\n- {name: injected, type: int}",
        "a: b # c",
        "'\"\\ \x00\x1b[31m\u202e\u2028\ufeff",
        "*alias &anchor !!python/object:os.system",
        "{{{{%# %}",
        "---\n...",
        "\ud800",
        "${HOME} $(id) `id`",
    ],
)
def test_descriptions_are_texts(dbt, text):
    """The spec has the text of any description, or the model is left out."""
    dbt.nodes[ORDERS]["description"] = text
    dbt.nodes[ORDERS]["columns"]["amount"]["description"] = text
    exit_code, answer = dbt.init()
    if exit_code == 0:
        apart = text.strip().replace("{{", "{ {").replace("{{", "{ {").replace("{%", "{ %")
        assert dbt.spec()["columns"][3]["description"] == apart
        assert dbt.spec()["description"] == apart
        assert dbt.init("--check")[0] == 0
    else:
        assert "\ud800" in text or "\x00" in text
        assert [each["model"] for each in answer["left_out"]] == [ORDERS]
    assert parquetry("validate", "--project", dbt.root).exit_code == 0


@pytest.mark.parametrize(
    ("data_type", "adapter", "expected"),
    [
        ("VARCHAR(20)", "postgres", "string"),
        ("double precision", "postgres", "double"),
        ("timestamp(6) with time zone", "postgres", "timestamp"),
        ("timestamp", "postgres", "timestamp"),
        ("NUMBER(38, 0)", "snowflake", "decimal(38,0)"),
        ("array<struct<a:int,b:string>>", "spark", "array<struct<a:int,b:string>>"),
        ("float", "spark", "float"),
        ("decimal", "databricks", "decimal(10,0)"),
        ("float", "postgres", None),
        ("numeric", "postgres", None),
        ("int", "snowflake", None),
        ("int", "unknown", None),
        ("integer", "oracle", None),
        ("INT64", "bigquery", "bigint"),
        ("int4", "postgres", "int"),
        ("tinyint", "sqlserver", None),
        ("tinyint", "duckdb", "tinyint"),
        ("byte", "teradata", None),
        ("real", "snowflake", None),
        ("float4", "mysql", None),
        ("real", "postgres", "float"),
        ("double precision", "oracle", None),
        ("date", "oracle", None),
        ("date", "snowflake", "date"),
        ("timestamp", "sqlserver", None),
        ("array<int>", "bigquery", None),
        ("struct<a int>", "bigquery", None),
        ("struct<a: int>", "bigquery", None),
        ("enum('a', 'b')", "mysql", None),
        ("uuid", "postgres", None),
        ("", "postgres", None),
        (None, "postgres", None),
        ("bigint\n, injected: {}", "postgres", None),
    ],
)
def test_types(dbt, data_type, adapter, expected):
    dbt.manifest["metadata"]["adapter_type"] = adapter
    dbt.nodes[ORDERS]["columns"] = {
        name: column for name, column in dbt.nodes[ORDERS]["columns"].items() if name == "order_id"
    }
    dbt.nodes[ORDERS]["config"]["meta"] = {"parquetry": {}}
    dbt.nodes[ORDERS]["meta"] = {}
    dbt.nodes[ORDERS]["columns"]["order_id"]["data_type"] = data_type
    if expected is None:
        assert "column order_id" in dbt.reason(ORDERS)
        dbt.nodes[ORDERS]["columns"]["order_id"]["meta"] = {"parquetry": {"type": "bigint"}}
        expected = "bigint"
    answer = dbt.init()[1]
    assert dbt.spec()["columns"][0]["type"] == expected
    is_local = (data_type, adapter) == ("timestamp", "postgres")
    assert any("taken for UTC" in note for note in answer["notes"]) is is_local


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            {"test_metadata": {"name": "at_least_one", "namespace": "dbt_utils", "kwargs": {}}},
            "no test of a spec",
        ),
        ({"test_metadata": None}, "no test of a spec"),
        ({"test_metadata": {"name": "unique", "kwargs": {"column_name": "x"}}}, "not about listed columns"),
        ({"config": {"fail_calc": "count(*)", "error_if": ">5"}}, "limits of its own"),
        ({"config": {"fail_calc": "max(x)"}}, "limits of its own"),
    ],
)
def test_a_test_without_an_equal_is_named(dbt, change, part):
    (test,) = (name for name in dbt.nodes if ".unique_orders" in name)
    dbt.nodes[test] |= change
    exit_code, answer = dbt.init()
    assert exit_code == 0
    assert any(test in note and part in note for note in answer["notes"])
    assert all("unique" not in entry for entry in dbt.spec()["tests"])


def test_a_unique_combination_of_columns(dbt):
    (test,) = (name for name in dbt.nodes if ".unique_orders" in name)
    kwargs = {"combination_of_columns": ["order_id", "order_day"]}
    dbt.nodes[test]["test_metadata"] = {
        "name": "unique_combination_of_columns",
        "namespace": "dbt_utils",
        "kwargs": kwargs,
    }
    # dbt groups, so that equal nulls are duplicates: it means the same only without nulls.
    assert any(test in note and "equal nulls" in note for note in dbt.init()[1]["notes"])
    assert not any(len(entry.get("unique", ())) == 2 for entry in dbt.spec()["tests"])
    dbt.nodes[ORDERS]["columns"]["order_day"]["constraints"] = [{"type": "not_null"}]
    dbt.init()
    assert {"name": "dbt-unique-order_id-order_day", "unique": ["order_id", "order_day"]} in dbt.spec()[
        "tests"
    ]


def test_a_view_with_keys_of_a_spec_is_meant_to_have_one(dbt):
    dbt.nodes[ORDERS]["config"]["materialized"] = "view"
    assert 'materialized as "view"' in dbt.reason(ORDERS)


def test_a_table_beside_a_table_of_others(dbt):
    """A new spec that would make another file invalid is not written."""
    dbt.init()
    other = dbt.root / "tables" / "zones.yml"
    other.write_text(
        "apiVersion: parquetry/v1\nkind: table\nname: zones\nlocation: people\ncolumns: [{name: z, type: int}]\n"
    )
    dbt.path("customers").unlink()
    dbt.meta(CUSTOMERS)["name"] = "people"
    dbt.file.write_text(json.dumps(dbt.manifest))
    done = parquetry("init", dbt.root, "--from-dbt", dbt.file)
    assert done.exit_code == 1
    assert "PQ303" in done.output
    assert not dbt.path("people").exists()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "is not a manifest of dbt"),
        ('{"metadata": [], "nodes": {}}', "is not a manifest of dbt"),
        ('{"metadata": {"dbt_schema_version": "x/dbt/manifest/v11.json"}, "nodes": {}}', "version 11"),
    ],
)
def test_another_file_is_refused(dbt, content, part):
    dbt.file.write_text(content)
    done = parquetry("init", dbt.root, "--from-dbt", dbt.file)
    assert done.exit_code == 2
    assert part in " ".join(done.output.split())
    assert not (dbt.root / "tables").exists()


@pytest.mark.parametrize("odd", [None, [], "x", 7, {"name": []}])
def test_values_of_other_kinds_do_not_end_the_command(dbt, odd):
    for key in ("config", "columns", "meta", "description", "contract", "constraints", "alias", "depends_on"):
        for node in (ORDERS, next(name for name in dbt.nodes if "relationships" in name)):
            before = dbt.nodes[node]
            dbt.nodes[node] = {**before, key: odd}
            dbt.file.write_text(json.dumps(dbt.manifest))
            read_manifest(dbt.file)
            dbt.nodes[node] = before
    dbt.nodes[ORDERS]["columns"]["amount"] = odd
    assert "cannot be the name of a column" in dbt.reason(ORDERS)


@pytest.mark.parametrize(
    "options",
    [
        ("--check",),
        ("--from-dbt", MANIFEST, "--from", MANIFEST),
        ("--from-dbt", MANIFEST, "--check", "--ci=github"),
    ],
)
def test_options_that_do_not_fit(tmp_path, options):
    assert parquetry("init", tmp_path / "lake", *options).exit_code == 2
    assert not (tmp_path / "lake").exists()


def test_text_names_every_model(dbt):
    dbt.manifest = json.loads(MANIFEST.read_text())
    dbt.file.write_text(json.dumps(dbt.manifest))
    done = parquetry("init", dbt.root, "--from-dbt", dbt.file)
    assert done.exit_code == 1
    assert "left out  model.shop.notes: column note_id has no data_type" in done.output
    assert "wrote  tables/orders.yml" in done.output
    done = parquetry("init", dbt.root, "--from-dbt", dbt.file, "--check")
    assert "2 specs as dbt says" in done.output
