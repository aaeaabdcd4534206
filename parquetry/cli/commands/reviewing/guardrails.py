"""`parquetry guardrails`: an organization's rules for plans."""

from __future__ import annotations

import click

from parquetry.cli.command_group import CommandGroup
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.group(cls=CommandGroup, name="guardrails")
def command() -> None:
    """Work with the rules in guardrails/, which every plan has to fulfil."""


@command.command(name="test")
@table_options
@output_options("text", "json")
def test(*, request: ProjectRequest, output: Output) -> int:
    """Evaluate each guardrail over its example plans, and compare the outcomes.

    Opens no table. An example is a file below guardrails/ with the JSON of a plan. The command ends
    with 1 if an outcome is not the expected one, or a file cannot be read.
    """
    from parquetry.cli.requests.declarations import offline_project
    from parquetry.cli.views.guardrails import ExamplesView
    from parquetry.compiler.guardrails.examples import evaluate_examples
    from parquetry.project.yaml.folder import FilesOnDisk

    project = offline_project(request)
    outcomes = evaluate_examples(project.guardrails, FilesOnDisk(project.root))
    output.show(ExamplesView(), outcomes)
    return output.ended(outcomes.failure)
