"""The proposed queries: the files keep their text, and no value of a log does harm."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.learning import workload
from parquetry.compiler.learning.proposal import learn
from parquetry.compiler.workspace.opened import open_workspace
from parquetry.errors import ParquetryError
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries
from parquetry.runtime.layout.skipping.condition import Comparator, Compared, Disjunction
from parquetry.runtime.layout.skipping.predicate import Unknown
from tests.support.event_log import EventLog, above, scan
from tests.support.project_folder import ORDERS, ProjectFolder

DAY_MS = 86_400_000


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


class Asked:
    """A log of queries of `orders`, each a scan with a filter above it."""

    def __init__(self, folder, *, zone="UTC"):
        self.folder = folder
        self.place = f"file://{folder.root}/warehouse/orders"
        self.log = EventLog.of(zone=zone)
        self._first = 0

    def __call__(self, data, *, times=1, size=1000, passed=None, place=None, time=0, **form):
        for _ in range(times):
            self._first += 10
            node = scan(place or self.place, data=f"[{data}]", pushed=None, first=self._first, **form)
            rows = {} if passed is None else {self._first: 1000, self._first + 5: int(1000 * passed)}
            plan = above(node, "Filter", "ColumnarToRow", rows=self._first + 5)
            self.log.query(plan, sums={self._first + 1: size, **rows}, time=1_700_000_000_000 + time)

    def learned(self, *, write=False, most=20, places=None):
        file = self.log.write(self.folder.root.parent / "logs" / "app")
        return learn(
            opened(self.folder),
            [str(file.parent)],
            places=places or {},
            most=most,
            write=(lambda: opened(self.folder)) if write else None,
        )


def opened(folder):
    return open_workspace(folder.root, target=None, variables={}, environment={})


def spec_of(folder):
    return yaml.safe_load((folder.root / "tables/orders.yml").read_text())


def test_each_shape_is_a_query_with_the_values_of_median_selectivity(folder):
    asked = Asked(folder)
    for items, passed in ((1, 0.9), (2, 0.5), (3, 0.1)):
        asked(f"isnotnull(items#3), (items#3 = {items})", passed=passed)
    asked("(amount#2 > 5.0), (items#3 < 9)", times=5, size=3000)
    asked("", size=2000)
    learned = asked.learned(write=True)
    (table,) = learned.tables
    assert [query.where for query in table.queries] == ["amount > 5.0D and items < 9", "items = 2"]
    assert [query.weight for query in table.queries] == [62.5, 37.5]
    passed = table.queries[1].selectivity
    assert (passed.low, passed.median, passed.high, passed.runs) == (0.1, 0.5, 0.9, 3)
    assert (table.read_bytes, table.covered_bytes, table.unconditional_bytes) == (20000, 18000, 2000)
    assert learned.written == ("tables/orders.yml",)
    assert spec_of(folder)["queries"] == [
        {"name": "by_amount_and_items", "where": "amount > 5.0D and items < 9", "weight": 62.5},
        {"name": "by_items", "where": "items = 2", "weight": 37.5},
    ]
    spec = opened(folder).project.tables[0].spec
    assert not any(isinstance(predicate, Unknown) for predicate in DeclaredQueries.of(spec).predicates)
    again = asked.learned(write=True)
    assert again.written == ()
    assert again.tables[0].diff == ()
    assert [query.change for query in again.tables[0].queries] == ["none", "none"]


def test_the_text_of_the_file_stays(folder):
    text = yaml.safe_dump(ORDERS, sort_keys=False) + (
        "queries:  # what people ask\n"
        "  # the dashboard\n"
        "  - name: large\n"
        "    where: >-\n"
        "      amount > 100\n"
        "  - {name: few, where: items = 7, weight: 2}  # rare\n"
        "# the end\n"
    )
    (folder.root / "tables/orders.yml").write_text(text)
    asked = Asked(folder)
    asked("(amount#2 > 5.0)", times=3)
    asked("(items#3 = 1)")
    asked("(revision#4L = 1)", times=4)
    table = asked.learned(write=True).tables[0]
    assert {query.name: str(query.change) for query in table.queries} == {
        "by_revision": "new",
        "large": "weight",
        "few": "weight",
    }
    assert (folder.root / "tables/orders.yml").read_text() == yaml.safe_dump(ORDERS, sort_keys=False) + (
        "queries:  # what people ask\n"
        "  # the dashboard\n"
        "  - name: large\n"
        "    where: >-\n"
        "      amount > 100\n"
        "    weight: 37.5\n"
        "  - {name: few, where: items = 7, weight: 12.5}  # rare\n"
        "  - {name: by_revision, where: revision = 1, weight: 50}\n"
        "# the end\n"
    )
    assert [line for line in table.diff if line.startswith(("+", "-"))][2:] == [
        "-  - {name: few, where: items = 7, weight: 2}  # rare",
        "+    weight: 37.5",
        "+  - {name: few, where: items = 7, weight: 12.5}  # rare",
        "+  - {name: by_revision, where: revision = 1, weight: 50}",
    ]


@pytest.mark.parametrize(
    "queries",
    [
        "queries: []\n",
        "queries: [{name: a, where: items = 1}]\n",
        "queries:\n- {name: a, where: city = 'x'}\n",
        "",
    ],
)
def test_a_query_is_added_to_any_list(folder, queries):
    (folder.root / "tables/orders.yml").write_text(yaml.safe_dump(ORDERS, sort_keys=False) + queries)
    before = len(spec_of(folder).get("queries", []))
    asked = Asked(folder)
    asked("(revision#4L = 1)")
    asked.learned(write=True)
    assert len(spec_of(folder)["queries"]) == before + 1


def test_a_table_in_flow_style_gets_queries(folder):
    (folder.root / "tables/orders.yml").write_text(json.dumps(ORDERS))
    asked = Asked(folder)
    asked("(revision#4L = 1)")
    asked.learned(write=True)
    assert spec_of(folder)["queries"] == [{"name": "by_revision", "where": "revision = 1", "weight": 100}]


def test_values_of_personal_columns_stay_in_the_log(folder):
    columns = [{**column, "pii": column["name"] == "city"} for column in ORDERS["columns"]]
    folder.orders(
        columns=columns,
        partition_by=None,
        queries=[{"name": "home", "where": "city = 'Bergamo'", "weight": 3}],
    )
    asked = Asked(folder)
    asked("(city#1 = Alzano), (items#3 = 5)", times=3)
    asked("(city#1 = Nembro)", times=7)
    asked("(lower(city#1) = Clusone)")
    (folder.root.parent / "logs").mkdir()
    asked.log.write(folder.root.parent / "logs" / "app")
    before = (folder.root / "tables/orders.yml").read_text()
    for form in ("text", "json"):
        arguments = ["learn", str(folder.root.parent / "logs"), "-p", str(folder.root), "--format", form]
        shown = CliRunner().invoke(command_line, arguments)
        assert shown.exit_code == 0, shown.output
        for city in ("Bergamo", "Alzano", "Nembro", "Clusone"):
            assert city not in shown.output
    table = asked.learned(write=True).tables[0]
    assert [(query.where, query.masked) for query in table.queries] == [("items = 5", ("city",))]
    assert [(each.shape, each.reason.name) for each in table.unproposed] == [("city = ?", "PERSONAL")]
    assert table.not_seen == ()
    assert (folder.root / "tables/orders.yml").read_text() == before.replace(
        "  weight: 3\n", "  weight: 3\n- {name: by_items, where: items = 5, weight: 100}\n"
    )


def test_terms_that_statistics_cannot_answer_are_declared_once(folder):
    folder.orders(
        columns=[{**column, "pii": column["name"] == "city"} for column in ORDERS["columns"]],
        partition_by=None,
        queries=[{"name": "few", "where": "( items % 3 )=1 and amount > 5"}],
    )
    asked = Asked(folder)
    asked("((ITEMS#3 % 2) = 0), (amount#2 > 7.0)", schema="struct<ITEMS:int,amount:double>")
    asked("(revision#4L = (order_id#5L + 3))", size=2000)
    asked("(length(city#1) = 7), (items#3 = 5)", size=3000)
    asked("(length(city#1) = 7)", size=4000)
    learned = asked.learned(write=True)
    (table,) = learned.tables
    assert [(query.where, query.masked, str(query.change)) for query in table.queries] == [
        ("items = 5", ("city",), "new"),
        ("revision = (order_id + 3)", (), "new"),
        ("( items % 3 )=1 and amount > 5", (), "weight"),
    ]
    assert [(each.shape, each.reason.name) for each in table.unproposed] == [("length(city) = ?", "PERSONAL")]
    assert learned.conditions == learned.filters == 6
    assert asked.learned(write=True).written == ()


def test_a_log_of_many_long_shapes_takes_little_memory():
    columns = workload.SpecColumns(names={"city": "city"}, personal={"city"})
    found = workload.Workload(columns)
    names = [f"{'x' * 10_000}{number}" for number in range(3_000)]
    for name in names:
        conditions = [
            Compared(column=column, operator=Comparator.EQUAL, literal=1) for column in (name, f"city.{name}")
        ]
        found.add(workload.Asked(query=name, conditions=conditions, read_bytes=1, passed=None))
        found.add(workload.Asked(query=name, conditions=conditions[1:], read_bytes=1, passed=None))
    assert {(shape, reason.name): each.runs for (shape, reason), each in found.left_out.items()} == {
        ("", "UNDECLARED"): 3_000,
        ("", "PERSONAL"): 3_000,
    }
    either = Disjunction((conditions[1], Compared(column="a", operator=Comparator.EQUAL, literal=1)))
    assert columns.personal_in([either]) == {"city"}


HOSTILE = (
    b'{"Event":"SparkListenerSQLExecutionStart","sparkPlanInfo":' + b"[" * 400_000 + b"]" * 400_000 + b"}",
    b'{"Event":"SparkListenerSQLExecutionStart","executionId":{},"sparkPlanInfo":[[]]}',
    b'{"Event":"SparkListenerSQLExecutionEnd","executionId":[]}',
    b'{"Event":"SparkListenerStageCompleted","Stage Info":{"Accumulables":[{"ID":{},"Value":[]}]}}',
    b'{"Event":"SparkListenerEnvironmentUpdate","Spark Properties":[1]}',
    b'{"Event":"SparkListenerSQLExecutionStart", nope',
    b'{"Event":"SparkListenerSQLExecutionStart","executionId":9,"sparkPlanInfo":"\xff\xfe"}',
    b"\xff\xfe\xfa\x00",
    b'{"Event":',
)


def test_hostile_lines_are_counted_and_end_nothing(folder):
    asked = Asked(folder)
    asked("(items#3 = 5)")
    for data in (
        "(" * 100_000 + "(items#3 = 5)",
        f"(length({'trim(' * 9_999}city#1) > 0)",
        "(items#3 = \ud800)",
    ):
        asked(data)
    asked("", schema="struct<" + "a:struct<" * 20_000)
    file = asked.log.write(folder.root.parent / "logs" / "app")
    file.write_bytes(file.read_bytes() + b"\n".join(HOSTILE))
    arguments = ["learn", str(file), "-p", str(folder.root), "--format", "json"]
    shown = CliRunner().invoke(command_line, arguments)
    assert shown.exit_code == 0, shown.output
    answer = json.loads(shown.output)
    assert answer["events_not_understood"] == len(HOSTILE)
    assert (answer["filters"], answer["conditions"], answer["scans"]) == (4, 1, 5)


def test_values_that_could_do_harm_are_in_no_file(folder):
    asked = Asked(folder)
    for value in ("{{ env_var('HOME') }}", "${HOME}", "it's", "a\\", "x\ny", "{% if %}", "\u202e", "a: [b"):
        asked(f"(city#1 = {value})")
    asked("(city#1 = !!python/object: {a: b} # c)", times=2)
    learned = asked.learned(write=True)
    wheres = [query["where"] for query in spec_of(folder)["queries"]]
    assert wheres == ["city = '!!python/object: {a: b} # c'"]
    assert learned.filters - learned.conditions == 7
    assert opened(folder).project.tables[0].spec.extra.queries[0].where == wheres[0]


def test_names_come_from_the_spec(folder):
    asked = Asked(folder)
    asked("(ITEMS#3 = 5)", schema="struct<ITEMS:int>")
    asked("(other#9 = 5)", schema="struct<other:int>")
    asked("(_hoodie_commit_time#9 = 5)", schema="struct<_hoodie_commit_time:string>")
    table = asked.learned().tables[0]
    assert [query.where for query in table.queries] == ["items = 5"]
    assert sorted((each.shape, each.reason.name) for each in table.unproposed) == [
        ("_hoodie_commit_time = ?", "UNDECLARED"),
        ("other = ?", "UNDECLARED"),
    ]


def test_types_of_partitions_come_from_the_spec(folder):
    asked = Asked(folder)
    asked(
        "", partition="[(city#5 = Bergamo)]", schema="struct<items:int>", place=f"{asked.place}/city=Bergamo"
    )
    (query,) = asked.learned().tables[0].queries
    assert query.where == "city = 'Bergamo'"


def test_only_what_reads_most_is_proposed(folder):
    asked = Asked(folder)
    asked("(items#3 = 5)", size=5)
    asked("(amount#2 = 5.0)", size=7)
    asked("(revision#4L = 5)", size=6)
    table = asked.learned(most=2).tables[0]
    assert [query.name for query in table.queries] == ["by_amount", "by_revision"]
    assert table.covered_bytes == 13
    assert [(each.shape, each.reason.name, each.read_bytes) for each in table.unproposed] == [
        ("items = ?", "RARE", 5)
    ]


def test_queries_of_one_shape_keep_their_weights(folder):
    folder.orders(
        queries=[
            {"name": "five", "where": "items = 5", "weight": 10},
            {"name": "six", "where": "items = 6", "weight": 3},
        ]
    )
    asked = Asked(folder)
    asked("(items#3 = 6)", times=9)
    asked("(amount#2 = 5.0)", times=1)
    table = asked.learned(write=True).tables[0]
    assert [(query.name, query.weight) for query in table.queries] == [("by_amount", 10)]
    assert [(each.shape, each.reason.name, each.runs) for each in table.unproposed] == [
        ("items = ?", "SEVERAL", 9)
    ]
    assert (table.not_seen, table.covered_bytes) == ((), 10_000)
    assert [query["weight"] for query in spec_of(folder)["queries"]] == [10, 3, 10]


def test_a_declared_query_that_is_left_out_is_in_a_log(folder):
    columns = [{**column, "pii": column["name"] == "city"} for column in ORDERS["columns"]]
    folder.orders(
        columns=columns,
        partition_by=None,
        queries=[
            {"name": "rare", "where": "items = 5"},
            {"name": "long", "where": "revision in (1, 2)"},
            {"name": "home", "where": "amount = 5.0D and city = 'x'"},
            {"name": "function", "where": "upper(city) = 'X'"},
            {"name": "nobody", "where": "items > 5"},
        ],
    )
    asked = Asked(folder)
    asked("(items#3 = 5)", size=5)
    asked("(amount#2 = 5.0), (city#1 = y)", size=7)
    asked(f"revision#4L IN ({','.join(map(str, range(1000)))})")
    table = asked.learned(most=1).tables[0]
    assert [(query.name, str(query.change)) for query in table.queries] == [("home", "weight")]
    assert table.not_seen == ("nobody",)


def test_a_file_that_cannot_be_changed_is_said_to_be(folder):
    text = yaml.safe_dump(ORDERS, sort_keys=False) + (
        "queries:\n  - {name: a, where: items = 1, weight: &w 5}\n  - {name: b, where: amount = 1D, weight: *w}\n"
    )
    (folder.root / "tables/orders.yml").write_text(text)
    asked = Asked(folder)
    asked("(items#3 = 5)")
    learned = asked.learned(write=True)
    (table,) = learned.tables
    assert "anchors" in str(table.problem)
    assert (table.diff, learned.written) == ((), ())
    assert (folder.root / "tables/orders.yml").read_text() == text
    shown = CliRunner().invoke(
        command_line, ["learn", str(folder.root.parent / "logs"), "-p", str(folder.root)]
    )
    assert "not changed" in shown.output
    assert "nothing was written" in shown.output


def test_bounds(folder, monkeypatch):
    monkeypatch.setattr(workload, "_MOST_SHAPES", 2)
    monkeypatch.setattr(workload, "_SAMPLE", 4)
    asked = Asked(folder)
    for column in ("items#3", "revision#4L", "order_id#0L"):
        for value in range(9):
            asked(f"({column} = {value})")
    asked(f"items#3 IN ({','.join(map(str, range(1000)))})")
    table = asked.learned().tables[0]
    assert [query.runs for query in table.queries] == [9, 9]
    assert [(each.shape, each.reason.name, each.runs) for each in table.unproposed] == [
        ("", "MANY", 9),
        ("items in (?)", "LONG", 1),
    ]


def test_the_sample_does_not_depend_on_the_order():
    shapes = [workload.Shape(), workload.Shape()]
    asked = [workload.Asked(query=f"q{n}", conditions=(), read_bytes=1, passed=n / 1000) for n in range(1000)]
    for each in asked:
        shapes[0].add(each, f"a = {each.query}")
    for each in reversed(asked):
        shapes[1].add(each, f"a = {each.query}")
    assert shapes[0].example == shapes[1].example
    assert shapes[0].selectivity == shapes[1].selectivity
    assert 0.35 < shapes[0].selectivity.median < 0.65
    assert len(shapes[0].sample) == 100


def test_runs_in_a_day_need_logs_of_a_day(folder):
    asked = Asked(folder)
    asked("(items#3 = 5)", times=4)
    assert asked.learned().tables[0].queries[0].runs_per_day is None
    asked("(items#3 = 5)", time=2 * DAY_MS)
    (query,) = asked.learned(write=True).tables[0].queries
    assert query.runs_per_day == 2.5
    assert spec_of(folder)["queries"][0]["runs_per_day"] == 2.5


def test_tables_are_known_by_their_location(folder):
    asked = Asked(folder)
    for place in (
        f"{asked.place}/city=x/part.parquet",
        "s3a://key:secret@lake/orders/city=Bergamo/a=b",
        "hdfs://h/o",
    ):
        asked("(items#3 = 5)", place=place)
    asked("(items#3 = 5)", place=f"{asked.place}/.hoodie/metadata/files")
    asked("(items#3 = 5)", place=f"{asked.place}2")
    learned = asked.learned()
    assert learned.tables[0].scans == 1
    assert [other.location for other in learned.others] == [
        f"{folder.root}/warehouse/orders2",
        "hdfs://h/o",
        "s3://lake/orders",
    ]
    learned = asked.learned(places={"hdfs://h/o/": "orders"})
    assert learned.tables[0].scans == 2
    with pytest.raises(ParquetryError, match="order"):
        asked.learned(places={"s3://a/b": "order"})


def test_a_change_that_would_be_invalid_is_taken_back(folder):
    asked = Asked(folder)
    asked("(items#3 = 5)")
    before = (folder.root / "tables/orders.yml").read_bytes()
    file = asked.log.write(folder.root.parent / "logs" / "app")

    def fails():
        raise ParquetryError("the project has errors")

    with pytest.raises(ParquetryError, match="errors"):
        learn(opened(folder), [str(file)], places={}, most=1, write=fails)
    assert (folder.root / "tables/orders.yml").read_bytes() == before


def test_a_folder_without_events_is_an_error(folder, tmp_path):
    (tmp_path / "driver.log").write_text("INFO no events\n")
    with pytest.raises(ParquetryError, match="no event"):
        learn(opened(folder), [str(tmp_path / "driver.log")], places={}, most=1)


def test_a_log_without_sizes_is_said_to_be(folder):
    asked = Asked(folder)
    asked.log.query(scan(asked.place, data="[(items#3 = 5)]", pushed=None))
    table = asked.learned().tables[0]
    assert (table.unsized_scans, table.queries[0].selectivity) == (1, None)
