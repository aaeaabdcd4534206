"""The command `parquetry`. The module of a subcommand is imported when that is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from parquetry.cli.budget import fork_within_budget, has_budget
from parquetry.cli.failures import run_guarded
from parquetry.version import VERSION

_NEW_VALUES_BEFORE_A_COLLECTION = 50_000

# Name -> help line. The module of a command is imported when it runs, so that help is instant.
COMMANDS = {
    "init": "Create a project with sample data that you can plan, apply and run at once.",
    "fmt": "Write the project's files in canonical YAML; comments are kept.",
    "validate": "Check the project's files: offline, no JVM, every error of every file in one pass.",
    "ls": "List the declared tables.",
    "rename": "Rename a table or a source in the project's files.",
    "learn": "Propose the queries of tables from the logs of the engines that read them.",
    "explain": "Show a resolved value with the file and line it comes from, or what a code means.",
    "schema": "Print a JSON Schema of the project's files, or write them for editors.",
    "compile": "Write target/manifest.json and one job per table and verb, as JSON and as a PySpark script.",
    "plan": "Show what apply would change, without a JVM and without writing to any table.",
    "show": "Print a saved plan.",
    "review": "Show plans in pull requests, and find out which one is approved.",
    "guardrails": "Test the rules that every plan has to fulfil.",
    "diff": "Compare the specs with those of a git revision, without opening any table.",
    "simulate": "Try limits on given file sizes or on a table's own files.",
    "apply": "Apply the planned changes: create tables, record specs, evolve schemas.",
    "run": "Ingest the declared sources, then run the table services that are due.",
    "runs": "List past runs: jobs, files, bytes and failures; show one.",
    "test": "Execute the declared tests of the tables' layout.",
    "publish": "Bring the metadata of other table formats to the newest state of the tables.",
    "sync": "Bring the entries of the tables in their catalogs to the newest state of the tables.",
    "inspect": "Show the live layout of a table.",
    "health": "Show which tables need attention, the worst first, with a command for each line.",
    "metrics": "Write the tables' metrics as OpenMetrics text, for Prometheus.",
    "head": "Print the first rows of a table, without a JVM.",
    "timeline": "List a table's instants: what each wrote and replaced, and why.",
    "history": "List what was applied to a table, by whom, and its commits; write a recorded spec.",
    "source": "Show which files a table has ingested, and decide about files.",
    "service": "Run one table service by hand.",
    "drift": "Show what other programs changed in the tables since their specs were applied.",
    "adopt": "Write a spec for an existing Hudi table and record it as applied.",
    "unlock": "Show who holds the tables' locks; release one.",
    "doctor": "Check Java, Spark, storage and versions, and show how to repair what does not work.",
}
SECTIONS = (
    (
        "Author",
        "authoring",
        ("init", "fmt", "validate", "ls", "rename", "learn", "explain", "schema", "compile"),
    ),
    ("Review", "reviewing", ("plan", "show", "review", "guardrails", "diff", "simulate")),
    (
        "Operate",
        "operating",
        (
            "apply",
            "run",
            "runs",
            "test",
            "publish",
            "sync",
            "inspect",
            "health",
            "metrics",
            "head",
            "timeline",
            "history",
            "source",
            "drift",
            "service",
            "adopt",
            "unlock",
            "doctor",
        ),
    ),
)
"""The sections of the help: title, folder below `commands`, and names."""


class CommandLine(click.Group):
    """The commands by name, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # Click's signature
        """Return all names, in the order of their sections."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return the command, or return None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        room = next(room for _, room, names in SECTIONS if cmd_name in names)
        command: click.Command = importlib.import_module(f"parquetry.cli.commands.{room}.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command; the error for a misspelt name suggests the most similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from parquetry.project.diagnostics.model import did_you_mean

            hint = did_you_mean(args[0], COMMANDS)
            if hint is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}; {hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        for title, _, names in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name]) for name in names])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run the command, report a failure, and exit with its code."""
        standalone = extra.pop("standalone_mode", True)
        run = partial(super().main, args, *rest, standalone_mode=False, **extra)
        if not standalone:
            return run()
        sys.exit(run_guarded(run, arguments=sys.argv[1:] if args is None else args))


@click.group(cls=CommandLine, name="parquetry", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="parquetry %(version)s")
def command_line() -> None:
    """Manage the file layout of lake tables as reviewed code."""


def entry() -> None:
    """Run the installed script ``parquetry``.

    If the file system encoding is not UTF-8, Python starts again in UTF-8 mode. If the project is untrusted,
    the command works in a child of this process, within a budget. A command keeps almost all objects that it
    reads until it ends. Python by default searches for reference cycles after every 700 new objects, which
    takes a quarter of the time of `plan` and finds none; so the threshold is raised.
    """
    if sys.getfilesystemencoding() != "utf-8":
        # Otherwise file names would differ from those that Spark and other machines see.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell is wanted
    arguments = sys.argv[1:]
    if has_budget(arguments, os.environ):
        code = run_guarded(partial(fork_within_budget, arguments, os.environ), arguments=arguments)
        if code:
            sys.exit(code)
    gc.set_threshold(_NEW_VALUES_BEFORE_A_COLLECTION)
    command_line(prog_name="parquetry")
