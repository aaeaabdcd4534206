"""The pages and the comment with much on them: for pictures, and for tests in a browser.

`hostile` texts are long, run from right to left, or are markup.
"""

from __future__ import annotations

from dataclasses import replace

from parquetry.cli.views.inspect import InspectView
from parquetry.cli.views.pages.run import render_run
from parquetry.cli.views.pages.tests import render_tests
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.simulation import ReplayView
from parquetry.compiler.evidence.model import DueFigures, QueryFigures, TableFigures
from parquetry.compiler.evidence.money import CostForecast, PlanPrices, QueryScan, plan_costs, table_costs
from parquetry.compiler.evidence.run_order import DeferralReason, RankedRewrite, RateBasis, RunOrder
from parquetry.compiler.jobs.results import JobOutcome, RunResult
from parquetry.compiler.plan.codec import plan_of
from parquetry.compiler.plan.model import (
    Blocked,
    Change,
    ChangeClass,
    Evidence,
    GuardrailVerdict,
    Intent,
    PlanDocument,
    PlanWarning,
    RecipeStep,
    Step,
    TableAction,
)
from parquetry.compiler.replay.model import Replay, ReplayedDay, ReplayedFigures
from parquetry.compiler.reports.inspection import LayoutReport, PartitionReport, QueryReport, Share
from parquetry.compiler.reports.replay import ReplayReport
from parquetry.compiler.testing.history import PastOutcome, PastTest, TestHistory
from parquetry.compiler.testing.model import LimitOutcome, Outcome, Status, TableTests
from parquetry.project.guardrails.model import RuleOutcome
from parquetry.project.model.prices import Prices
from parquetry.project.model.table_tests import Unit
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.queries import MeasuredQuery
from parquetry.runtime.clustering.forecast.work import WorkBasis, WorkForecast
from parquetry.runtime.clustering.plan.execution import ClusteringResult
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.main import JobResult, ServiceResult
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, TableSpec, TableTest

HOSTILE = (
    "<script>document.title='taken'</script><img src=https://evil.example/x.png onerror=document.title='taken'>",
    "\u202eevil\u2066 \u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "a_name_that_never_ends_" * 8,
    "'\"></td></table></style><style>*{display:none}</style>",
)
GIB = 2**30
PRICES = PlanPrices.of(
    Prices.of(
        {
            "currency": "EUR",
            "storage_gib_month": 0.02,
            "read_requests_million": 0.4,
            "write_requests_million": 5,
            "core_hour": 0.05,
            "scanned_tib": 5,
        }
    )
)


def pages(*, hostile: bool = False) -> dict[str, str]:
    """The pages by name."""
    return {
        "plan": render_html(a_plan(hostile=hostile)),
        "layout": InspectView().html(_layout(hostile=hostile)),
        "tests": render_tests(_tests(hostile=hostile), _history()),
        "replay": ReplayView().html(_replay(hostile=hostile)),
        "run": render_run(_run(hostile=hostile), target="prod", history=_history(), with_options=str),
    }


def comment(*, hostile: bool = False) -> str:
    """The plan as Markdown."""
    return render_markdown(a_plan(hostile=hostile), max_bytes=60_000)


def a_plan(*, hostile: bool = False) -> PlanDocument:
    """A blocked table, a denied one, changes of several classes, and an overridden guardrail."""
    wild = HOSTILE if hostile else ("finance owns it",)
    sizing = Change(
        path="sizing.max_file_size",
        old="120MiB",
        new="256MiB",
        code="SC201",
        change_class=ChangeClass.POLICY,
        origin="tables/trips.yml:14:3",
    )
    columns = replace(sizing, path="clustering.execution.columns", old=["day"], new=["zone", "day"])
    told = [
        Change(
            path="description",
            old="Trips",
            new=text,
            code="SC101",
            change_class=ChangeClass.METADATA,
            origin="tables/zones.yml:3:1",
        )
        for text in wild
    ]
    dropped = Change(
        path="columns.legacy_code",
        old="string",
        new=None,
        code="SC310",
        change_class=ChangeClass.BREAKING,
        origin="tables/zones.yml:9:3",
        reason="rows lose the values of the column",
        allowed="nobody has read it since March",
    )
    key = replace(
        dropped, path="record_key", old=["invoice_id"], new=["invoice_id", "line"], origin=None, allowed=None
    )
    overridden = GuardrailVerdict(
        guardrail="large-files", severity=RuleOutcome.DENY, allowed="agreed with ops"
    )
    warned = GuardrailVerdict(guardrail="gold-has-tests", severity=RuleOutcome.WARN)
    actions = (
        _action("trips", (sizing, columns), ChangeClass.POLICY, tests=3, guardrails=(overridden,)),
        _action("zones", (*told, dropped), ChangeClass.BREAKING, guardrails=(warned,)),
        _action("weather_by_station_and_hour", (), ChangeClass.CREATE),
    )
    blocked = (
        _blocked("invoices", "SC401", (key,), wild[0] if hostile else "the record key changed"),
        Blocked(
            table="payments",
            location="s3://lake/payments",
            code="SC801",
            reason="guardrail approved-large (guardrails/approved-large.yml) denies this: rewrites 1.4 TB without the tag",
            remedy='change the spec until approved-large is fulfilled, or add to parquetry.yml: `allow: [{code: SC801, guardrail: approved-large, table: payments, reason: "..."}]`',
        ),
    )
    intent = Intent(
        project="lake",
        target="prod",
        git_commit="5d41402abc4b2a76b9719d911017c592ab12cd34",
        parquetry="0.1.0",
        actions=actions,
        blocked=blocked,
    )
    warnings = [
        PlanWarning(code="SC802", table="zones", message=f"guardrail gold-has-tests: {text}", origin="tables/zones.yml:1:1")
        for text in (wild if hostile else ("zones is gold and declares no tests",))
    ]  # fmt: skip
    evidence = Evidence(
        created_ms=1_795_392_000_000,
        tables=14,
        figures={"trips": _figures()},
        warnings=tuple(warnings),
        costs=plan_costs((_costs(),), PRICES),
        drift=(replace(sizing, path="zones.columns.code", old="int", new=None, live=wild[-1]),),
    )
    return plan_of(intent, evidence)


def _action(table, changes, change_class, *, tests=0, guardrails=None):
    kind = TableTest(kind="max_small_files", arguments={"error": 100}, severity="error")
    steps = (Step.CREATE, Step.RECORD) if change_class is ChangeClass.CREATE else (Step.RECORD,)
    return TableAction(
        table=table,
        location=f"s3://lake/{table}",
        change_class=change_class,
        code={ChangeClass.CREATE: "SC001", ChangeClass.BREAKING: "SC310"}.get(change_class, "SC201"),
        steps=steps,
        changes=changes,
        requirements=Requirements(exists=True),
        spec=TableSpec(
            name=table,
            columns=(Column(name="id", type="bigint"), Column(name="day", type="date")),
            record_key=("id",),
            extra=Extra(tests=(kind,) * tests),
        ),
        guardrails=guardrails,
    )


def _blocked(table, code, changes, reason):
    return Blocked(
        table=table,
        location=f"s3://lake/{table}",
        code=code,
        reason=reason,
        remedy="make a new table beside it, then swap",
        changes=changes,
        recipe=(
            RecipeStep(text=f"Keep the wanted spec as tables/{table}_v2.yml.", commands=(f"cp tables/{table}.yml tables/{table}_v2.yml",)),
            RecipeStep(text="Fill the new table, then swap."),
        ),
    )  # fmt: skip


def _figures():
    def query(name, now, expected):
        return QueryFigures(
            query=name,
            total=412,
            total_after=96,
            now=Reads(files=now, row_groups=4 * now, rows=90_000 * now, data_bytes=now * 20 * 2**20),
            expected=Reads(
                files=expected,
                row_groups=4 * expected,
                rows=400_000 * expected,
                data_bytes=expected * 90 * 2**20,
            ),
            rows=37_000_000,
            sampled=True,
        )

    return TableFigures(
        costs=_costs(),
        instant="20261121000000000",
        files=412,
        size_bytes=24 * GIB,
        small_files_before=380,
        small_files_after=401,
        sizes_before=(310, 52, 18, 11, 6, 5, 4, 3, 2, 1, 0),
        sizes_after=(0, 0, 0, 0, 1, 2, 0, 4, 11, 78, 0),
        queries=(query("by_zone", 180, 6), query("far", 120, 9), query("latest_day", 3, 5)),
        debt=DueFigures(
            rewrite_bytes=22 * GIB,
            rewrite_files=401,
            files_after=96,
            small_files=20,
            small_bytes=10**8,
            expired_files=31,
            expired_bytes=2 * GIB,
            budget_bytes=8 * GIB,
            runs=3,
            seconds=2_700,
        ),
    )


def _costs():
    work = WorkForecast(
        read_bytes=22 * GIB,
        written_bytes=PredictionInterval(low=18 * GIB, high=21 * GIB),
        core_milliseconds=PredictionInterval(low=3_600_000, high=7_200_000),
        read_requests=PredictionInterval.exactly(1_000_000),
        write_requests=PredictionInterval(low=100_000, high=200_000),
        basis=WorkBasis(past_bytes=6, past_throughputs=5, throughput=30 * 2**20, sampled=True),
    )
    scan = QueryScan(
        query="by_zone",
        runs_per_day=40,
        now_bytes=4 * GIB,
        expected_bytes=PredictionInterval(low=GIB // 2, high=GIB),
        now_requests=2_000,
        expected_requests=PredictionInterval(low=200, high=400),
        past=6,
    )
    forecast = CostForecast(
        work=work,
        storage_bytes=PredictionInterval(low=-4 * GIB, high=-GIB),
        kept_bytes=22 * GIB,
        kept_seconds=PredictionInterval.exactly(15 * 86_400),
        queries=(scan,),
    )
    return table_costs(forecast, PRICES)


def _layout(*, hostile):
    names = [f"day=2026-11-{day:02}" for day in range(14, 22)] + [
        f"day={text}" for text in HOSTILE if hostile
    ]
    share = Share(read=31, total=412)
    queries = tuple(
        QueryReport(name=name, files=share, row_groups=share, rows=Share(read=3_100_000, total=37_000_000))
        for name in ("by_zone", "far", *(HOSTILE if hostile else ()))
    )
    partitions = tuple(
        PartitionReport(
            path=name,
            small_files=5 * number,
            rows=400_000 * (number + 2),
            file_sizes_bytes=tuple(2**20 * (3 + 11 * (file * file % (number + 9))) for file in range(12 + 2 * number)),
        )
        for number, name in enumerate(names)
    )  # fmt: skip
    return LayoutReport(
        table="trips",
        instant="20261121000000000",
        partitions=partitions,
        queries=queries,
        clustering=None,
        warnings=HOSTILE if hostile else ("2 files are smaller than their commits say",),
        debt=_figures().debt,
    )


def _replay(*, hostile):
    def figures(files, size):
        return ReplayedFigures(
            files=files,
            small_files=files // 3,
            size_bytes=size * GIB,
            superseded_bytes=GIB,
            written_bytes=2 * size * GIB,
            clustered_bytes=size * GIB // 2,
        )

    days = tuple(
        ReplayedDay(
            day=f"2026-{10 + number // 30}-{1 + number % 30:02}",
            commits=4,
            arrived_bytes=GIB,
            recorded=figures(20 + 7 * number, 3 + number),
            applied=figures(20 + 7 * number, 3 + number),
            declared=figures(12 + 2 * number, 3 + number),
        )
        for number in range(0, 50, 5)
    )
    replay = Replay(
        since="20261001000000000",
        until="20261121000000000",
        commits=200,
        clusterings=9,
        arrived_bytes=50 * GIB,
        applied_limits=SizingPolicy(),
        declared_limits=replace(SizingPolicy(), max_file_size_bytes=256 * 2**20),
        recorded=days[-1].recorded,
        applied=days[-1].applied,
        declared=days[-1].declared,
        days=days,
        gaps=HOSTILE if hostile else ("3 commits recorded no rows by partition",),
    )
    return ReplayReport(table="trips", seconds=90 * 86_400, replay=replay)


def _tests(*, hostile):
    wild = HOSTILE if hostile else ("the statistics count no nulls, as in files that lack the column",)

    def outcome(test, kind, status, *limits, **rest):
        return Outcome(
            table=rest.pop("table", "trips"),
            test=test,
            kind=kind,
            status=status,
            limits=limits,
            origin="tables/trips.yml:21:5",
            **rest,
        )

    def limit(key, unit, status, value, **rest):
        return LimitOutcome(limit=key, unit=unit, status=status, value=value, **rest)

    passed, warned, failed = Status.PASSED, Status.WARNED, Status.FAILED
    return TableTests(
        run_id="20261122T020004-51be20",
        target="prod",
        outcomes=(
            outcome("max_small_files", "max_small_files", warned, limit("max_small_files", Unit.COUNT, warned, 14.0, warn=10, error=100)),
            outcome("lately", "max_partition_files", passed, limit("max_partition_files", Unit.COUNT, passed, 6.0, warn=20, partition="day=2026-11-20"), where="day >= current_date - 7"),
            outcome("query_far", "query", failed, limit("max_files", Unit.COUNT, failed, 31.0, error=10)),
            outcome(
                "clustering_debt",
                "clustering_debt",
                passed,
                limit("max_bytes", Unit.BYTES, passed, 4.2e9, error=10 * GIB),
                limit("max_age", Unit.SECONDS, passed, 260_000.0, error=604_800),
            ),
            outcome("max_commit_age", "max_commit_age", passed, limit("max_commit_age", Unit.SECONDS, passed, 18_000.0, error=93_600)),
            *(outcome(f"not_null_{number}" if not hostile else text, "not_null", Status.NOT_EXECUTED, reason=text, table="zones", failures=f"target/{text}" if hostile else "target/failures/zones/not_null_0.json") for number, text in enumerate(wild)),
            outcome("max_drift", "max_drift", Status.UNMEASURED, reason="the table is not there", table="weather_by_station_and_hour"),
        ),
    )  # fmt: skip


def _history():
    def runs(values, key, error, warn=None):
        for number, value in enumerate(values):
            status = (
                Status.FAILED if value > error else Status.WARNED if warn and value > warn else Status.PASSED
            )
            yield PastOutcome(run_id=f"202611{number:02}T020000-000000", status=status, values={key: value})

    def past(test, key, values, error, warn=None):
        return PastTest(table="trips", test=test, runs=tuple(runs(values, key, error, warn)))

    return TestHistory(
        target="prod",
        tests=(
            past("max_small_files", "max_small_files", [3.0, 4, 4, 6, 5, 7, 8, 8, 9, 11, 12, 14], 100, 10),
            past("query_far", "max_files", [2.0, 2, 2, 3, 3, 2, 4, 8, 9, 14, 22, 31], 10),
            past("clustering_debt", "max_bytes", [1e9, 2e9, 3e9, 1e8, 1.1e9, 2.2e9, 3.1e9, 4.2e9], 10 * GIB),
            past("max_commit_age", "max_commit_age", [18_000.0] * 12, 93_600),
        ),
    )


def an_order():
    """One table that is taken, one in part, and one that waits."""

    def ranked(table, gain, taken, deferred=0, reason=None):
        return RankedRewrite(
            table=table,
            gain_bytes=gain,
            priority=1,
            delay_seconds=90_000,
            is_overdue=False,
            taken_groups=taken,
            taken_bytes=taken * 3 * GIB,
            seconds=taken * 60.0,
            bytes_per_second=50 * 2**20,
            rate_basis=RateBasis.TABLE,
            deferred_groups=deferred,
            deferred_bytes=deferred * 2 * GIB,
            reason=reason,
        )

    tables = (
        ranked("trips", 40 * GIB, 3),
        ranked("weather_by_station_and_hour", 2 * GIB, 1, 4, DeferralReason.BUDGET),
        ranked("zones", 0, 0, 2, DeferralReason.COOLDOWN),
    )
    return RunOrder(starts_ms=1_795_312_800_000, rewrite_bytes=12 * GIB, seconds=10_800, tables=tables)


def _run(*, hostile):
    def touched(number):
        return Reads(files=number, row_groups=2 * number, rows=9_000 * number, data_bytes=number * 2**20)

    measured = MeasuredQuery.of("by_zone", before=touched(180), expected=touched(6), after=touched(7))
    ingested = CommitResult(
        instant="20261122020005123",
        action="commit",
        operation="upsert",
        inserted_rows=1_204_551,
        updated_rows=38_120,
        deleted_rows=12,
        files_added=9,
        files_rewritten=31,
        bytes_written=4_201_000_000,
        warnings=HOSTILE if hostile else ("3 deletes found no row",),
    )
    clustered = ClusteringResult(
        instants=("20261122020105123",),
        groups=3,
        rows=9_000_000,
        files_before=180,
        files_after=41,
        bytes_before=8 * GIB,
        bytes_after=7 * GIB,
        queries=(measured,),
    )
    failure = StalePlanError(HOSTILE[0] if hostile else "another spec is applied than is declared")
    return RunResult(
        run_id="20261122T020004-51be20",
        order=an_order(),
        tests=_tests(hostile=hostile),
        outcomes=(
            JobOutcome(table="trips", name="landing", result=JobResult(table="trips", job="landing", files_read=12, commit=ingested)),
            JobOutcome(table="trips", name="cluster", result=JobResult(table="trips", job="cluster", clustering=clustered)),
            JobOutcome(table="trips", name="services", result=JobResult(table="trips", job="services", services=ServiceResult(files_cleaned=31, instants_archived=4))),
            JobOutcome(table="zones", name="open", error=failure),
            JobOutcome(table="weather_by_station_and_hour", name="services", result=JobResult(table="weather", job="services")),
        ),
    )  # fmt: skip
