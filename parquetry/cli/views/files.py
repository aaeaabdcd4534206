"""Files that a command wrote or printed: formatted, compiled, exported, a new project, schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.message import in_full
from parquetry.project.diagnostics.model import render_json, render_text
from parquetry.runtime.spec.codec import to_json_value
from parquetry.text import shell

if TYPE_CHECKING:  # each command loads its own
    from parquetry.compiler.jobs.manifest import Compiled
    from parquetry.compiler.spec_files.dbt_manifest import LeftOutModel
    from parquetry.compiler.spec_files.exports import Export
    from parquetry.compiler.spec_files.from_dbt import SpecsFromDbt
    from parquetry.compiler.spec_files.rename import Renamed
    from parquetry.compiler.spec_files.scaffold import Scaffold
    from parquetry.project.yaml.fmt import FormatResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatView:
    """The files that were formatted, or would be with ``check``, and the diagnostics of the others."""

    check: bool

    def text(self, outcome: FormatResult, paint: Paint) -> str:
        """Return the diagnostics as `validate` shows them, one line per changed file, then a count."""
        found = render_text(outcome.diagnostics, files=outcome.files).rstrip("\n")
        verb = "would change" if self.check else "formatted"
        lines = [f"{paint.warn(verb)}  {path}" for path in outcome.changed]
        total = count(outcome.files, "file")
        if outcome.changed:
            lines.append(f"{len(outcome.changed)} of {total} {verb}")
        elif not outcome.failed:
            lines.append(f"{total} in canonical form")
        return "\n".join([found, *lines] if found else lines)

    def json(self, outcome: FormatResult) -> Any:
        """Return the changed files and the diagnostics as plain values."""
        return {"changed": list(outcome.changed), **render_json(outcome.diagnostics, files=outcome.files)}


class CompileView:
    """The compiled files, by their paths relative to the project."""

    def text(self, outcome: Compiled, paint: Paint) -> str:
        """Return the counts and the manifest's path."""
        jobs = sum(path.suffix == ".py" for path in outcome.files)
        return (
            f"{paint.good('compiled')} {count(outcome.tables, 'table')} into {count(jobs, 'job')}: "
            f"{outcome.manifest.as_posix()}"
        )

    def json(self, outcome: Compiled) -> Any:
        """Return the path of every file."""
        return {
            "manifest": outcome.manifest.as_posix(),
            "tables": outcome.tables,
            "files": [path.as_posix() for path in outcome.files],
        }


class _Exports:
    def json(self, outcome: Sequence[Export]) -> Any:
        """Return every table with its options and its DDL."""
        return [to_json_value(export) for export in outcome]


class OptionsView(_Exports):
    """Property files for Hudi writers, one after the other."""

    def text(self, outcome: Sequence[Export], _: Paint) -> str:
        """Return ``key=value`` lines below a comment that names the table, valid as a file of properties."""
        return "\n\n".join(_properties(export) for export in outcome)


class DdlView(_Exports):
    """DDL statements for Spark SQL."""

    def text(self, outcome: Sequence[Export], _: Paint) -> str:
        """Return the statements with an empty line between them."""
        return "\n\n".join(export.ddl.rstrip("\n") for export in outcome)


def _properties(export: Export) -> str:
    lines = [f"# {export.table} at {export.location}"]
    lines += [f"# no counterpart in Hudi: {part}" for part in export.options.unmatched]
    pairs = ((key, value.replace("\\", "\\\\")) for key, value in export.options.options.items())
    return "\n".join([*lines, *(f"{key}={value}" for key, value in pairs)])


class InitView:
    """The files of a new project."""

    def text(self, outcome: Scaffold, paint: Paint) -> str:
        """Return a line per file, then advice and the next command."""
        from parquetry.compiler.spec_files.scaffold import REQUIREMENTS

        lines = [f"project {paint.bold(outcome.name)} in {outcome.directory}", ""]
        lines += [f"{paint.good('wrote')}  {path}" for path in outcome.files]
        there = (
            ""
            if outcome.directory == Path()
            else f"{shell.line('cd', shell.path_word(str(outcome.directory)))} && "
        )
        if outcome.installs is None and REQUIREMENTS in outcome.files:
            lines += ["", f"For the workflow: name in {REQUIREMENTS} where pip gets parquetry from."]
        if outcome.advice:
            lines += ["", *(f"{advice}." for advice in outcome.advice)]
        if outcome.notes:
            lines += ["", *(f"note: {note}" for note in outcome.notes)]
        return "\n".join([*lines, "", f"Next: {there}parquetry plan --out target/plan.json"])

    def json(self, outcome: Scaffold) -> Any:
        """Return the project's name, its files and notes as plain values."""
        return {
            "project": outcome.name,
            "directory": str(outcome.directory),
            "files": list(outcome.files),
            "notes": list(outcome.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecsFromDbtView:
    """The specs of a dbt project's tables that were written, or would be with ``check``."""

    check: bool

    def text(self, outcome: SpecsFromDbt, paint: Paint) -> str:
        """Return the lines of a new project, a line per spec and model left out, and the next command."""
        verb = paint.warn("would write") if self.check else paint.good("wrote")
        lines: list[str] = []
        if outcome.made is not None:
            lines += [f"project {paint.bold(outcome.project)} in {outcome.directory}", ""]
            lines += [f"{verb}  {path}" for path in outcome.made.files]
        lines += [f"{verb}  {path}" for path in outcome.written]
        lines += [f"{paint.warn('gone')}  {path}: the manifest has no table for it" for path in outcome.gone]
        lines += [
            f"{_left_out(paint, each)}  {each.model}: {in_full(each.reason)}" for each in outcome.left_out
        ]
        lines += [f"note: {in_full(note)}" for note in outcome.notes]
        lines.append(f"{count(outcome.unchanged, 'spec')} as dbt says")
        if not self.check:
            lines += ["", "Next: parquetry plan --out target/plan.json"]
        return "\n".join(lines)

    def json(self, outcome: SpecsFromDbt) -> Any:
        """Return the files, the models left out and the notes."""
        made = () if outcome.made is None else outcome.made.files
        return {
            "project": outcome.project,
            "directory": str(outcome.directory),
            "files": [*made, *outcome.written],
            "unchanged": outcome.unchanged,
            "gone": list(outcome.gone),
            "left_out": [to_json_value(each) for each in outcome.left_out],
            "notes": [in_full(note) for note in outcome.notes],
        }


def _left_out(paint: Paint, model: LeftOutModel) -> str:
    """Return the mark of a model without a spec; one that is meant to have a spec is an error."""
    return paint.bad("left out") if model.is_declared else paint.dim("left out")


class RenameView:
    """The files that a renaming changed."""

    def text(self, outcome: Renamed, paint: Paint) -> str:
        """Return a headline, one line for each file, and the next command."""
        stays = "" if outcome.location is None else f", at {outcome.location} as before"
        lines = [f"{outcome.former} is now called {paint.bold(outcome.name)}{stays}", ""]
        lines += [f"{paint.good('wrote')}    {path}" for path in outcome.files]
        lines += [f"{paint.warn('removed')}  {path}" for path in outcome.removed]
        return "\n".join([*lines, "", "Next: parquetry plan"])

    def json(self, outcome: Renamed) -> Any:
        """Return every field."""
        return to_json_value(outcome)


class SchemaView:
    """A JSON Schema, equal in both formats."""

    def text(self, outcome: Mapping[str, Any], paint: Paint) -> str:  # noqa: ARG002  # a file's content
        """Return the schema as indented JSON."""
        return json.dumps(outcome, indent=2, ensure_ascii=False)

    def json(self, outcome: Mapping[str, Any]) -> Any:
        """Return the schema."""
        return outcome


class WrittenSchemasView:
    """The schema files that were written."""

    def text(self, outcome: Sequence[Path], paint: Paint) -> str:
        """Return one line per file."""
        return "\n".join(f"{paint.good('wrote')}  {path}" for path in outcome)

    def json(self, outcome: Sequence[Path]) -> Any:
        """Return the paths of the files."""
        return {"written": [str(path) for path in outcome]}
