"""New projects: specs, sample data, schemas for editors, and workflows for pull requests."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

from parquetry import templates
from parquetry.compiler.git.repository import main_branch, published_at, repository_root
from parquetry.compiler.spec_files.inference import infer_table
from parquetry.compiler.spec_files.yaml import table_text
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError
from parquetry.project.loading.outline import Outline, outline
from parquetry.project.validation.definitions import Kind, bundled, compiled_pattern, inlined, write_schemas
from parquetry.project.yaml.folder import PROJECT_FILE
from parquetry.project.yaml.scalar import scalar
from parquetry.templates.environment import environment
from parquetry.text.printable import quoted
from parquetry.version import VERSION

SCHEMAS = "schemas"
REQUIREMENTS = "requirements.in"
_REQUIREMENTS = {
    REQUIREMENTS: "requirements.in.j2",
    "requirements.txt": "requirements.txt.j2",
    "requirements-build.txt": "requirements-build.txt.j2",
}
_FILES = {
    "parquetry.yml": "parquetry.yml.j2",
    "policies/small-data.yml": "policies/small-data.yml.j2",
    "tables/orders.yml": "tables/orders.yml.j2",
    "landing/2026-01.csv": "landing/2026-01.csv.j2",
    ".gitignore": "gitignore.j2",
    **_REQUIREMENTS,
}
_SAMPLE = frozenset({"policies/small-data.yml", "tables/orders.yml", "landing/2026-01.csv"})
_MODELINE = "# yaml-language-server: $schema=../schemas/table.json\n"
_WORKFLOWS = ".github/workflows"
_OF_REVIEWS = ("plan", "diff", "apply", "nightly")
_PIPELINE = ".gitlab-ci.yml"
_INCLUDED = ".gitlab/parquetry-"
"""The beginning of the path of a project's job file; the pipeline includes all such files."""

_ALL_JOBS = f"{_INCLUDED}*.yml"
_INCLUDE_JOBS = f"{_PIPELINE} already exists: include {_ALL_JOBS} in it"
_SCHEDULE_RUN = (
    "no workflow ingests rows: schedule parquetry run on a machine with Spark, for example by cron or Airflow"
)
_NOTHING_SHARED = (
    "every target is a folder within the project, which other machines cannot read: the nightly workflow "
    "checks nothing until it names a target on shared storage"
)
_BUILDER = "setuptools"
_IMAGE = "python:3.11.13-bookworm"
_CHECKOUT = "11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"
_SETUP_PYTHON = "a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0"
_UPLOAD_ARTIFACT = "ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2"
_ADDRESS = re.compile(r"https?://(?:[^/@]*@)?(?P<rest>.+)|(?:ssh://)?git@(?P<host>[^:/]+)[:/](?P<path>.+)")
_FOLDER = re.compile(r"[\w .,'@+=~()/-]*")
"""Folders that a workflow can name: without GitHub expressions and special characters of YAML and shells."""

_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./#@-]*")
"""Branches that a workflow can name; it reads other characters as patterns or expressions."""

_FALLBACK = "lake"
_MAIN = "main"
_TARGETS = ("dev",)
_LONGEST = 128


class CI(StrEnum):
    """The forges that workflows are written for."""

    GITHUB = "github"
    GITLAB = "gitlab"


class ScaffoldError(ParquetryError):
    """A project cannot be created in a directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldContext:
    """The values for the templates of a new project.

    ``folder`` is the project's folder in the repository (empty at its root), and ``branch`` the branch that
    changes are merged into. ``shared_targets`` are targets that other machines can reach. ``requirement`` is
    what pip installs, or None if unknown. ``packages`` are its dependencies, and ``builders`` the packages
    that build these, all with hashes. Actions are pinned to commits.
    """

    name: str
    folder: str
    branch: str
    workflow: str
    targets: tuple[str, ...]
    shared_targets: tuple[str, ...]
    requirement: str | None
    packages: str
    builders: str
    version: str = VERSION
    checkout: str = _CHECKOUT
    setup_python: str = _SETUP_PYTHON
    upload_artifact: str = _UPLOAD_ARTIFACT
    image: str = _IMAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """A project that was created; ``files`` are relative to its directory.

    ``installs`` is what its workflow installs, or None if the user has to fill it in. ``advice`` lists manual
    steps. ``notes`` describe guesses about a table from its files.
    """

    directory: Path
    name: str
    files: tuple[str, ...]
    installs: str | None
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def scaffold(
    directory: Path,
    *,
    installs: str | None = None,
    ci: CI | None = None,
    rows: Path | None = None,
    table: str | None = None,
    has_sample: bool = True,
) -> Scaffold:
    """Create a project in ``directory``, which may exist; the project is named after it.

    No existing file is replaced: if one is in the way, nothing is written. In a git repository, workflows go
    to the root, where GitHub and GitLab look for them. An existing project only gets what ``ci`` and ``rows``
    add.

    Args:
        directory: the directory of the project.
        installs: the requirement from which pip installs parquetry; by default, that of this installation.
        ci: the forge for which workflows plan pull requests, apply approved plans, and check for drift.
        rows: a Parquet or CSV file, or a folder of them, for which a table replaces the sample.
        table: the name of that table; by default, it is named after the files.
        has_sample: declare a sample table, unless ``rows`` is given.

    Raises:
        InferenceError: if no table can be declared for ``rows``.
        ScaffoldError: if a file is in the way, the directory cannot be written, or a name does not fit in a
        workflow.

    """
    there = _declared(directory) if (ci or rows) and (directory / PROJECT_FILE).exists() else None
    inferred = None if rows is None else infer_table(rows, root=directory, name=table)
    name = (there and there.project) or project_name(directory)
    workflow, folder = _workflow(directory, name)
    builders, packages = _locked()
    context = ScaffoldContext(
        name=name,
        folder=folder,
        branch=_branch(directory),
        workflow=workflow,
        targets=(there and there.targets) or _TARGETS,
        shared_targets=there.shared_targets if there else (),
        requirement=installs or _requirement(),
        builders=builders,
        packages=packages,
    )
    made_by = environment(quoted=json.dumps)
    sample = frozenset() if inferred is None and has_sample else _SAMPLE
    wanted = {} if there else {path: name for path, name in _FILES.items() if path not in sample}
    if not there and ci is not CI.GITLAB:
        wanted[workflow] = "workflow.yml.j2"
    if there and ci:
        wanted |= {path: name for path, name in _REQUIREMENTS.items() if not (directory / path).exists()}
    root = workflow.partition(_WORKFLOWS)[0]
    advice = [] if ci is None else [_SCHEDULE_RUN]
    if ci is not None and not context.shared_targets:
        advice.append(_NOTHING_SHARED)
    if ci is CI.GITHUB:
        above = f"{root}{_WORKFLOWS}"
        wanted |= {f"{above}/parquetry-{kind}-{name}.yml": f"github/{kind}.yml.j2" for kind in _OF_REVIEWS}
    elif ci is CI.GITLAB:
        wanted[f"{root}{_INCLUDED}{name}.yml"] = "gitlab/parquetry.yml.j2"
        pipeline = _file(directory, f"{root}{_PIPELINE}")
        if os.path.lexists(pipeline):
            advice += [] if _includes_jobs(pipeline) else [_INCLUDE_JOBS]
        else:
            wanted[f"{root}{_PIPELINE}"] = "gitlab/gitlab-ci.yml.j2"
    texts = {
        path: made_by.get_template(f"scaffold/{template}").render(scaffold=context)
        for path, template in wanted.items()
    }
    if inferred is not None:
        modeline = "" if there else _MODELINE
        texts[f"tables/{inferred.document['name']}.yml"] = modeline + table_text(inferred.document)
    schemas = () if there else (SCHEMAS,)
    in_the_way = [path for path in (*texts, *schemas) if os.path.lexists(_file(directory, path))]
    if in_the_way:
        taken = os.path.normpath(directory / in_the_way[0])
        raise ScaffoldError(
            "{path} already exists; {remedy}",
            path=taken,
            remedy="remove it first" if there else "name an empty directory",
        )
    try:
        written = [*texts]
        directory.mkdir(parents=True, exist_ok=True)
        place = ConfinedFolder((repository_root(directory) or directory).resolve())
        for path, text in texts.items():
            place.write(_file(directory, path), text)
        for folder_name in schemas:
            made = write_schemas(directory / folder_name, {kind.value: bundled(kind) for kind in Kind})
            written += [f"{folder_name}/{schema.name}" for schema in made]
    except OSError as error:
        raise ScaffoldError(
            "{file} cannot be written: {reason}; name another directory",
            file=error.filename,
            reason=error.strerror,
        ) from error
    return Scaffold(
        directory=directory,
        name=name,
        files=tuple(written),
        installs=context.requirement,
        advice=tuple(advice),
        notes=() if inferred is None else inferred.notes,
    )


def _declared(directory: Path) -> Outline:
    """Return the outline of the existing project; raise ScaffoldError if its names are not valid."""
    there = outline(directory)
    properties = inlined(Kind.PROJECT)["properties"]
    named = compiled_pattern(properties["name"]["pattern"])
    target_named = compiled_pattern(properties["targets"]["propertyNames"]["pattern"])
    if not (there.project and named.search(there.project) and there.targets) or not all(
        map(target_named.search, there.targets)
    ):
        raise ScaffoldError(
            "{file} does not name a project and its targets; correct it first",
            file=directory / PROJECT_FILE,
        )
    return there


def _file(directory: Path, path: str) -> Path:
    """Return the normalised path of a file in a directory, which does not have to exist yet."""
    return Path(os.path.normpath(directory.resolve() / path))


def _workflow(directory: Path, name: str) -> tuple[str, str]:
    """Return the workflow's path relative to the project, and the project's folder in the repository."""
    place = directory.resolve()
    root = repository_root(place)
    folder = "" if root is None else place.relative_to(root.resolve()).as_posix()
    if root is None or folder == ".":
        return f"{_WORKFLOWS}/parquetry.yml", ""
    if not _FOLDER.fullmatch(folder):
        raise ScaffoldError(
            "the folder {folder} has characters that a workflow cannot name safely; rename it",
            folder=quoted(folder),
        )
    up = "/".join(".." for _ in folder.split("/"))
    is_taken = (root / _WORKFLOWS / "parquetry.yml").exists()
    file = f"parquetry-{name}.yml" if is_taken else "parquetry.yml"
    return f"{up}/{_WORKFLOWS}/{file}", folder


def _includes_jobs(pipeline: Path) -> bool:
    """Return whether a pipeline includes the jobs of all projects."""
    try:
        return _ALL_JOBS in pipeline.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _branch(directory: Path) -> str:
    """Return the branch for workflows; raise ScaffoldError if a workflow cannot name it."""
    branch = main_branch(directory.resolve()) or _MAIN
    if not _BRANCH.fullmatch(branch):
        raise ScaffoldError(
            "the branch {branch} has characters that a workflow cannot name safely; rename it",
            branch=quoted(branch),
        )
    return branch


def _locked() -> tuple[str, str]:
    """Return the locked packages that build others, and the other locked packages."""
    text = files(templates).joinpath("scaffold", "locked.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = re.split(r"\n(?=\S)", "\n".join(lines))
    builders = [entry for entry in entries if entry.startswith(f"{_BUILDER}==")]
    return "\n".join(builders), "\n".join(entry for entry in entries if entry not in builders)


def _requirement() -> str | None:
    """Return the requirement from which pip can install this parquetry elsewhere, or None.

    The installation's direct_url.json has its origin (PEP 610).
    """
    try:
        record = distribution("parquetry").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if record is None:
        return f"parquetry=={VERSION}"
    origin = json.loads(record)
    url = str(origin["url"])
    if "vcs_info" in origin:
        return _from_git(url, origin["vcs_info"]["commit_id"])
    parts = urlsplit(url)
    if parts.scheme == "file":
        published = published_at(Path(unquote(parts.path)))
        return _from_git(*published) if published else None
    found = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
    hashed = f" --hash=sha256:{found}" if found else ""
    return f"parquetry @ {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}{hashed}"


def _from_git(address: str, commit: str) -> str | None:
    """Return a requirement without credentials, or None for an address that only this machine can reach."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    place = found["rest"] or f"{found['host']}/{found['path']}"
    return f"parquetry @ git+https://{place}@{commit}"


def project_name(directory: Path) -> str:
    """Return a valid project name that resembles the directory's name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", directory.resolve().name).strip("-")[:_LONGEST]
    if not name:
        return _FALLBACK
    is_text = re.match("[A-Za-z_]", name) and isinstance(scalar(name), str)
    return name if is_text else f"_{name}"[:_LONGEST]
