"""Ways in which tables decay: each raises the health line that is for it and no other, whose command repairs it."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.health import HEALTH_CHECKS, PUBLISH_HOURS
from parquetry.runtime.services.archive import ARCHIVE_BATCH
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import State, Timezone, format_instant
from tests.support.one_process_spark import OneProcessSpark
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import ShiftedStore
from tests.support.tested_layouts import orphan
from tests.support.timelines import put_pending

FULL = 1200
"""So many rows make a file of three quarters of the largest size."""

SPEC = EVENTS | {
    "sizing": {"max_file_size": "40KB", "small_file_limit": "5KB"},
    "clustering": {
        "trigger": "async",
        "plan": {"strategy": "overlap", "small_file_limit": "5KB"},
        "execution": {"strategy": "sort", "columns": ["v"]},
    },
    "retention": {"clean": {"keep_commits": 2}, "archive": {"keep_commits": 3}},
    "queries": [{"name": "first", "where": f"v < {FULL}"}],
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A project with a healthy table of three partitions, whose writes are 40 days old."""
    folder = ProjectFolder.create(tmp_path_factory.mktemp("lake") / "shop")
    (folder.root / "tables/orders.yml").unlink()
    folder.write("tables/events.yml", SPEC)
    workspace = folder.workspace()
    workspace = dataclasses.replace(workspace, open=lambda *place: ShiftedStore(open_store(*place), days=-40))
    assert apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure is None
    for number in range(3):
        fill(Shop(folder).before(40), number, "abc")
    assert Shop(folder).lines() == []
    return folder.root


@dataclass(frozen=True)
class Shop:
    """The project with its table."""

    folder: ProjectFolder

    @property
    def table(self):
        return self.before(0)

    def before(self, days):
        """The table as its writers saw it so many days ago."""
        store = open_store(self.folder.root / "warehouse/events")
        return SmallTable(ShiftedStore(store, days=-days), timing=FAST)

    def declare(self, **changes):
        self.folder.write("tables/events.yml", SPEC | changes)
        assert self.call("apply", "--auto-approve").exit_code == 0

    def call(self, *words):
        if "--project" not in words:
            words = (*words, "-p", str(self.folder.root))
        return CliRunner().invoke(command_line, words)

    def lines(self):
        """The health lines of the table as `parquetry health` answers them."""
        done = self.call("health", "--format", "json")
        assert done.exit_code == 0, done.output
        (table,) = json.loads(done.stdout)["tables"]
        return table["lines"]

    def follow(self, command):
        """Execute the command of a line; a clustering without a JVM."""
        program, *words = shlex.split(command)
        assert program == "parquetry"
        if words[:2] == ["service", "cluster"] and "--plan-only" not in words:
            cluster(OneProcessSpark(), self.table.handle, timing=FAST)
            return
        done = self.call(*words, *(["--auto-approve"] if "rollback" in words else []))
        assert done.exit_code == 0, done.output


@pytest.fixture
def shop(base, tmp_path):
    shutil.copytree(base, tmp_path / "shop")
    return Shop(ProjectFolder(tmp_path / "shop"))


def rows(numbers, partitions):
    return {f"{p}{value:06}": (value, p) for p in partitions for value in numbers}


def fill(table, number, partitions):
    """A full file for each partition, whose values no other number has."""
    table.insert(rows(range(number * FULL, (number + 1) * FULL), partitions))


def half(number, partitions):
    """Every other row of the files of a number, again."""
    return rows(range(number * FULL, (number + 1) * FULL, 2), partitions)


def tiny_appends(shop, number=8):
    """Another program appends files of a row, which the policy merges."""
    by_size = {"trigger": "async", "plan": {"strategy": "size", "small_file_limit": "5KB"}}
    shop.declare(clustering=by_size)
    for value in range(number):
        shop.table.insert({f"x{value}": (value, "a")})


def tiny_files_that_no_write_fills(shop):
    tiny_appends(shop, number=10)
    shop.declare(
        sizing={"max_file_size": "40KB", "small_file_limit": "0B"},
        clustering={"trigger": "async", "plan": {"strategy": "size", "small_file_limit": "5KB"}},
    )


def one_large_partition(shop):
    for number in range(10, 20):
        fill(shop.table, number, "a")


def shuffled_values(shop):
    """The values that files were sorted by come again in no order."""
    for number in range(2):
        shop.table.insert({f"again{v}": (v, "a") for v in range(number, 2 * FULL, 2)})


def one_shuffled_file(shop):
    """A file comes again, whose partition has less than a fifth of the bytes."""
    for number in range(3):
        shop.before(40).insert(rows(range(number * FULL, (number + 1) * FULL), "defghijklmnop"))
    shop.before(3).insert({f"again{v}": (v, "a") for v in range(FULL // 2, FULL * 3 // 2)})


def single_updates(shop):
    for number in range(10):
        shop.table.upsert({f"a{number:06}": (number, "a")})
        clean(shop.table.handle, timing=FAST)


def single_deletes(shop):
    for number in range(10):
        shop.table.delete([f"a{number:06}"])
        clean(shop.table.handle, timing=FAST)


def versions_of_deleted_savepoints(shop):
    made = []
    for _ in range(8):
        made.append(shop.table.upsert(half(0, "a")).instant)
        create_savepoint(shop.table.handle, timing=FAST)
        clean(shop.table.handle, timing=FAST)
    for instant in made:
        delete_savepoint(shop.table.handle, instant)


def no_cleans(shop):
    for number in (0, 1, 2) * 2:
        shop.table.upsert(half(number, "abc"))


def an_orphan_without_cleans(shop):
    orphan(shop.table)
    for number in range(3, 8):
        fill(shop.table, number, "abc")


def no_archivals(shop):
    for number in range(3 * ARCHIVE_BATCH + 3):
        shop.table.upsert(half(number % 3, "a"))
        if number % 4 == 0:
            clean(shop.table.handle, timing=FAST)
    clean(shop.table.handle, timing=FAST)


def a_forgotten_savepoint(shop):
    create_savepoint(shop.before(31).handle, timing=FAST)


def a_write_that_nobody_published(shop):
    shop.declare(publish={"delta": {}})
    fill(shop.before((PUBLISH_HOURS + 1) / 24), 3, "abc")


def a_write_that_has_stalled(shop, days=3):
    """Another program has begun a write, and was killed."""
    instant = format_instant(shop.before(days).store.now_ms(), Timezone.UTC)
    for state in (State.REQUESTED, State.INFLIGHT):
        put_pending(shop.table.store, instant, state=state)
    return instant


def a_failed_run(shop):
    """The services of a run fail while another program writes, whose write ends later."""
    no_cleans(shop)
    instant = a_write_that_has_stalled(shop, days=0)
    assert shop.call("run").exit_code == 5
    rollback(shop.table.handle, instant)
    clean(shop.table.handle, timing=FAST)


DECAYS = {
    "small_files": (tiny_appends,),
    "files": (tiny_files_that_no_write_fills,),
    "skew": (one_large_partition,),
    "clustering_debt": (shuffled_values, one_shuffled_file),
    "write_amplification": (single_updates, single_deletes),
    "file_versions": (versions_of_deleted_savepoints,),
    "clean": (no_cleans, an_orphan_without_cleans),
    "archive": (no_archivals,),
    "savepoints": (a_forgotten_savepoint,),
    "publish": (a_write_that_nobody_published,),
    "pending_writes": (a_write_that_has_stalled,),
    "last_run": (a_failed_run,),
}
ADVICE = {"skew", "write_amplification"}
"""Checks whose commands show the cause, which is in the spec or in what writes: they change nothing."""


def test_each_check_has_a_decay():
    assert [*sorted(DECAYS)] == sorted(check.name for check in HEALTH_CHECKS)
    assert len(DECAYS) == 12


@pytest.mark.parametrize(
    ("check", "decay"), [(check, decay) for check, decays in DECAYS.items() for decay in decays]
)
def test_a_decay_raises_its_line_alone_until_the_command_was_executed(shop, check, decay):
    decay(shop)
    (line,) = shop.lines()
    assert line["check"] == check
    shop.follow(line["command"])
    assert [one["check"] for one in shop.lines()] == [check] * (check in ADVICE)
