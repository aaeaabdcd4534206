"""The gain of a run's order, against the best order in hindsight: ``python -m benchmarks.run_order``.

Arrivals are generated from a seed. Each night ranks by ``rank_rewrites``, as ``run`` does, with predicted
gains and throughputs; the figures are by the real ones. Writes RUN_ORDER.md, below ``BENCH_OUT`` where that
is set.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from benchmarks.tables import table, verdict
from parquetry.compiler.evidence.run_order import (
    DueRewrite,
    RankedRewrite,
    RunLimits,
    rank_rewrites,
    usual_throughput,
)
from tools.wrap_markdown import wrapped

HERE = Path(__file__).resolve().parent
DAY = 86_400.0
MIB = 1024 * 1024
SEED = 31
ROWS = ((0.3, 7), (0.5, 7), (0.5, 30), (0.8, 7), (1.0, 7))
"""The budget of a night as a part of what arrives, and ``max_delay`` in days."""
WANTED = 0.9
"""The least part of the best gain in hindsight that an order must reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """Tables with the groups that become due on each day.

    ``density`` is the bytes a day that queries no longer read for each rewritten byte, ``rate`` the bytes a
    second, both as they are; ``expected`` is the density as it was predicted. Group sizes are by table and
    day.
    """

    density: Sequence[float]
    expected: Sequence[float]
    rate: Sequence[float]
    arrivals: Sequence[Sequence[Sequence[int]]]

    @property
    def days(self) -> int:
        return len(self.arrivals[0])

    @property
    def nightly_bytes(self) -> float:
        return sum(sum(map(sum, of_table)) for of_table in self.arrivals) / self.days

    @property
    def nightly_seconds(self) -> float:
        days = zip(self.arrivals, self.rate, strict=True)
        return sum(sum(map(sum, of_table)) / rate for of_table, rate in days) / self.days


def generated(tables: int, days: int, *, seed: int = SEED, largest_group: int = 2048 * MIB) -> Lake:
    """Tables of very different sizes: a few have most of the bytes, a fifth has no queries."""
    draw = random.Random(seed)
    density = [0.0 if draw.random() < 0.2 else draw.lognormvariate(0, 1.5) for _ in range(tables)]
    arrivals = []
    for _ in range(tables):
        usual, often = draw.lognormvariate(6, 1.5) * MIB, draw.choice([1.0, 0.7, 0.3, 0.1])
        of_table = []
        for _ in range(days):
            size = int(usual * draw.lognormvariate(0, 0.5)) if draw.random() < often else 0
            whole, rest = divmod(size, largest_group)
            of_table.append([largest_group] * whole + [rest] * (rest > 0))
        arrivals.append(of_table)
    return Lake(
        density=density,
        expected=[each * draw.lognormvariate(0, 0.25) for each in density],
        rate=[draw.lognormvariate(0, 0.3) * 100 * MIB for _ in range(tables)],
        arrivals=arrivals,
    )


@dataclass(slots=True, kw_only=True)
class Nights:
    """The result of all nights. ``excess_groups`` is the largest excess over the bytes, in the run's groups.

    A table waits since its oldest due file or its last clustering, a group since its file was written.
    """

    gain: float = 0
    rewritten: int = 0
    longest_wait_days: float = 0
    longest_group_wait_days: int = 0
    over_bytes: int = 0
    excess_groups: int = 0
    over_seconds: float = 0
    deferrals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ranking_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A due group. ``benefit`` decides about the order within its table, as for the groups of a debt."""

    day: int
    benefit: float
    size: int


def simulate(
    lake: Lake,
    *,
    budget_bytes: float,
    budget_seconds: float,
    max_delay_days: float,
    rank_every: int = 1,
    seed: int = SEED,
) -> Nights:
    """Run every night by ``rank_rewrites``, which ranks again after ``rank_every`` tables."""
    draw = random.Random(seed + 1)
    result = Nights()
    waiting: list[list[Waiting]] = [[] for _ in lake.density]
    since: list[float | None] = [None for _ in lake.density]
    measured: dict[int, float] = {}
    for day in range(lake.days):
        for number, of_table in enumerate(lake.arrivals):
            if of_table[day] and since[number] is None:
                since[number] = day
            arrived = (Waiting(day=day, benefit=draw.random(), size=size) for size in of_table[day])
            waiting[number] = in_order([*waiting[number], *arrived])
        due = {
            f"t{number}": DueRewrite(
                table=f"t{number}",
                groups=tuple((group.size, 1) for group in groups),
                max_groups=30,
                gain_bytes=lake.expected[number] * sum(group.size for group in groups),
                delay_seconds=(day - (since[number] or 0)) * DAY,
                bytes_per_second=measured.get(number),
            )
            for number, groups in enumerate(waiting)
            if groups
        }
        result.longest_wait_days = max(
            [result.longest_wait_days, *(one.delay_seconds / DAY for one in due.values())]
        )
        result.longest_group_wait_days = max(
            [result.longest_group_wait_days, *(day - groups[0].day for groups in waiting if groups)]
        )
        limits = RunLimits(
            rewrite_bytes=int(budget_bytes),
            seconds=budget_seconds,
            max_delay_seconds=max_delay_days * DAY,
            usual_bytes_per_second=usual_throughput(due.values()),
        )
        started = time.process_time()

        def rate_now(number: int) -> float:
            return lake.rate[number] * draw.lognormvariate(0, 0.1)

        for chosen in night(due, limits, rate_now, result, rank_every=rank_every):
            number = int(chosen.table[1:])
            result.gain += lake.density[number] * chosen.taken_bytes * (lake.days - day)
            result.rewritten += chosen.taken_bytes
            waiting[number] = in_order(taken_out(waiting[number], chosen))
            since[number] = day if waiting[number] else None
            measured.setdefault(number, lake.rate[number] * draw.lognormvariate(0, 0.1))
        result.ranking_seconds.append(time.process_time() - started)
    return result


def night(due, limits, rate_now, result, *, rank_every) -> Iterator[RankedRewrite]:
    """Yield the tables of a night in their order; real throughputs decide what time is left."""
    spent_bytes, spent_seconds, groups = 0, 0.0, 0
    while True:
        left = max(limits.seconds - spent_seconds, 0)
        ranked = rank_rewrites(tuple(due.values()), replace(limits, spent_bytes=spent_bytes, seconds=left))
        taken = [one for one in ranked if one.taken_groups][:rank_every]
        if not taken:
            break
        for chosen in taken:
            del due[chosen.table]
            spent_bytes += chosen.taken_bytes
            spent_seconds += chosen.taken_bytes / rate_now(int(chosen.table[1:]))
            groups += chosen.taken_groups
            yield chosen
    for one in ranked:
        result.deferrals[str(one.reason)] += 1
    over = max(spent_bytes - limits.rewrite_bytes, 0)
    result.over_bytes = max(result.over_bytes, over)
    result.excess_groups = max(result.excess_groups, groups if over else 0)
    result.over_seconds = max(result.over_seconds, spent_seconds - limits.seconds)


def in_order(groups: list[Waiting]) -> list[Waiting]:
    """The groups as a debt orders them: the oldest first, then by benefit."""
    ordered = sorted(groups, key=lambda group: -group.benefit)
    oldest = min(ordered, key=lambda group: group.day, default=None)
    return sorted(ordered, key=lambda group: group is not oldest)


def taken_out(groups: list[Waiting], chosen: RankedRewrite) -> list[Waiting]:
    """The groups that remain. The run takes them in their order and leaves those that do not fit."""
    left, open_bytes, open_groups = [], chosen.taken_bytes, chosen.taken_groups
    for group in groups:
        if open_groups and group.size <= open_bytes:
            open_bytes, open_groups = open_bytes - group.size, open_groups - 1
        else:
            left.append(group)
    assert not open_bytes
    assert not open_groups
    return left


def best_in_hindsight(lake: Lake, *, budget_bytes: float, budget_seconds: float) -> float:
    """An upper bound of the gain of any order: real gains known, groups divisible, the easier limit dropped.

    No table has to come first after a delay. With one limit and divisible groups, it is best to rewrite on
    each night what gains most for each unit of the limit. The bound is the smaller of those for the bytes
    and for the time.
    """
    by_bytes = [1.0] * len(lake.rate)
    by_seconds = [1 / rate for rate in lake.rate]
    return min(_bound(lake, budget_bytes, by_bytes), _bound(lake, budget_seconds, by_seconds))


def _bound(lake: Lake, budget: float, cost: Sequence[float]) -> float:
    order = sorted(range(len(cost)), key=lambda number: -lake.density[number] / cost[number])
    waiting = [0.0] * len(cost)
    gain = 0.0
    for day in range(lake.days):
        for number, of_table in enumerate(lake.arrivals):
            waiting[number] += sum(of_table[day])
        left = budget
        for number in order:
            taken = min(waiting[number], left / cost[number])
            waiting[number] -= taken
            left -= taken * cost[number]
            gain += lake.density[number] * taken * (lake.days - day)
    return gain


def in_turns(lake: Lake, *, budget_bytes: float) -> float:
    """The gain if the table that was clustered longest ago comes first, as without ``operations``."""
    waiting, served, gain = [0.0] * len(lake.rate), [-1] * len(lake.rate), 0.0
    for day in range(lake.days):
        for number, of_table in enumerate(lake.arrivals):
            waiting[number] += sum(of_table[day])
        left = budget_bytes
        for number in sorted(range(len(served)), key=lambda number: served[number]):
            taken = min(waiting[number], left)
            if taken:
                waiting[number] -= taken
                left -= taken
                served[number] = day
                gain += lake.density[number] * taken * (lake.days - day)
    return gain


def page(tables: int = 1000, days: int = 30) -> tuple[str, bool]:
    lake = generated(tables, days)
    rows, are_good = [], True
    for share, max_delay in ROWS:
        budget_bytes, budget_seconds = lake.nightly_bytes * share, lake.nightly_seconds * share
        found = simulate(
            lake,
            budget_bytes=budget_bytes,
            budget_seconds=budget_seconds,
            max_delay_days=max_delay,
            rank_every=20,
        )
        best = best_in_hindsight(lake, budget_bytes=budget_bytes, budget_seconds=budget_seconds)
        reached = found.gain / best
        are_good &= found.excess_groups <= 1 and reached >= WANTED
        rows.append(
            (
                f"{share:.0%}",
                f"{max_delay}d",
                f"{reached:.1%}",
                f"{in_turns(lake, budget_bytes=budget_bytes) / best:.1%}",
                f"{found.longest_wait_days:.0f} days",
                f"{found.longest_group_wait_days} days",
                f"{found.over_bytes / MIB:,.0f} MiB",
                f"{max(found.over_seconds, 0) / budget_seconds:.1%}",
                f"{median(found.ranking_seconds):.1f} s",
            )
        )
        print(rows[-1], dict(found.deferrals), flush=True)
    header = (
        "budget",
        "max_delay",
        "gain of the best",
        "gain in turns",
        "longest wait of a table",
        "of a group",
        "over the bytes",
        "over the time",
        "ranking, CPU a night",
    )
    lines = "\n".join(table(header, rows)).rstrip()
    text = f"""# The order of a run

{tables:,} tables with {days} days of arrivals, **generated** from seed {SEED}: no recorded lake. Sizes and gains are
log-normal, so that a few tables have most of them; a fifth of the tables has no queries. Tables get due files on 10 %
to 100 % of the days, in groups of at most 2 GiB, on average {lake.nightly_bytes / 1024 / MIB:,.0f} GiB a day in all.
Predicted gains are off by a quarter, throughputs by a tenth; the first one is assumed.

Each night ranks by the function of `plan --due` and `run`, and again after each 20 tables (`run`: before each table). The budget of a night, in bytes and
in time, is a part of what arrives in a day on average. The gain of a rewrite counts for the days that remain.

{lines}

- *Gain of the best*: the part of an upper bound in hindsight. It knows the real gains, divides groups, drops the easier
  of the two limits, and ignores `max_delay`, so no order reaches it.
- *Gain in turns*: the table that was clustered longest ago comes first, as without `operations`, with divisible groups
  and without a limit of time.
- *Longest wait of a table*: since its oldest due file or its last clustering. An overdue table comes first with its
  oldest group alone, so that a small budget does not go to overdue tables as a whole.
- *Longest wait of a group*: since its files were written. A budget that is smaller than what arrives leaves a growing
  rest: of the tables that gain least, only the oldest group is rewritten each time.
- *Over the bytes*, *over the time*: the most that a night exceeded its budget. The time that is left is known after
  each 20 tables, and each of them rewrites all that it was given. `run` knows it before each table, and stops between
  groups.

At least {WANTED:.0%} of the bound in every row, and the bytes of no night exceeded by more than one group: {verdict(reached=are_good)}. `python -m benchmarks.run_order` writes this page.
"""
    return wrapped(text), are_good


def main() -> int:
    text, are_good = page()
    (Path(os.environ.get("BENCH_OUT", HERE)) / "RUN_ORDER.md").write_text(text, encoding="utf-8")
    return 0 if are_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
