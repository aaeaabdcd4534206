"""The files in `target/`: the manifest, and each job of a table as JSON and as a script."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parquetry.compiler.jobs.scripts import render_job
from parquetry.compiler.jobs.shipping import write_package
from parquetry.compiler.plan.target_changes import check_allowed
from parquetry.compiler.workspace.committed import uncommitted_files
from parquetry.compiler.workspace.opened import Workspace, jobs_of
from parquetry.confined_folder import ConfinedFolder
from parquetry.project import ResolvedTable
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import JobPlan
from parquetry.version import VERSION

MANIFEST_VERSION = 1
_PACKAGE = "parquetry.zip"
_TO_ROOT = "../../.."
"""The path from the folder of a job's file, target/jobs/TABLE, to the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The files that the compilation wrote, with paths relative to the project."""

    manifest: Path
    tables: int
    files: tuple[Path, ...]


def compile_project(workspace: Workspace) -> Compiled:
    """Write the manifest and the jobs of the selected tables below ``target/``.

    Outdated job files of an earlier compilation are deleted.

    Raises:
        LinkInTheWayError: If a link lies in the place of a file. No job file was changed then.
        UnappliedError: If the target has settings that can execute code and that it does not allow, because a
            job may also create tables.
    """
    check_allowed(workspace)
    root = workspace.project.root
    project_folder = ConfinedFolder(root)
    jobs_folder = root / "target" / "jobs"
    project_folder.check(root / "target" / "manifest.json")
    for table in workspace.tables:
        project_folder.check(jobs_folder / table.name / "any.json")
    uncommitted = uncommitted_files(workspace)
    dirty = None if uncommitted is None else bool(uncommitted)
    entries, written = [], []
    for table in workspace.tables:
        # Paths in a job start at its file, so that the project's folder can be moved or mounted elsewhere.
        jobs = tuple(
            replace(plan, directory=_TO_ROOT, location=table.location_declared, dirty=dirty)
            for plan in jobs_of(workspace, table)
        )
        folder = jobs_folder / table.name
        for plan in jobs:
            written += _write_job(plan, folder, project_folder)
        _remove_stale(folder, written, project_folder)
        entries.append(_entry(workspace, table, jobs, folder))
    package = write_package(project_folder, jobs_folder / _PACKAGE)
    text = _pretty(_manifest(workspace, entries, dirty=dirty))
    manifest = project_folder.write(root / "target" / "manifest.json", text, private=True)
    return Compiled(
        manifest=manifest.relative_to(root),
        tables=len(entries),
        files=tuple(path.relative_to(root) for path in [manifest, package, *written]),
    )


def _write_job(plan: JobPlan, folder: Path, project_folder: ConfinedFolder) -> list[Path]:
    """Write the JSON and the script of a job, and return their paths."""
    document, script = folder / f"{plan.name}.json", folder / f"{plan.name}.py"
    source = render_job(plan, file=script.name, package=f"../{_PACKAGE}")
    return [
        project_folder.write(document, _pretty(plan.to_json()), private=True),
        project_folder.write(script, source, private=True),
    ]


def _remove_stale(folder: Path, written: Collection[Path], project_folder: ConfinedFolder) -> None:
    """Delete job files of a table that this compilation did not write."""
    for name in project_folder.names(folder):
        if name.endswith((".json", ".py")) and folder / name not in written:
            project_folder.delete(folder / name)


def _manifest(workspace: Workspace, entries: list[dict[str, Any]], *, dirty: bool | None) -> dict[str, Any]:
    return {
        "format": "parquetry/manifest",
        "version": MANIFEST_VERSION,
        "parquetry": VERSION,
        "project": workspace.project.name,
        "target": workspace.project.target.name,
        "git_commit": workspace.tree.commit,
        "dirty": dirty,
        "tables": entries,
    }


def _entry(
    workspace: Workspace, table: ResolvedTable, jobs: tuple[JobPlan, ...], folder: Path
) -> dict[str, Any]:
    """Return the manifest's entry of a table: its spec, and its jobs with their files."""
    spec = table.spec.to_json()
    return {
        "name": table.name,
        "file": str(table.file),
        "location": table.location_declared,
        "digest": digest_of(spec),
        "spec": spec,
        "jobs": [
            {
                "name": plan.name,
                "kind": str(plan.kind),
                "source": plan.source,
                "digest": plan.digest,
                "json": _relative(folder / f"{plan.name}.json", workspace),
                "script": _relative(folder / f"{plan.name}.py", workspace),
            }
            for plan in jobs
        ],
    }


def _relative(path: Path, workspace: Workspace) -> str:
    return path.relative_to(workspace.project.root).as_posix()


def _pretty(document: Any) -> str:
    """Return a document as indented JSON with a line end."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
