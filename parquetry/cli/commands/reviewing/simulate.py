"""`parquetry simulate`: try limits and layouts without writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from parquetry.cli.command_group import CommandGroup
from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output
from parquetry.runtime.spec.sizing import MAX_FILE_SIZE_BYTES


def size(value: str) -> int:
    """Return the bytes of a text such as ``120MiB`` or ``1000B``.

    Raises:
        click.BadParameter: The text is not a size, such as a number other than 0 without a unit.

    """
    from parquetry.project.validation.units import size_bytes

    try:
        return size_bytes(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is not a size: write a number with a unit, such as 120MiB or 1000B"
        ) from error


def sizes(value: str) -> tuple[int, ...]:
    """Return the sizes in a text with commas, in their order; an empty tuple for an empty text."""
    return tuple(size(part.strip()) for part in value.split(",") if part.strip())


def duration(value: str) -> int:
    """Return the seconds of a text such as ``90d``.

    Raises:
        click.BadParameter: The text is not a duration, or it is 0.

    """
    from parquetry.project.validation.units import duration_seconds

    try:
        seconds = duration_seconds(value)
    except ValueError:
        seconds = 0
    if seconds == 0:
        raise click.BadParameter(
            f"{value!r} is not a duration: write a number with s, m, h, d or w, such as 90d"
        )
    return seconds


def rows(value: str) -> int | None:
    """Return a number of rows above 0, or None for ``auto``."""
    if value == "auto":
        return None
    text = value.replace("_", "")
    if not text.isdecimal() or int(text) == 0:
        raise click.BadParameter(f"{value!r} is neither a number of rows above 0 nor auto")
    return int(text)


@click.group(name="simulate", cls=CommandGroup)
def command() -> None:
    """Try limits on file sizes, and layouts on a table's own files, without writing."""


@command.command("sizing")
@click.argument("table", required=False, shell_complete=completion.tables)
@click.option("--files", type=sizes, metavar="SIZE,...", help="Sizes of existing files, such as 40MB,80MB.")
@click.option("--inserts", type=click.IntRange(min=0), help="New rows.")
@click.option("--partition", help="Partition of TABLE, such as origin=EWR.")
@click.option(
    "--replay",
    "replay_seconds",
    type=duration,
    metavar="DURATION",
    help="Lay out anew what was written to TABLE since then, such as 90d.",
)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Save the replay as a page.")
@click.option(
    "--record-size",
    "record_size_bytes",
    type=size,
    metavar="SIZE",
    help="Bytes per row; learned from TABLE, else 1024B.",
)
@click.option(
    "--max-file-size",
    "max_file_size_bytes",
    type=size,
    metavar="SIZE",
    help=f"Size up to which files are filled; {MAX_FILE_SIZE_BYTES // 2**20}MiB.",
)
@click.option(
    "--small-file-limit",
    "small_file_limit_bytes",
    type=size,
    metavar="SIZE",
    help="Size below which files are filled, 0 is off; 100MiB.",
)
@click.option("--insert-split-size", type=rows, metavar="ROWS|auto", help="Rows per new file; auto.")
@click.option("--min-fill", type=click.FloatRange(0, 1), help="Least gain for which a file is rewritten; 0.")
@table_options
@output_options("text", "json")
def sizing(
    *,
    request: ProjectRequest,
    output: Output,
    table: str | None,
    files: tuple[int, ...] | None,
    inserts: int | None,
    partition: str | None,
    replay_seconds: int | None,
    html: Path | None,
    **limits: Any,
) -> int:
    """Show how many rows a write would add to which file.

    With --files, for existing files of these sizes, called File_1, File_2, ...; with TABLE (a name,
    or a path or URI), for the live files of one of its partitions. With --replay, show what the
    applied and the declared limits (or those given as options) make of the writes that the timeline
    of TABLE records, day by day.
    """
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.cli.views.simulation import ReplayView, SimulationView
    from parquetry.compiler.reports.simulate_sizing import Limits, simulate_given, simulate_table

    if replay_seconds is not None:
        from parquetry.cli.requests.saving import save
        from parquetry.compiler.reports.replay import replay_table

        if table is None or (files, inserts, partition) != (None, None, None):
            raise click.UsageError("--replay takes a TABLE, and no --files, --inserts or --partition")
        named = table_named(request, table)
        report = replay_table(
            named.store, seconds=replay_seconds, limits=Limits(**limits), declared=named.declared
        )
        if html is not None:
            save(html, ReplayView().html(report), option="--html", project=request.directory)
        output.show(ReplayView(), report)
        return 0
    if html is not None:
        raise click.UsageError("--html is for --replay")
    if inserts is None:
        raise click.UsageError("give --inserts ROWS, or --replay DURATION")
    if (table is None) == (files is None):
        raise click.UsageError("give either --files SIZE,... or the name of a TABLE")
    if table is None:
        outcome = simulate_given(files or (), inserts=inserts, limits=Limits(**limits))
    else:
        named = table_named(request, table)
        outcome = simulate_table(
            named.store,
            inserts=inserts,
            limits=Limits(**limits),
            partition=partition,
            declared=named.declared,
        )
    output.show(SimulationView(), outcome)
    return 0


@command.command("clustering")
@click.argument("table", shell_complete=completion.tables)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    metavar="NAME",
    help="stitch, sort, zorder, hilbert or a plug-in.",
)
@click.option(
    "--columns",
    "column_lists",
    multiple=True,
    metavar="COLUMN,...",
    help="Columns to cluster by; those of the policy.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["auto", "group", "partition"]),
    help="Extent of one order; as in the policy.",
)
@click.option("--suggest", is_flag=True, help="Rank the layouts that suit the declared queries.")
@table_options
@output_options("text", "json")
def clustering(
    *,
    request: ProjectRequest,
    output: Output,
    table: str,
    strategies: tuple[str, ...],
    column_lists: tuple[str, ...],
    scopes: tuple[str, ...],
    suggest: bool,
) -> int:
    """Compare what declared queries would read of TABLE with several layouts.

    Options may be repeated: the command tries every strategy with every list of columns in every
    scope. It reads a bounded sample of the files and writes nothing. TABLE is a name in the
    project, or a path or URI.
    """
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.cli.views.candidates import CandidatesView, SuggestionView
    from parquetry.compiler.evidence.money import PlanPrices
    from parquetry.compiler.reports.suggestion import simulate_layouts
    from parquetry.compiler.reports.suggestion import suggest as suggested
    from parquetry.runtime.spec.clustering import ClusteringScope

    if suggest and (strategies or column_lists or scopes):
        raise click.UsageError("--suggest chooses the layouts itself: leave the other options out")
    named = table_named(request, table)
    store = named.store
    if suggest:
        prices = None if named.prices is None else PlanPrices.of(named.prices)
        currency = None if prices is None else prices.currency
        output.show(SuggestionView(currency=currency), suggested(store, prices=prices))
        return 0
    lists = tuple(tuple(name.strip() for name in each.split(",") if name.strip()) for each in column_lists)
    chosen = tuple(ClusteringScope(scope) for scope in scopes)
    output.show(
        CandidatesView(), simulate_layouts(store, strategies=strategies, columns=lists, scopes=chosen)
    )
    return 0
