from __future__ import annotations

import json
import os
import re

import pytest

from parquetry import project
from parquetry.project import Secret, UndeclaredVariableError
from parquetry.project.diagnostics.model import Severity
from tests.support.spec_cases import (
    ENVIRONMENT,
    POLICY,
    PROJECT,
    TABLE,
    TARGETS,
    codes,
    loaded,
    table_named,
    write_project,
)


def test_tables_come_in_the_order_of_their_names(tmp_path):
    files = {
        f"tables/{folder}/{name}.yml": table_named(name)
        for folder, name in (("z", "a"), ("a/b", "c"), ("", "b"))
    }
    found = loaded(write_project(tmp_path, files))
    assert [table.name for table in found.tables] == ["a", "b", "c"]
    assert [table.file for table in found.tables] == ["tables/z/a.yml", "tables/b.yml", "tables/a/b/c.yml"]
    assert found.root == tmp_path.resolve()


def test_the_project_file_names_its_folder(tmp_path):
    write_project(tmp_path, {"tables/flights.yml": TABLE})
    assert project.load(tmp_path / "parquetry.yml").project == project.load(tmp_path).project


def test_no_project_file(tmp_path):
    write_project(tmp_path, {"tables/flights.yml": TABLE})
    (tmp_path / "parquetry.yml").rename(tmp_path / "parquetry.yaml")
    assert codes(tmp_path) == [("PQ012", "parquetry.yaml"), ("PQ001", "parquetry.yml")]
    write_project(tmp_path, {})
    assert codes(tmp_path) == [("PQ012", "parquetry.yaml")]
    result = project.load(tmp_path / "nowhere")
    assert result.project is None
    assert "no folder" in result.diagnostics[0].summary
    (tmp_path / "parquetry.yaml").unlink()
    (below,) = project.load(tmp_path / "tables").diagnostics
    assert below.hint == f"give --project {tmp_path.resolve()}"


def test_every_error_of_every_file_in_one_pass(tmp_path):
    files = {
        "parquetry.yml": PROJECT + "nmae: x\n",
        "policies/standard.yml": POLICY + "sizing: {max_file_size: 1}\n",
        "tables/a.yml": table_named("a", "owner: x\nowner: y\npolicy: standard\nordering: none\n"),
        "tables/b.yml": "a: [\n",
        "tables/c.yml": table_named("c", "policy: nothing\nsizing: {small_file_limit: 1GiB}\n"),
    }
    assert codes(write_project(tmp_path, files)) == [
        ("PQ102", "parquetry.yml"),
        ("PQ106", "policies/standard.yml"),
        ("PQ004", "tables/a.yml"),
        ("PQ401", "tables/a.yml"),
        ("PQ002", "tables/b.yml"),
        ("PQ304", "tables/c.yml"),
    ]


def test_files_that_are_not_read(tmp_path):
    files = {
        "tables/flights.yml": TABLE,
        "tables/other.yaml": TABLE,
        "tables/Loud.YML": TABLE,
        "tables/README.md": "hello",
        "tables/schemas/x.avsc": "{}",
        "tables/.hidden.yml": "[",
        "policies/standard.yml": POLICY,
        "policies/deep/nested.yml": POLICY,
    }
    assert codes(write_project(tmp_path, files)) == [
        ("PQ012", "policies/deep/nested.yml"),
        ("PQ012", "tables/Loud.YML"),
        ("PQ012", "tables/other.yaml"),
    ]


def test_names_that_are_there_twice(tmp_path):
    files = {"tables/a/flights.yml": TABLE, "tables/b/flights.yml": TABLE, "policies/standard.yml": POLICY}
    files["policies/other.yml"] = POLICY
    assert codes(write_project(tmp_path, files)) == [
        ("PQ302", "policies/other.yml"),
        ("PQ301", "policies/standard.yml"),
        ("PQ301", "tables/b/flights.yml"),
    ]


def test_table_names_that_differ_by_case_alone(tmp_path):
    files = {"tables/Flights.yml": table_named("Flights"), "tables/flights.yml": TABLE}
    (found,) = project.load(write_project(tmp_path, files)).diagnostics
    assert (found.code, found.file, found.line) == ("PQ301", "tables/flights.yml", 3)
    assert found.summary == "table 'flights' is declared twice, also as 'Flights' in tables/Flights.yml"


@pytest.mark.parametrize(
    ("location_a", "location_b", "words"),
    [
        ("x", "./x/", "has the location of"),
        ("x", "x/y", "is inside"),
        ("x/y", "x", "contains"),
        ("s3a://b/x", "s3://b//x", "has the location of"),
        ("file:///data/x", "/data/x", "has the location of"),
        ("file:/data/a%20b", "/data/a b", "has the location of"),
    ],
)
def test_two_tables_at_one_place(tmp_path, location_a, location_b, words):
    files = {
        "tables/a.yml": table_named("a", f'location: "{location_a}"\n'),
        "tables/b.yml": table_named("b", f'location: "{location_b}"\n'),
        "tables/c.yml": table_named("c", "location: xy\n"),
    }
    result = project.load(write_project(tmp_path, files))
    (found,) = result.diagnostics
    assert (found.code, found.file, found.line) == ("PQ303", "tables/b.yml", 7)
    assert words in found.summary


def test_links_that_lead_out_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.yml").write_text(table_named("secret"))
    root = write_project(tmp_path / "inside", {"tables/flights.yml": TABLE})
    (root / "tables" / "secret.yml").symlink_to(outside / "secret.yml")
    (root / "tables" / "more").symlink_to(outside)
    (root / "tables" / "lost.yml").symlink_to(outside / "nothing.yml")
    (root / "tables" / "round.yml").symlink_to(root / "tables" / "round.yml")
    assert codes(root) == [
        ("PQ013", "tables/lost.yml"),
        ("PQ011", "tables/more"),
        ("PQ013", "tables/round.yml"),
        ("PQ011", "tables/secret.yml"),
    ]
    lost = project.load(root).diagnostics[0]
    assert str(lost.message).endswith("the target of the link does not exist; remove the link")


def test_links_inside_the_project_are_files(tmp_path):
    root = write_project(tmp_path, {"shared/flights.yml": TABLE, "tables/README.md": ""})
    (root / "tables" / "flights.yml").symlink_to("../shared/flights.yml")
    assert [table.name for table in loaded(root).tables] == ["flights"]


def test_what_is_no_file(tmp_path):
    root = write_project(tmp_path, {"tables/flights.yml": TABLE})
    os.mkfifo(root / "tables" / "pipe.yml")
    (root / "tables" / "folder.yml").mkdir()
    (root / "policies").write_text("")
    assert codes(root) == [("PQ013", "policies"), ("PQ013", "tables/pipe.yml")]


def test_names_that_cannot_be_printed(tmp_path):
    root = write_project(tmp_path, {"tables/flights.yml": TABLE})
    (root / "tables" / "a\nb.yml").write_text(TABLE)
    with open(os.fsencode(root / "tables") + b"/\xff.yml", "wb"):
        pass
    assert [code for code, _ in codes(root)] == ["PQ012", "PQ012"]
    assert "\n" not in "".join(file for _, file in codes(root))


def test_columns_from_an_avro_schema(tmp_path):
    schema = '{"type": "record", "name": "r", "fields": [\n\t{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "int"]}]}'
    text = "apiVersion: parquetry/v1\nkind: table\nname: flights\ncolumns: {file: schemas/f.avsc}\nrecord_key: [n]\n"
    root = write_project(tmp_path, {"tables/flights.yml": text, "schemas/f.avsc": schema})
    assert codes(root) == [("PQ402", "tables/flights.yml")]
    write_project(tmp_path, {"tables/flights.yml": text.replace("[n]", "[id]"), "schemas/f.avsc": schema})
    (table,) = loaded(root).tables
    assert [(column.name, column.type, column.nullable) for column in table.spec.columns] == [
        ("id", "string", False),
        ("n", "int", True),
    ]
    assert str(table.origin("columns.id.type")) == "tables/flights.yml:4:1"
    (root / "schemas" / "f.avsc").write_text("{")
    (broken,) = project.load(root).diagnostics
    assert broken.summary.startswith("Avro schema 'schemas/f.avsc': line 2: not JSON: ")


def test_names_in_an_avro_schema_are_checked(tmp_path):
    fields = [{"name": name, "type": "string"} for name in ("id", "ID", "_hoodie_commit_time")]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    text = "apiVersion: parquetry/v1\nkind: table\nname: flights\ncolumns: {file: f.avsc}\n"
    root = write_project(tmp_path, {"tables/flights.yml": text, "f.avsc": schema})
    assert codes(root) == [("PQ301", "tables/flights.yml"), ("PQ405", "tables/flights.yml")]


def test_target_with_an_environment(tmp_path):
    root = write_project(tmp_path, {"parquetry.yml": TARGETS, "tables/flights.yml": TABLE})
    found = loaded(root, target="prod", environment=ENVIRONMENT)
    target = found.target
    assert (target.name, target.warehouse) == ("prod", "s3://b/lake")
    assert found.targets == ("dev", "prod")
    assert target.spark.submit_args == ("--queue", "main")
    assert target.spark.conf["spark.executor.cores"] == "2"
    assert target.spark.conf["spark.ui.enabled"] == "false"
    secret = target.spark.conf["spark.secret"]
    assert isinstance(secret, Secret)
    assert (str(secret), secret.reveal()) == ("k=***", "k=hunter2")
    assert target.storage["key"].reveal() == "hunter2"
    assert target.storage["client_kwargs"] == {"region": "eu"}
    assert target.protect == ("fl*",)
    budget = target.budget
    assert (budget.per_run_bytes, budget.per_apply_bytes, budget.per_commit_bytes) == (
        5 << 30,
        1 << 30,
        2 << 30,
    )
    assert found.tables[0].spec.sizing.max_file_size_bytes == 256 << 20
    assert "hunter2" not in repr(found)


def test_target_without_an_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("BUCKET", "from-outside")
    root = write_project(tmp_path, {"parquetry.yml": TARGETS, "tables/flights.yml": TABLE})
    found = loaded(root, target="prod")
    assert found.target.warehouse == "s3://${BUCKET}/lake"
    assert found.tables[0].location == "s3://${BUCKET}/lake/flights"
    assert found.tables[0].spec.sizing.max_file_size_bytes == 120 << 20
    assert found.target.budget.per_run_bytes == 10 << 30


def test_what_the_environment_lacks(tmp_path):
    root = write_project(tmp_path, {"parquetry.yml": TARGETS, "tables/flights.yml": TABLE})
    assert [code for code, _ in codes(root, target="prod", environment={})] == ["PQ204"] * 6
    assert codes(root, target="dev", environment={}) == []
    wrong = ENVIRONMENT | {"CEILING": "big", "PARQUETRY_SECRET_KEY": "{{ x }}"}
    result = project.load(root, target="prod", environment=wrong)
    assert [found.code for found in result.diagnostics] == ["PQ206", "PQ206", "PQ103"]
    assert "hunter2" not in "".join(map(repr, result.diagnostics))


def test_a_secret_of_the_wrong_form_is_not_shown(tmp_path):
    text = TARGETS.replace("launcher: spark-submit", "launcher: \"{{ env_var('PARQUETRY_SECRET_KEY') }}\"")
    root = write_project(tmp_path, {"parquetry.yml": text, "tables/flights.yml": TABLE})
    result = project.load(root, target="prod", environment=ENVIRONMENT)
    assert [found.code for found in result.diagnostics] == ["PQ205"]
    assert "hunter2" not in repr(result)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"target": "prd"}, "PQ305"),
        ({"variables": {"keep": "many"}}, "PQ207"),
        ({"variables": {"keep": ".inf"}}, "PQ207"),
        ({"variables": {"keep": "true"}}, "PQ207"),
        ({"variables": {"strict": "1"}}, "PQ207"),
        ({"variables": {"share": "x"}}, "PQ207"),
        ({"variables": {"team": "{{ 1 }}"}}, "PQ207"),
    ],
)
def test_wrong_choices(tmp_path, options, code):
    root = write_project(tmp_path, {"parquetry.yml": TARGETS, "tables/flights.yml": TABLE})
    assert codes(root, **options) == [(code, "parquetry.yml")]


NO_VARIABLES = PROJECT.replace("vars: {n: 12, word: data}\n", "")


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        (TARGETS, "kep", "did you mean 'keep'?"),
        (TARGETS, "nothing_like_it", "variables are "),
        (NO_VARIABLES, "a", "declare it under vars in parquetry.yml"),
    ],
)
def test_a_given_variable_that_is_not_declared_is_a_mistake_of_no_file(tmp_path, text, name, hint):
    assert ("vars" in text) is (text != NO_VARIABLES)
    root = write_project(tmp_path, {"parquetry.yml": text, "tables/flights.yml": TABLE})
    with pytest.raises(UndeclaredVariableError) as caught:
        project.load(root, variables={name: "1"})
    assert caught.value.exit_code == 2
    assert f"{name!r}, which the project does not declare; {hint}" in str(caught.value)
    assert "parquetry.yml:" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("prd", "targets are dev, prod; did you mean 'prod'?"),
        ("x", "targets are dev, prod"),
        (None, "targets are dev, prod; give --target, or set default_target"),
    ],
)
def test_a_target_that_there_is_not_is_told_those_that_there_are(tmp_path, wanted, hint):
    text = TARGETS if wanted else TARGETS.replace("default_target: dev\n", "")
    root = write_project(tmp_path, {"parquetry.yml": text, "tables/flights.yml": TABLE})
    (found,) = project.load(root, target=wanted, environment={}).diagnostics
    assert (found.code, found.hint) == ("PQ305", hint)


def test_given_variables_take_the_type_of_the_declared_ones(tmp_path):
    uses = "retention: {clean: {keep_commits: \"{{ var('keep') }}\"}}\nowner: \"{{ var('team') }}\"\n"
    root = write_project(tmp_path, {"parquetry.yml": TARGETS, "tables/flights.yml": TABLE + uses})
    (table,) = loaded(root, variables={"keep": "7", "team": "42", "share": "1"}).tables
    assert (table.spec.retention.keep_commits, table.spec.extra.owner, table.spec.sizing.min_fill) == (
        7,
        "42",
        1.0,
    )
    (table,) = loaded(root, variables={"keep": 8}).tables
    assert table.spec.retention.keep_commits == 8
    (table,) = loaded(root).tables
    assert (table.spec.retention.keep_commits, table.spec.extra.owner) == (10, "007")


def test_a_variable_without_a_value_is_found_once(tmp_path):
    text = TARGETS.replace("vars: {", "vars: {nul: null, ")
    assert text != TARGETS
    uses = "owner: \"{{ var('nul') }}\"\n"
    root = write_project(tmp_path, {"parquetry.yml": text, "tables/flights.yml": TABLE + uses})
    assert codes(root, environment={}) == [("PQ103", "parquetry.yml")]


def test_no_target_chosen(tmp_path):
    text = TARGETS.replace("default_target: dev\n", "")
    root = write_project(tmp_path, {"parquetry.yml": text, "tables/flights.yml": TABLE})
    assert loaded(root).target.name == "dev"
    assert codes(root, environment={}) == [("PQ305", "parquetry.yml")]


def test_allow_entries_accept_warnings(tmp_path):
    more = "  - {name: xs, type: array<int>}\n"
    table = TABLE.replace("record_key", more + "record_key")
    allow = "allow:\n  - {code: PQ703, table: flights, reason: no Hudi writers}\n  - {code: SC310, table: flights, reason: x}\n"
    root = write_project(tmp_path, {"parquetry.yml": PROJECT + allow, "tables/flights.yml": table})
    found = loaded(root)
    assert [(entry.code, entry.reason, str(entry.origin)) for entry in found.allow] == [
        ("PQ703", "no Hudi writers", "parquetry.yml:8:5"),
        ("SC310", "x", "parquetry.yml:9:5"),
    ]


def test_allow_entries_do_not_accept_errors(tmp_path):
    allow = "allow:\n  - {code: PQ401, table: flights, reason: x}\n"
    root = write_project(
        tmp_path, {"parquetry.yml": PROJECT + allow, "tables/flights.yml": TABLE + "ordering: none\n"}
    )
    assert codes(root) == [("PQ309", "parquetry.yml"), ("PQ401", "tables/flights.yml")]


@pytest.mark.parametrize(
    ("wrong", "hint", "mended"),
    [
        ("retention: {clean: {max_age: 25}}", "write 25d", "retention: {clean: {max_age: 25d}}"),
        ('retention: {clean: {max_age: "25"}}', "write 25d", "retention: {clean: {max_age: 25d}}"),
        ("sizing: {max_file_size: 0}", "write a size such as 120MiB", "sizing: {max_file_size: 120MiB}"),
        ("partition_by: id", "write [id]", "partition_by: [id]"),
        ("tags: sample", "write [sample]", "tags: [sample]"),
        (
            "sources: [{name: s, format: csv, path: x, drop: op}]",
            "write [op]",
            "sources: [{name: s, format: csv, path: x, drop: [op]}]",
        ),
        (
            "clustering: {execution: {strategy: sort, columns: id}}",
            "write [id]",
            "clustering: {execution: {strategy: sort, columns: [id]}}",
        ),
        (
            'retention: {clean: {keep_commits: "5"}}',
            "write 5 without quotes",
            "retention: {clean: {keep_commits: 5}}",
        ),
        (
            "retention: {clean: {keep_commits: 1e1}}",
            "write 10",
            "retention: {clean: {keep_commits: 10}}",
        ),
        (
            "queries: [{name: 1st, where: id = 'a'}]",
            "begin it with a letter",
            "queries: [{name: q, where: id = 'a'}]",
        ),
        (
            f"queries: [{{name: {'q' * 200}, where: id = 'a'}}]",
            "use at most 128 characters",
            f"queries: [{{name: {'q' * 128}, where: id = 'a'}}]",
        ),
        (
            'sources: [{name: s, format: csv, path: x, drop_duplicates: "false"}]',
            "write false without quotes",
            "sources: [{name: s, format: csv, path: x, drop_duplicates: false}]",
        ),
        (
            "sizing: {small_file_limit: 200MiB}",
            "lower sizing.small_file_limit",
            "sizing: {small_file_limit: 100MiB}",
        ),
        ("sizing: {max_file_size: 50MiB}", "raise sizing.max_file_size", "sizing: {max_file_size: 150MiB}"),
        (
            "retention: {archive: {keep_commits: 5}}",
            "raise it above 10",
            "retention: {archive: {keep_commits: 11}}",
        ),
        (
            "queries: [{name: q, where: reflect(id) = 'a'}]",
            "use a function of Spark SQL",
            "queries: [{name: q, where: upper(id) = 'A'}]",
        ),
    ],
)
def test_the_remedy_of_a_wrong_value_works(tmp_path, wrong, hint, mended):
    def found(folder, line):
        root = write_project(tmp_path / folder, {"tables/flights.yml": f"{TABLE}{line}\n"})
        return [entry.hint for entry in project.load(root).diagnostics]

    assert found("wrong", wrong) == [hint]
    assert found("fixed", mended) == []


def test_a_key_that_has_one_value_is_given_it(tmp_path):
    files = {"tables/flights.yml": TABLE.replace("apiVersion: parquetry/v1\nkind: table\n", "")}
    found = project.load(write_project(tmp_path, files)).diagnostics
    assert [entry.hint for entry in found] == ["add apiVersion: parquetry/v1", "add kind: table"]


@pytest.mark.parametrize("type_", ["decimal(10,2)", "map<string,int>", "struct<a:int,b:decimal(3,1),c:int>"])
def test_a_type_that_yaml_cuts_at_its_comma_is_one_finding(tmp_path, type_):
    def found(folder, written):
        column = f"  - {{name: n, type: {written}, nullable: true}}\nrecord_key"
        table = TABLE.replace("record_key", column)
        return project.load(write_project(tmp_path / folder, {"tables/flights.yml": table})).diagnostics

    (cut,) = found("cut", type_)
    assert (cut.code, cut.hint) == ("PQ403", 'put the whole type in quotes, such as "decimal(10,2)"')
    assert found("whole", f'"{type_}"') == ()


SAFE = "apiVersion: parquetry/v1\nkind: policy\nname: safe\n"


def shared_warnings(tmp_path, *, policy="", defaults="", allowed=()):
    """What is found in two tables, a and b, of one policy; ``allowed`` are codes and tables."""
    entries = "".join(f"  - {{code: {code}, table: {name}, reason: known}}\n" for code, name in allowed)
    head = (
        PROJECT + (f"defaults: {defaults}\n" if defaults else "") + ("allow:\n" + entries if entries else "")
    )
    files = {"parquetry.yml": head, "policies/safe.yml": SAFE + policy}
    for name in "ab":
        files[f"tables/{name}.yml"] = table_named(name, "policy: safe\n")
    found = project.load(write_project(tmp_path, files)).diagnostics
    return [(entry.code, entry.file, entry.hint) for entry in found]


ENCRYPTED = 'files: {encryption_key: "env:K"}\n'
UNEQUAL = "{clustering: {plan: {target_file_size: 110MiB}}}"


def test_a_warning_at_a_policy_goes_once_every_table_of_it_allows_it(tmp_path):
    (alone,) = shared_warnings(tmp_path / "none", policy=ENCRYPTED)
    assert alone == ("PQ708", "policies/safe.yml", "accept it with an allow entry")
    one = shared_warnings(tmp_path / "one", policy=ENCRYPTED, allowed=[("PQ708", "a")])
    assert one == [("PQ708", "policies/safe.yml", "accept it for 'b' too")]
    both = [("PQ708", "a"), ("PQ708", "b")]
    assert shared_warnings(tmp_path / "both", policy=ENCRYPTED, allowed=both) == []


def test_a_warning_at_defaults_goes_once_every_table_allows_it(tmp_path):
    assert [code for code, *_ in shared_warnings(tmp_path / "none", defaults=UNEQUAL)] == ["PQ702"]
    both = [("PQ702", "a"), ("PQ702", "b")]
    assert shared_warnings(tmp_path / "both", defaults=UNEQUAL, allowed=both) == []


def test_a_finding_in_a_shared_file_names_the_tables_that_it_is_about(tmp_path):
    policy = "clustering: {trigger: async, execution: {columns: [day]}}\n"
    columns = "columns:\n  - {name: id, type: string, nullable: false}\n  - {name: day, type: string}\n"
    head = "apiVersion: parquetry/v1\nkind: table\n"
    end = "record_key: [id]\npolicy: safe\n"
    files = {
        "policies/safe.yml": SAFE + policy,
        "tables/a.yml": table_named("a", "policy: safe\n"),
        "tables/b.yml": f"{head}name: b\n{columns}{end}",
        "tables/c.yml": table_named("c", "policy: safe\n"),
    }
    (found,) = project.load(write_project(tmp_path, files)).diagnostics
    assert (found.code, found.file) == ("PQ401", "policies/safe.yml")
    assert str(found.summary).startswith(
        "in tables 'a', 'c': clustering.execution.columns names the column 'day'"
    )


def test_an_allow_entry_for_a_table_outside_the_policy_is_reported(tmp_path):
    root = write_project(
        tmp_path,
        {
            "parquetry.yml": PROJECT + "allow:\n  - {code: PQ708, table: b, reason: known}\n",
            "policies/safe.yml": SAFE + ENCRYPTED,
            "tables/a.yml": table_named("a", "policy: safe\n"),
            "tables/b.yml": table_named("b"),
        },
    )
    assert codes(root) == [("PQ309", "parquetry.yml"), ("PQ708", "policies/safe.yml")]


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ("".join(f"key{number}: 1\n" for number in range(10_000)), "PQ015"),
        ("tags: [" + ", ".join(f"{number}, t{number}" for number in range(20_000)) + "]\n", "PQ015"),
        ("tests:\n" + "".join(f"  - {{not_null: [c{number}]}}\n" for number in range(900)), "PQ401"),
        ("tests:\n" + "".join(f"  - {{nul: [c{number}]}}\n" for number in range(900)), "PQ015"),
        ("tests:\n" + "".join(f'  - {{unique: ["{{{{ x{number} }}}}"]}}\n' for number in range(3000)), "PQ010"),
        ("queries:\n" + "".join(f"  - {{name: q{n}, where: \"{' + '.join(f'i{d}' for d in range(200))}\"}}\n" for n in range(200)), "PQ603"),
        ('queries:\n  - {name: q, where: "' + "x -> " * 2000 + '1"}\n', None),
    ],
    ids=["keys", "tags", "columns", "tests", "templates", "words", "lambdas"],
)  # fmt: skip
def test_very_many_mistakes(tmp_path, more, last):
    result = project.load(write_project(tmp_path, {"tables/flights.yml": TABLE + more}))
    assert (last in [found.code for found in result.diagnostics]) == (last is not None)
    assert len(result.diagnostics) <= 1100


def test_very_wide_tables(tmp_path):
    names = [f"column_{number}" for number in range(6000)]
    columns = "".join(f"  - {{name: {name}, type: int}}\n" for name in names)
    struct = '  - {name: wide, type: "struct<' + ",".join(f"{name}:int" for name in names) + '>"}\n'
    more = "tests:\n" + "".join(f"  - {{not_null: [colum_{number}]}}\n" for number in range(300))
    text = TABLE.replace("record_key", columns + struct + "record_key") + more
    result = project.load(write_project(tmp_path, {"tables/flights.yml": text}))
    assert {found.code for found in result.diagnostics} == {"PQ401"}


@pytest.mark.parametrize(
    ("type_", "hint"),
    [
        ("strnig", "did you mean 'string'?"),
        ("wonder", "write a type such as bigint or array<string>"),
        ("bool", "use boolean"),
        ("timestamp_ntz", "use timestamp, or bigint for a local time"),
    ],
)
def test_a_type_of_no_column_has_a_remedy(tmp_path, type_, hint):
    table = TABLE.replace("record_key", f"  - {{name: n, type: {type_}}}\nrecord_key")
    (found,) = project.load(write_project(tmp_path, {"tables/flights.yml": table})).diagnostics
    assert (found.code, found.hint) == ("PQ403", hint)
    # A type may be understood and yet refused.
    assert re.fullmatch(r"type of column 'n': .*" + type_ + ".*", str(found.message))


def targets_with_variables(root):
    (root / "tables").mkdir(parents=True)
    (root / "parquetry.yml").write_text(
        "apiVersion: parquetry/v1\nkind: project\nname: demo\ndefault_target: dev\nvars: {keep: 12}\n"
        "targets:\n"
        "  dev: {warehouse: \"./{{ var('place') }}\", vars: {place: scratch}}\n"
        "  prod: {warehouse: \"./{{ var('place') }}\", vars: {place: gold, keep: 48}}\n"
    )
    (root / "tables" / "t.yml").write_text(
        "apiVersion: parquetry/v1\nkind: table\nname: t\ncolumns: [{name: id, type: string, nullable: false}]\n"
        "record_key: [id]\nretention: {archive: {keep_commits: \"{{ var('keep') }}\"}, clean: {keep_commits: 5}}\n"
        "description: \"of {{ var('place') }}\"\n"
    )
    return root


@pytest.mark.parametrize(
    ("target", "given", "keep", "place", "other"),
    [
        (None, {}, 12, "scratch", "gold"),
        ("prod", {}, 48, "gold", "scratch"),
        ("prod", {"keep": "7"}, 7, "gold", "scratch"),
        ("dev", {"place": "mine"}, 12, "mine", "mine"),
    ],
)
def test_the_vars_of_a_target_lie_between_the_project_s_and_those_given(
    tmp_path, target, given, keep, place, other
):
    root = targets_with_variables(tmp_path)
    result = project.load(root, target=target, variables=given, environment=None)
    assert result.diagnostics == ()
    (table,) = result.project.tables
    assert table.spec.retention.archive_keep_commits == keep
    assert table.spec.extra.description == f"of {place}"
    assert table.location == f"{root}/{place}/t"
    assert result.project.other_warehouses == (f"{root}/{other}",)


def test_a_variable_that_no_target_knows_is_undeclared(tmp_path):
    root = targets_with_variables(tmp_path)
    with pytest.raises(UndeclaredVariableError, match="did you mean 'place'"):
        project.load(root, variables={"plaec": "x"}, environment=None)


def test_findings_in_the_vars_of_any_target_are_found_at_every_target(tmp_path):
    root = targets_with_variables(tmp_path)
    text = (root / "parquetry.yml").read_text()
    (root / "parquetry.yml").write_text(
        text.replace("place: gold, keep: 48", "place: gold, keep: many, kep: 1")
    )
    for target in ("dev", "prod"):
        found = project.load(root, target=target, environment=None).diagnostics
        assert [(d.code, d.line) for d in found] == [("PQ207", 8), ("PQ209", 8)]
        assert "variable 'keep' must be a whole number, not 'many'" in found[0].message
        assert "variable 'kep' of target 'prod' has no value at dev; did you mean 'keep'?" in found[1].message


def test_a_table_version_comes_from_the_table_its_policy_the_target_or_the_defaults(tmp_path):
    policy = "apiVersion: parquetry/v1\nkind: policy\nname: new\ntable_version: 9\n"
    at_target = PROJECT.replace("warehouse:", "table_version: 8, warehouse:", 1)
    defaults = at_target + "defaults: {table_version: 9}\n"
    files = {"policies/new.yml": policy, "parquetry.yml": at_target}

    def version(more, **changed):
        root = write_project(tmp_path, files | {"tables/flights.yml": TABLE + more} | changed)
        loaded = project.load(root)
        assert loaded.diagnostics == ()
        (table,) = loaded.tables
        return table.spec.table_version, str(table.origin("table_version")).partition(":")[0]

    assert version("policy: new\ntable_version: 6\n") == (6, "tables/flights.yml")
    assert version("policy: new\n") == (9, "policies/new.yml")
    assert version("") == (8, "parquetry.yml")
    assert version("", **{"parquetry.yml": defaults}) == (8, "parquetry.yml")
    assert version("", **{"parquetry.yml": PROJECT + "defaults: {table_version: 9}\n"}) == (
        9,
        "parquetry.yml",
    )
    assert version("", **{"parquetry.yml": PROJECT}) == (6, "default")


def test_a_lock_comes_from_the_same_layers_and_a_local_table_has_a_lock_file(tmp_path):
    at_target = PROJECT.replace("warehouse:", "locks: storage, warehouse:", 1)

    def lock(more, parquetry_yml=at_target):
        files = {"parquetry.yml": parquetry_yml, "tables/flights.yml": TABLE + more}
        loaded = project.load(write_project(tmp_path, files))
        assert loaded.diagnostics == ()
        (table,) = loaded.tables
        return str(table.spec.locks)

    in_a_bucket = "location: s3://lake/flights\n"
    assert lock("") == "file"
    assert lock(in_a_bucket) == "storage"
    assert lock(in_a_bucket + "locks: file\n") == "file"
    assert lock(in_a_bucket, PROJECT) == "file"
    assert lock("location: gs://lake/flights\nlocks: storage\n", PROJECT) == "storage"
    assert lock(in_a_bucket, PROJECT + "defaults: {locks: storage}\n") == "storage"


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ("partition_by: [day]\n", True),
        ("partition_by: [day]\nkey_scope: table\n", False),
        ("partition_by: [id]\n", False),
        ("partition_by: [bucket]\n", False),
        ("partition_by: [bucket, day]\n", True),
        ("partition_by: [mixed]\n", True),
        ("partition_by: [today]\n", True),
        ("partition_by: [day]\nsources: [{name: s, format: json, path: x, operation: insert}]\n", False),
        ("partition_by: [day]\nsources: [{name: s, format: json, path: x}]\n", True),
        ("partition_by: [day]\nsources: [{name: s, format: json, path: x, operation: delete}]\n", True),
        ("", False),
    ],
)
def test_keys_that_may_change_their_partition(tmp_path, more, warned):
    columns = """\
  - {name: day, type: date}
  - {name: bucket, type: int, generated: "pmod(hash(ID), 8)"}
  - {name: mixed, type: string, generated: "concat(id, day)"}
  - {name: today, type: date, generated: "if(id = 'x', current_date, null)"}
record_key"""
    text = TABLE.replace("record_key", columns) + more
    root = write_project(tmp_path, {"tables/flights.yml": text})
    found = [one for one in project.load(root).diagnostics if one.code == "PQ710"]
    assert len(found) == warned
    assert all("key_scope: table" in one.hint for one in found)
    if warned:
        accepted = PROJECT + "allow:\n  - {code: PQ710, table: flights, reason: days never change}\n"
        assert codes(write_project(tmp_path, {"parquetry.yml": accepted, "tables/flights.yml": text})) == []


def test_sql_of_tests_is_checked(tmp_path):
    text = (
        TABLE
        + 'tests:\n  - {unique: [id]}\n  - {expression: "nope > 1"}\n  - {expression: id >}\n  - {expression: id >)}\n'
    )
    assert [code for code, _ in codes(write_project(tmp_path, {"tables/flights.yml": text}))] == [
        "PQ603",
        "PQ712",
        "PQ601",
    ]


def test_sql_that_cannot_be_parsed_stops_nothing(tmp_path):
    text = TABLE + "queries:\n  - {name: q, where: id >}\n"
    result = project.load(write_project(tmp_path, {"tables/flights.yml": text}))
    (found,) = result.diagnostics
    assert (found.code, found.severity, found.summary) == (
        "PQ712",
        Severity.WARNING,
        "the SQL cannot be parsed here at '>'",
    )
    assert [table.name for table in result.tables] == ["flights"]


@pytest.mark.parametrize(("flag", "shown"), [("", "Ada"), (", pii: true", "***")])
def test_what_cannot_be_parsed_shows_no_personal_values(tmp_path, flag, shown):
    columns = f"  - {{name: who, type: string{flag}}}\nrecord_key"
    text = (
        TABLE.replace("record_key", columns, 1) + "queries:\n  - {name: q, where: \"who = 'x' 'Ada' Ada\"}\n"
    )
    result = project.load(write_project(tmp_path, {"tables/flights.yml": text}))
    assert [found.summary for found in result.diagnostics] == [f"the SQL cannot be parsed here at '{shown}'"]


@pytest.mark.parametrize(
    ("where", "summary"),
    [
        # A raw string ends at the next quote, even after a backslash.
        (r"who between r'Ada\'", "the SQL cannot be parsed here at r'***'"),
        (r'who between R"Ada\"', "the SQL cannot be parsed here at R'***'"),
        ("who = `it's Ada`", "the table has no column '***'"),
        ("who.`it's Ada` = 3", "column '***'"),
        (r"who = r'Ada\' and x.y = 1", "the table has no column '***'"),
        ("who = 'Ada' and id.y = 1", "column 'id' is string, which has no '***'"),
    ],
)
def test_quotes_within_quotes_show_no_personal_values(tmp_path, where, summary):
    columns = "  - {name: who, type: string, pii: true}\nrecord_key"
    text = TABLE.replace("record_key", columns, 1) + f"queries:\n  - name: q\n    where: |-\n      {where}\n"
    result = project.load(write_project(tmp_path, {"tables/flights.yml": text}))
    assert [found.summary for found in result.diagnostics] == [summary]


def test_a_generated_column_that_cannot_be_parsed_reads_no_other_one(tmp_path):
    column = "  - {name: y, type: int, generated: year(now())}\n  - {name: z, type: int, generated: y z >}\nrecord_key"
    root = write_project(tmp_path, {"tables/flights.yml": TABLE.replace("record_key", column, 1)})
    assert [code for code, _ in codes(root)] == ["PQ601", "PQ712"]


def test_what_only_overrides_bring_about_names_their_targets(tmp_path):
    limits = "sizing: {max_file_size: 120MiB, small_file_limit: 100MiB}\n"
    lower = "overrides: {sizing: {max_file_size: 64MiB}}"
    targets = f"""\
targets:
  dev: {{warehouse: ./dev}}
  test: {{warehouse: ./test, {lower}}}
  prod: {{warehouse: ./prod, {lower}}}
  spare: {{warehouse: ./spare, overrides: {{sizing: {{max_file_size: 200MiB}}}}}}
default_target: dev
"""
    head = PROJECT[: PROJECT.index("targets:")]
    root = write_project(tmp_path, {"parquetry.yml": head + targets, "tables/flights.yml": TABLE + limits})
    said = "sizing.small_file_limit (100MiB) is above sizing.max_file_size (64MiB)"
    (found,) = project.load(root).diagnostics
    assert found.summary == f"at targets 'test', 'prod': {said}"
    (chosen,) = project.load(root, target="prod", environment={}).diagnostics
    assert chosen.summary == f"at target 'prod': {said}"
    assert project.load(root, target="dev", environment={}).diagnostics == ()
    broken = TABLE + limits.replace("100MiB", "300MiB")
    root = write_project(tmp_path, {"parquetry.yml": head + targets, "tables/flights.yml": broken})
    *others, plain = sorted(str(one.summary) for one in project.load(root, target="dev").diagnostics)
    assert plain == "sizing.small_file_limit (300MiB) is above sizing.max_file_size (120MiB)"
    assert [one.partition(":")[0] for one in others] == [
        "at target 'spare'",
        "at targets 'test', 'prod'",
    ]


@pytest.mark.parametrize(
    "limit",
    ["{{ var('limit') }}", "{{ '200MiB' if target.name == 'prod' else '64MiB' }}"],
    ids=["var", "name"],
)
@pytest.mark.parametrize("place", ["table", "defaults", "policy"])
def test_overrides_of_another_target_are_checked_with_the_values_that_templates_have_there(
    tmp_path, limit, place
):
    sizing = f'sizing: {{max_file_size: "{limit}", small_file_limit: 32MiB}}\n'
    targets = """\
vars: {limit: 64MiB}
targets:
  dev: {warehouse: ./dev}
  prod: {warehouse: ./prod, vars: {limit: 200MiB}, overrides: {sizing: {small_file_limit: 150MiB}}}
  low: {warehouse: ./low, overrides: {sizing: {small_file_limit: 100MiB}}}
default_target: dev
"""
    head = PROJECT[: PROJECT.index("vars:")] + targets
    policy = f"apiVersion: parquetry/v1\nkind: policy\nname: limits\n{sizing}"
    files = {
        "table": {"parquetry.yml": head, "tables/flights.yml": TABLE + sizing},
        "defaults": {"parquetry.yml": f"{head}defaults:\n  {sizing}", "tables/flights.yml": TABLE},
        "policy": {
            "parquetry.yml": head,
            "tables/flights.yml": TABLE + "policy: limits\n",
            "policies/limits.yml": policy,
        },
    }
    (found,) = project.load(write_project(tmp_path, files[place])).diagnostics
    said = "sizing.small_file_limit (100MiB) is above sizing.max_file_size (64MiB)"
    assert str(found.summary).removeprefix("in table 'flights': ") == f"at target 'low': {said}"


@pytest.mark.parametrize(("condition", "said"), [("source.op = 'D'", []), ("source.po = 'D'", ["PQ603"])])
def test_delete_when_may_name_the_table_of_a_selected_column(tmp_path, condition, said):
    source = f"""\
sources:
  - name: s
    format: json
    path: x
    select: "select id, op from source"
    delete_when: "{condition}"
    drop: [op]
    ties: any
"""
    root = write_project(tmp_path, {"tables/flights.yml": TABLE + source})
    assert [code for code, _ in codes(root)] == said
