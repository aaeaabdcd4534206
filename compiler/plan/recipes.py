"""The way round a change that is not made in place, as commands that can be typed."""

from __future__ import annotations

from parquetry import shell
from parquetry.compiler.plan.model import Change, RecipeStep
from parquetry.compiler.workspace.spec_words import flow
from parquetry.runtime.spec.table_spec import TableSpec

REMEDY = "this never changes in place: make a new table from the old one, then swap"


def remedy_afresh(location: str) -> str:
    """What to do instead of the recipe about a table at ``location`` that nothing was ever written to."""
    return (
        f"nothing was ever written to this table: delete its folder {location} and plan again; or make a new "
        "table beside it, then swap"
    )


def remedy_renamed(old: str, new: str, *, otherwise: str) -> str:
    """What to do about a column that went while one of its type came: perhaps it has another name now."""
    return (
        f"if {old} is to be called {new}, which is never done in place, make a new table from the old one, "
        f"with `select: SELECT *, {old} AS {new} FROM source` and `drop: [{old}]`, then swap; to give its "
        f"values up, {otherwise}"
    )


def copy_recipe(
    spec: TableSpec,
    *,
    file: str,
    location: str,
    applied_commit: str | None,
    names_location: bool,
    changes: tuple[Change, ...],
) -> tuple[RecipeStep, ...]:
    """How a table gets another key, partitioning, type or place: by a new table beside it.

    ``spec`` is the wanted one, ``file`` where it is declared, ``location`` where the rows are, and
    ``applied_commit`` the git commit of the spec that is applied, None where none has the file.
    ``names_location``: the wanted spec says that it is where the rows are. ``changes`` are those from the
    applied spec to the wanted one, told in reverse where git cannot bring the applied one back.
    """
    name, copy = spec.name, f"{spec.name}_v2"
    folder, slash, _ = file.rpartition("/")
    copied = f"{folder}{slash}{copy}.yml"
    operation = "upsert" if spec.record_key else "insert"
    git = ("git", "checkout", (applied_commit or "")[:12], "--", shell.pathspec(file))
    restored = () if applied_commit is None else (shell.line(*git),)
    applied = "" if restored else f": {'; '.join(map(_undone, changes))}"
    elsewhere = ", another location" if names_location else ""
    source = f"{{name: old, format: hudi, path: {flow(location)}, operation: {operation}}}"
    return (
        RecipeStep(
            text=f"Keep the wanted spec as {copied}, and put the applied one back at {file}{applied}.",
            commands=(shell.line("cp", shell.place(file), shell.place(copied)), *restored),
        ),
        RecipeStep(
            text=f"In {copied} write `name: {copy}`{elsewhere} and `sources: [{source}]`, with a `select` "
            "where columns need a cast.",
        ),
        RecipeStep(
            text="Make the new table and fill it; run again until it has caught up.",
            commands=(
                shell.line("parquetry", "apply", "--select", copy),
                shell.line("parquetry", "run", "--select", copy, "--only", "ingest"),
                shell.line("parquetry", "inspect", copy),
            ),
        ),
        RecipeStep(
            text=f"Swap: move the other sources of {name} to {copied}, let readers use {copy}, and forget "
            f"{name}; its data stays until you delete it.",
            commands=(shell.line("rm", shell.place(file)), "parquetry apply"),
        ),
    )


def _undone(change: Change) -> str:
    """What the applied spec says where the wanted one differs."""
    if change.old is None:
        return f"without {change.path}"
    return f"`{change.path}: {flow(change.old)}`"
