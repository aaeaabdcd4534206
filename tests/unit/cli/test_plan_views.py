"""A plan for a pull request, a workflow and a browser: what each says, and what nobody can smuggle in."""

from __future__ import annotations

import dataclasses
import html
import re
from html.parser import HTMLParser

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.github import render_github
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.cli.views.plan.words import debt_text, value_text
from parquetry.compiler.evidence.model import (
    DueFigures,
    ExcludedFiles,
    ExcludedPath,
    QueryFigures,
    RunForecast,
    TableFigures,
)
from parquetry.compiler.plan.changes import spec_changes
from parquetry.compiler.plan.codec import decode, encode, plan_of
from parquetry.compiler.plan.model import (
    Blocked,
    Change,
    ChangeClass,
    Evidence,
    Intent,
    PlanDocument,
    PlanWarning,
    RecipeStep,
    Step,
    TableAction,
)
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.review import yaml_diff
from parquetry.compiler.spec_words import scalar
from parquetry.runtime.layout.clustering.model import ChosenBy, ScopeChoice, ScopeFigures
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.spec.clustering import ClusteringScope
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column, Extra, TableSpec
from tests.support.html_pages import cut_elements, selectors
from tests.support.project_folder import ProjectFolder, columns_with

SPEC = TableSpec(name="t", columns=(Column(name="a", type="int"),), record_key=("a",))
EXISTS = Requirements(exists=True)
DEBT = DueFigures(
    rewrite_bytes=3 * 2**30,
    rewrite_files=24,
    files_after=6,
    small_files=20,
    small_bytes=10**6,
    expired_files=2,
    expired_bytes=5000,
    budget_bytes=2**30,
    runs=3,
    seconds=240,
)
FIGURES = TableFigures(
    instant="20261121000000000",
    files=24,
    size_bytes=3 * 2**30,
    small_files_before=3,
    small_files_after=20,
    sizes_before=(20, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0),
    sizes_after=(0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0),
    queries=(
        QueryFigures(
            query="by_day",
            total=24,
            total_after=6,
            now=Reads(files=9, row_groups=30, rows=120_000, data_bytes=3_000_000),
            expected=Reads(files=2, row_groups=3, rows=9_000, data_bytes=200_000),
            rows=500_000,
            sampled=True,
        ),
    ),
    debt=DEBT,
)
NASTY = "Ends ``` and ~~~~ </details><script>alert(1)</script> | @everyone\n::error::x %0A"


def change(path="description", old="a", new="b", change_class=ChangeClass.METADATA, **rest):
    return Change(path=path, old=old, new=new, code="SC101", change_class=change_class, **rest)


def action(table="orders", changes=(), change_class=ChangeClass.POLICY):
    return TableAction(
        table=table,
        location=f"warehouse/{table}",
        change_class=change_class,
        code="SC201",
        steps=(Step.RECORD,),
        changes=tuple(changes),
        requirements=EXISTS,
        spec=SPEC,
    )


def blocked(table="billing", changes=()):
    return Blocked(
        table=table,
        location="w",
        code="SC401",
        reason="the record key changed",
        remedy="make a new table",
        changes=tuple(changes),
        recipe=(RecipeStep(text="Copy.", commands=("cp a b",)), RecipeStep(text="Edit b.")),
    )


def plan(actions=(), blocked_tables=(), **evidence):
    intent = Intent(
        project="shop",
        target="prod",
        git_commit="0123456789abcdef",
        parquetry="0.1.0",
        actions=tuple(actions),
        blocked=tuple(blocked_tables),
    )
    tables = len(intent.actions) + len(intent.blocked)
    return plan_of(intent, Evidence(created_ms=1_800_000_000_000, tables=tables, **evidence))


FULL = plan(
    [
        action(
            changes=[
                change(
                    "sizing.max_file_size",
                    "120MiB",
                    "64MiB",
                    ChangeClass.POLICY,
                    origin="tables/orders.yml:9:3",
                )
            ]
        ),
        action("items", [change(origin="tables/items.yml:4:1")], ChangeClass.METADATA),
    ],
    [blocked()],
    figures={"orders": FIGURES},
    warnings=(PlanWarning(code="SC601", table="items", message="not needed", origin="parquetry.yml:8:5"),),
)


def test_a_comment_begins_with_the_marker_and_says_what_there_is_to_know():
    text = render_markdown(FULL, max_bytes=60_000)
    assert text.startswith("<!-- parquetry:plan project=shop target=prod -->\n### ")
    first = text.splitlines()[1]
    assert first == "### parquetry plan for `prod`: blocked by 1 table; 2 tables change, none breaking"
    assert "> [!CAUTION]\n> Nothing is applied as long as something is blocked: `billing`.\n" in text
    assert [line for line in text.splitlines() if line.startswith("| **")] == [
        "| **tables** | blocked SC401: billing; policy: orders; metadata: items |",
        "| **rewritten** | 0 B by apply; 3.2 GB by later runs, about 4 min in all at past throughput |",
        "| **queries** | 1 better: orders.by_day 3 MB -&gt; 200 KB |",
        "| **warnings** | SC601 |",
    ]
    assert text.index("**Blocked: `billing`** SC401: the record key changed.") < text.index("<details>")
    (row,) = [line for line in text.splitlines() if line.startswith("| `orders` |")]
    assert "3.2 GB to rewrite, about 3 runs at 1GiB, about 4 min" in row
    assert "24 -&gt; 6 files" in row
    assert "by_day: 120,000 -&gt; 9,000 of 500,000 rows, 3 MB -&gt; 200 KB" in row
    assert "| by_day | 9 of 24 -&gt; 2 of 6 | 120,000 -&gt; 9,000 of 500,000 | 3 MB -&gt; 200 KB |" in text
    assert "-  max_file_size: 120MiB\n+  max_file_size: 64MiB\n" in text
    assert "| up to 10 % | 20 | 0 |" in text
    assert "   cp a b\n" in text
    assert f"plan `{FULL.plan_id}`" in text
    assert "--approved" not in text, "a blocked plan is not applied"
    assert "commit 0123456789ab" in text


def test_a_plan_that_is_blocked_says_so_first():
    """In text, in the comment and on the page; no other plan does."""
    open_one = plan([action()])
    two = plan([action()], [blocked(), blocked("items")])
    view = PlanView()
    text = view.text(two, Paint(enabled=False))
    assert text.splitlines()[0] == "blocked by 2 tables, project shop, target prod, commit 0123456789ab"
    page = render_html(two)
    assert "<h1>parquetry plan for prod: shop</h1>" in page
    assert '<p class="verdict bad">blocked by 2 tables; 1 table changes, none breaking</p>' in page
    comment = render_markdown(two, max_bytes=60_000)
    assert ": blocked by 2 tables; 1 table changes, none breaking" in comment.splitlines()[1]
    assert "as long as something is blocked: `billing` and 1 more." in comment
    for said in (
        view.text(open_one, Paint(enabled=False)),
        render_html(open_one),
        render_markdown(open_one, max_bytes=60_000),
    ):
        assert "blocked" not in said.split("</style>")[-1]


def test_a_change_of_several_classes_names_all_of_them():
    several = action(
        changes=[
            dataclasses.replace(change("columns.extra"), change_class=ChangeClass.EVOLVE),
            dataclasses.replace(change("description"), change_class=ChangeClass.METADATA),
            dataclasses.replace(change("sizing.max_file_size"), change_class=ChangeClass.POLICY),
        ],
        change_class=ChangeClass.EVOLVE,
    )
    made = plan([several, action("items", change_class=ChangeClass.POLICY)])
    named = "evolve + policy + metadata"
    text = PlanView().text(made, Paint(enabled=False))
    assert f"~ orders  {named}\n" in text
    assert f"1 policy, 1 {named}, 0 unchanged." in text
    comment = render_markdown(made, max_bytes=60_000)
    assert f"| **tables** | {named}: orders; policy: items |" in comment
    assert f"| `orders` | 3 fields | {named} |" in comment
    assert f"<code>orders</code>: {named}, 3 fields" in comment
    assert f'<h2><bdi>orders</bdi> <span class="badge warn">{named}</span>' in render_html(made)


EVERY_CLASS = plan(
    [
        dataclasses.replace(
            action("made", (), ChangeClass.CREATE), steps=(Step.CREATE, Step.RECORD), location="lake/made"
        ),
        dataclasses.replace(
            action("gone", (), ChangeClass.METADATA), steps=(Step.FORGET,), location="lake/gone"
        ),
        action("told", [change(origin="tables/told.yml:4:1")], ChangeClass.METADATA),
        action("kept", [change("retention.clean.keep_commits", 10, 5, origin="tables/kept.yml:9:3", live=7)]),
        action(
            "back",
            [change("columns.a", None, "int", ChangeClass.EVOLVE, reason="another program dropped it")],
            ChangeClass.EVOLVE,
        ),
        action(
            "paid", [change("clustering.existing", "gradual", "now", origin="t.yml:1:1")], ChangeClass.REWRITE
        ),
        action(
            "broken",
            [change("columns.a", "int", None, ChangeClass.BREAKING, allowed="moved to payments")],
            ChangeClass.BREAKING,
        ),
    ],
    [
        blocked(
            "shut", [change("record_key", ["a"], ["b"], ChangeClass.BREAKING, origin="tables/shut.yml:7:1")]
        )
    ],
    figures={"kept": FIGURES},
    due={"kept": DEBT},
    forecasts={
        "kept": RunForecast(
            files=6,
            scopes=(
                ScopeChoice(
                    partition="p=1",
                    scope=ClusteringScope.PARTITION,
                    chosen_by=ChosenBy.SAMPLE,
                    group=ScopeFigures(
                        groups=3,
                        rewritten_files=9,
                        rewritten_bytes=6_000,
                        shuffled_bytes=0,
                        files_after=6,
                        expected_rows=77,
                    ),
                    whole=ScopeFigures(
                        groups=1,
                        rewritten_files=9,
                        rewritten_bytes=6_000,
                        shuffled_bytes=6_000,
                        files_after=5,
                        expected_rows=33,
                    ),
                ),
            ),
        )
    },
    excluded={
        "kept": ExcludedFiles(
            total=2,
            reasons={"full": 2},
            files=(ExcludedPath(path="p=1/f", reason="full", detail="large enough"),),
        )
    },
    drift=(change("kept.columns.b", None, None, live="string"),),
)
ALIKE = [
    "lake/made: 1 column, key a",
    "files up to 120MiB, filled below 100MiB",
    "lake/gone: no spec declares it any more",
    "tables/told.yml:4:1",
    "tables/kept.yml:9:3",
    "another program dropped it",
    "moved to payments",
    "tables/shut.yml:7:1",
    "SC101",  # the code of a breaking change
    "3.2 GB, 3 small by today's limit, 20 by the new one",
    "apply records that the table is no longer declared",
    "scope auto: one order over 1 partition: according to a sample, one order saves at least a tenth of what the queries read",
    "77",
    "33",
    "p=1/f: large enough",
    "and 1 file more",
    "kept.columns.b",
]


@pytest.mark.parametrize("words", ALIKE)
def test_text_comment_and_page_say_the_same_of_every_class(words):
    text = PlanView().text(EVERY_CLASS, Paint(enabled=False))
    for shown in (text, render_markdown(EVERY_CLASS, max_bytes=60_000), render_html(EVERY_CLASS)):
        assert words in " ".join(html.unescape(shown).replace("\\", "").replace("`", "").split())


def test_json_has_what_the_other_shapes_are_made_of():
    assert decode(encode(EVERY_CLASS), name="plan.json") == EVERY_CLASS


def test_reasons_for_a_scope_hang_below_their_beginning(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = PlanView().text(EVERY_CLASS, Paint(enabled=False)).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("      scope auto: "))
    assert lines[first + 1].startswith("        ")
    assert not lines[first + 1].startswith("         ")


def test_more_partitions_than_a_few_are_shown_where_more_is_asked_for():
    (choice,) = EVERY_CLASS.evidence.forecasts["kept"].scopes
    many = RunForecast(
        scopes=tuple(dataclasses.replace(choice, partition=f"p={number}") for number in range(5))
    )
    made = plan(due={"kept": DEBT}, forecasts={"kept": many})
    short, long = (PlanView(verbose=more).text(made, Paint(enabled=False)) for more in (False, True))
    assert "p=3" not in short
    assert "and 2 partitions more; -v shows them" in short
    assert "p=4" in long
    assert "-v shows them" not in long
    assert "and 2 partitions more" in render_markdown(made, max_bytes=60_000)


def test_a_comment_without_room_keeps_the_summary_and_counts_what_it_leaves_out():
    many = plan(
        [
            action(f"mild{n}", [change(new="x" * 500)], ChangeClass.METADATA) if n % 2 else
            action(f"grave{n}", [change("columns.a", "int", None, ChangeClass.BREAKING)], ChangeClass.BREAKING)
            for n in range(20)
        ]
    )  # fmt: skip
    text = render_markdown(many, max_bytes=5_000)
    assert len(text.encode()) <= 5_000
    assert text.count("| `") == 20
    assert all(f"<code>grave{n}</code>" in text for n in range(0, 20, 2))
    assert "<code>mild19</code>" not in text
    left = int(re.search(r"the details of (\d+) tables", text)[1])
    assert left == 20 - text.count("<details><summary><code>")
    assert "<details><summary>Tables: 20</summary>" in text
    assert f"--approved {many.plan_id}" in text


words = st.text(max_size=30)
names = st.from_regex(r"[a-z]{1,20}", fullmatch=True)
changes = st.lists(
    st.builds(
        change,
        path=st.sampled_from(["description", "sizing.max_file_size", "columns.a.type", "columns.a"]),
        old=words,
        new=words,
        change_class=st.sampled_from(ChangeClass),
        allowed=st.none() | words,
        live=st.none() | words,
    ),
    max_size=4,
    unique_by=lambda c: c.path,
)
plans = st.builds(
    plan,
    st.lists(st.builds(action, table=names, changes=changes, change_class=st.sampled_from(ChangeClass)), max_size=30),
    st.lists(st.builds(blocked, table=names, changes=changes), max_size=10),
)  # fmt: skip


@given(plans, st.integers(2_000, 20_000))
def test_a_comment_never_takes_more_than_its_bytes_and_its_blocks_are_closed(made, max_bytes):
    text = render_markdown(made, max_bytes=max_bytes)
    assert len(text.encode()) <= max_bytes
    assert text.count("<details>") == text.count("</details>")
    assert text.endswith("\n```\n")


@given(plans)
def test_plans_of_any_text_round_trip_and_are_shown_in_every_shape(made):
    back = decode(encode(made), name="plan.json")
    # One table per name in a real plan: places are kept by table and path.
    assert back.plan_id == made.plan_id
    assert PlanView().text(made, Paint(enabled=False))
    annotations = render_github(made)
    assert all(line.startswith("::") for line in annotations.split("\n")[:-1])
    assert "<script>" not in render_html(made)


class Tags(HTMLParser):
    """What a page loads, and whether its elements are closed in order."""

    VOID = frozenset({"meta", "line", "rect", "br"})

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()
        self.references = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.references += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def tags_of(text):
    parser = Tags()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_a_page_is_whole_and_needs_nothing_beside_it():
    text = render_html(FULL)
    parser = tags_of(text)
    assert parser.references == []
    assert "script" not in parser.seen
    assert "url(" not in text
    assert "@import" not in text
    assert {"orders", "items", "billing"} <= set(re.findall(r"<h2><bdi>(\w+)", text))
    assert "<title>10: 20 files now</title>" in text
    assert "tables/orders.yml:9:3" in text


def test_nobody_writes_markup_into_a_page_or_a_comment():
    entry = action(
        changes=[
            change(
                "description",
                "a",
                NASTY,
                ChangeClass.POLICY,
                allowed=NASTY,
                live=NASTY,
                origin="tables/a.yml:1:1",
            )
        ]
    )
    made = plan([entry], [dataclasses.replace(blocked(), reason=NASTY)])
    assert "script" not in tags_of(render_html(made)).seen
    text = render_markdown(made, max_bytes=60_000)
    fence = re.search(r"^(`+)diff$", text, flags=re.MULTILINE)[1]
    diff = text.split(f"{fence}diff\n")[1].split(f"\n{fence}\n")[0]
    outside = text.replace(diff, "")
    assert len(fence) == 4
    assert "<script>" in diff
    assert "<script>" not in outside
    assert "@everyone" not in outside
    (notice, summary) = [line for line in render_github(made).splitlines() if line.startswith("::notice")]
    assert notice.startswith(
        "::notice file=tables/a.yml,line=1,col=1,title=orders policy::description: a -> "
    )
    assert "::error::x %250A" in notice
    assert summary.endswith("::1 blocked, 1 policy, 0 unchanged.")


def test_annotations_stand_at_the_lines_that_cause_them():
    lines = render_github(FULL).splitlines()
    assert lines[0].startswith("::error title=billing blocked SC401::")
    assert lines[1] == "::warning file=parquetry.yml,line=8,col=5,title=items SC601::not needed"
    assert lines[2].startswith("::notice file=tables/orders.yml,line=9,col=3,title=orders policy::")


def test_a_diff_of_yaml_is_yaml_on_both_sides():
    old = dataclasses.replace(SPEC, extra=Extra(description="it's: a #1", tags=("x, y",), owner="7d"))
    new = dataclasses.replace(
        old, ordering="a", columns=(*old.columns, Column(name="b", type="map<string,int>")), hive_style=False
    )
    found = spec_changes(old, new, origin=lambda _: None)
    lines = yaml_diff(action(changes=found))
    assert yaml.safe_load("\n".join(text for sign, text in lines if sign != "-")) == {
        "columns": {"b": "map<string,int>"},
        "ordering": "a",
        "partitioning": {"hive_style": False},
    }
    whole = yaml_diff(dataclasses.replace(action(), steps=(Step.CREATE, Step.RECORD), spec=old))
    assert {sign for sign, _ in whole} == {"+"}
    assert yaml.safe_load("\n".join(text for _, text in whole)) == {
        "columns": {"a": {"type": "int"}},
        "record_key": ["a"],
        "description": "it's: a #1",
        "tags": ["x, y"],
        "owner": "7d",
    }


values = st.recursive(
    st.text()
    | st.integers()
    | st.booleans()
    | st.sampled_from(["120MiB", "25d", "yes", "1e3", "0x1f", "1:30"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(values)
def test_a_value_on_a_line_of_yaml_is_read_as_itself(value):
    assert yaml.safe_load(f"k: {scalar(value)}") == {"k": value}


def test_lines_keep_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = [change(f"clustering.plan.partitions.{'x' * 20}", "a" * 20, "b" * 20, origin="tables/a.yml:100:1")]
    text = PlanView().text(
        plan([action(changes=long)], [blocked()], figures={"orders": FIGURES}), Paint(enabled=False)
    )
    assert max(map(len, text.splitlines())) <= 80


def test_a_plan_that_is_empty_and_debt_that_is_not_leads_to_run():
    owing = plan(due={"orders": DEBT})
    said = PlanView().text(owing, Paint(enabled=False))
    assert "3.2 GB to rewrite" in said
    assert said.endswith("Next: parquetry run")
    paid = dataclasses.replace(DEBT, rewrite_bytes=0, expired_files=0)
    assert "Next" not in PlanView().text(plan(due={"orders": paid}), Paint(enabled=False))
    assert isinstance(owing, PlanDocument)


def test_annotations_lead_from_the_checkout_to_a_project_below_it(tmp_path, monkeypatch):
    folder = ProjectFolder.create(tmp_path / "checkout" / "lake")
    run = CliRunner().invoke
    place = ["-p", str(folder.root)]
    assert run(command_line, ["apply", *place, "--auto-approve"]).exit_code == 0
    folder.orders(description="Another one.")
    inside, outside = folder.root / "target" / "plan.json", tmp_path / "plan.json"
    for saved in (inside, outside):
        assert run(command_line, ["plan", *place, "--out", str(saved)]).exit_code == 0
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "checkout"))

    def file_of(saved):
        (changed,) = re.findall(
            r"^::notice file=([^,]*),", run(command_line, ["show", str(saved), "--format", "github"]).stdout
        )
        return changed

    assert file_of(inside) == "lake/tables/orders.yml"
    assert file_of(outside) == "tables/orders.yml"
    monkeypatch.chdir(folder.root)
    assert file_of(outside) == "lake/tables/orders.yml"


def test_every_view_names_the_sql_that_only_spark_can_check(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    source = {"name": "landing", "format": "csv", "path": "landing/*.csv", "select": "select * from source"}
    folder.orders(columns=columns_with(half={"type": "double", "generated": "amount / 2"}), sources=[source])
    made = plan_workspace(folder.workspace(), now_ms=1)
    paths = ("columns.half.generated", "sources.landing.select")
    assert made.evidence.unchecked_sql == {"orders": paths}
    assert decode(encode(made), name="plan.json").evidence == made.evidence
    text = " ".join(PlanView().text(made, Paint(enabled=False)).split())
    for shown in (text, render_markdown(made, max_bytes=60_000), html.unescape(render_html(made))):
        assert "only Spark checks functions and types" in shown
        assert all(path in shown.replace("\\", "") for path in paths)


@pytest.mark.parametrize("plan", [EVERY_CLASS, FULL], ids=["every class", "full"])
def test_nothing_on_the_page_is_cut_on_a_narrow_screen_or_between_sheets(plan):
    page = render_html(plan)
    wide, cut = cut_elements(page)
    assert wide >= 3
    assert cut == []
    assert page.count("<div") == page.count("</div>")
    assert {"figure", "tr"} <= selectors(page, "break-inside: avoid", media="print")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"endpoint_url": None, "secure": True}, "{endpoint_url: null, secure: true}"),
        ({"config": {"retries": [1, 2]}}, "{config: {retries: [1, 2]}}"),
        ([{"a": "x"}, {}], "{a: x}, {}"),
    ],
)
def test_no_value_is_shown_as_python_has_it(value, text):
    assert value_text(value) == text


def test_a_debt_that_takes_less_than_a_second_takes_about_one():
    assert ", about 1 s at its past throughput" in debt_text(dataclasses.replace(DEBT, seconds=0))
