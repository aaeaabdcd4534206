"""Jobs as PySpark scripts that people can read and spark-submit can run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from parquetry.compiler.spec_words import format_size
from parquetry.runtime.spec.job import JobKind, JobPlan
from parquetry.runtime.spec.table_spec import Source
from parquetry.templates.environment import environment
from parquetry.text import shell
from parquetry.text.printable import one_line

_LINE = 100
_INDENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptContext:
    """The values that the template of a job script may use."""

    job: JobPlan
    source: Source | None
    headline: str
    steps: tuple[str, ...]
    document: dict[str, Any]
    command: str
    report: str | None


def render_job(job: JobPlan, *, file: str, package: str, report: str | None = None) -> str:
    """Return the script of a job: valid Python that contains the job and runs it.

    Args:
        job: The job.
        file: The name of the script.
        package: The path of the zip of parquetry, relative to the folder of the script.
        report: The path beside the table to which the job writes its result, None for no report.
    """
    source = next((s for s in job.spec.sources if s.name == job.source), None)
    context = ScriptContext(
        job=job,
        source=source,
        headline=_headline(job),
        steps=_steps(job, source),
        document=job.to_json(),
        command=shell.line("spark-submit", "--py-files", package, file),
        report=report,
    )
    template = environment(literal=_literal, comment=_comment).get_template("job.py.j2")
    script = template.render(script=context)
    ast.parse(script, filename=f"{job.name}.py")
    return script


def _literal(value: Any, depth: int = 0) -> str:
    """Return a Python literal, on one line if it is short, else with one entry per line."""
    flat = repr(value)
    if len(flat) + _INDENT * depth <= _LINE or not isinstance(value, dict | list) or not value:
        return flat
    inner, outer = " " * _INDENT * (depth + 1), " " * _INDENT * depth
    if isinstance(value, dict):
        entries = [f"{key!r}: {_literal(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + "".join(f"{inner}{entry},\n" for entry in entries) + outer + "}"
    return "[\n" + "".join(f"{inner}{_literal(item, depth + 1)},\n" for item in value) + outer + "]"


def _comment(text: str) -> str:
    """Return the text for a comment or a docstring: one line without double quotes and backslashes."""
    return one_line(text).replace("\\", "/").replace('"', "'")


def _headline(job: JobPlan) -> str:
    """Return a sentence on what the job does, for the head of its script."""
    match job.kind:
        case JobKind.CREATE:
            return f"Create table {job.table}"
        case JobKind.INGEST:
            return f"Ingest source {job.source} into table {job.table}"
        case JobKind.CLUSTER:
            return f"Cluster table {job.table}"
        case JobKind.CLEAN | JobKind.SERVICES:
            return f"Clean and archive table {job.table}"
        case JobKind.TEST:
            return f"Test the rows of table {job.table}"


def _steps(job: JobPlan, source: Source | None) -> tuple[str, ...]:
    """Return in words what the job does step by step, for the head of its script."""
    sizing = job.spec.sizing
    match job.kind:
        case JobKind.CREATE:
            return ("create the table, unless it is there", "record the spec below as the applied one")
        case JobKind.CLUSTER:
            limit = "" if job.budget_bytes is None else f", up to {format_size(job.budget_bytes)}"
            return (
                f"pick the files that the applied clustering policy asks to rewrite{limit}",
                "rewrite them, each group in one task, and publish replacecommits",
            )
        case JobKind.CLEAN | JobKind.SERVICES:
            return (
                "remove file versions that no retention rule asks for, and files that no commit names",
                "archive old instants of the timeline",
            )
        case JobKind.TEST:
            return ("count in one scan of its files how many rows and keys fail each test", "write nothing")
        case JobKind.INGEST:
            assert source is not None
            which = "all files" if source.read == "full" else "the files not ingested before"
            return (
                f"read {which} of {source.path} ({source.format})",
                *((f"turn them into the table's rows: {source.select}",) if source.select else ()),
                *((f"rows with {source.delete_when} delete",) if source.delete_when else ()),
                (
                    f"{source.operation} them; files grow to {format_size(sizing.max_file_size_bytes)}, "
                    f"those below {format_size(sizing.small_file_limit_bytes)} are filled first"
                ),
                "commit, then clean and archive what is due",
            )
