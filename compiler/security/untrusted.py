"""The limits for a plan of an untrusted branch: it reads only what the base of the branch names.

The author of a branch chooses locations, storage options, plug-ins and keys, but the reviewer's credentials
are used. Therefore stores are opened with the options of the base, at locations that the base names, and only
the environment variables that the base declares are read.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from parquetry import project
from parquetry.compiler.errors import UnnamedPlaceError
from parquetry.compiler.git.repository import DEFAULT_BRANCHES, object_named, repository_root
from parquetry.compiler.git.revisions import RevisionError, files_at, load_known
from parquetry.compiler.security.secrets import revealed, templates
from parquetry.project import ResolvedProject
from parquetry.project.diagnostics.model import errors
from parquetry.project.model.locations import LocationProblem, absolute, contains, normalised
from parquetry.project.validation.interpolate import DeclaredVariables
from parquetry.project.yaml.folder import PROJECT_FILE
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries
from parquetry.runtime.clustering.rewrite.strategies import plug_ins_of
from parquetry.runtime.sources.listing import split_pattern
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.table_spec import Source, TableSpec
from parquetry.text.secret_names import MASK

_FULL_NAMES: Final = ("refs/heads/{}", "refs/tags/{}", "refs/remotes/{}")
_REMEDY: Final = "fetch the branch into which this one will be merged, and name it: --base origin/BRANCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The project at the revision into which an untrusted branch will be merged.

    Attributes:
        revision: The name of the revision in messages.
        given: The revision as the user gave it, empty for the default branch.
        commit: The commit of the revision.
        root: The folder of the project, without links.
        repository: The folder whose files the branch controls.
        declared: The environment variables that the base declares.
        project: The project of the base, None if the base has no project or not the target.
        specs: The specs of the base by table name.
    """

    revision: str
    given: str
    commit: str
    root: Path
    repository: Path
    declared: DeclaredVariables
    project: ResolvedProject | None = field(repr=False)
    specs: Mapping[str, TableSpec] = field(repr=False)

    @property
    def storage(self) -> dict[str, Any]:
        """The options for opening stores, with secrets as plain text that must never be written to a file."""
        return {} if self.project is None else revealed(self.project.target.storage)

    def named_location(self, location: str) -> str:
        """Return the normalised location if the base names it.

        The base names a location if it declares it, or a folder above it, as the location of a table or as
        the warehouse. Inside the repository, no link on the path may lead elsewhere.

        Raises:
            UnnamedPlaceError: If the base does not name the location, or if a link leads elsewhere.
        """
        uri = self._absolute(location)
        if self.project is None or not any(contains(named, uri) for named in self._places(self.project)):
            raise UnnamedPlaceError(
                "{revision} does not name the location {location}", revision=self.revision, location=location
            )
        self._check_links(uri)
        return uri

    def check_storage(self, branch: ResolvedProject) -> None:
        """Raise UnnamedPlaceError if the branch changes storage options or the keys that sign records."""
        base_options = {} if self.project is None else templates(self.project.target.storage)
        branch_options = templates(branch.target.storage)
        differing_options = sorted(
            key
            for key in base_options.keys() | branch_options.keys()
            if base_options.get(key) != branch_options.get(key)
        )
        settings = ", ".join(f"storage.{key}" for key in differing_options)
        if branch.target.signing_keys != (() if self.project is None else self.project.target.signing_keys):
            settings = ", ".join(filter(None, (settings, "applied.signing_key")))
        if settings:
            raise UnnamedPlaceError(
                "{settings} of target {target} differs from {revision}",
                settings=settings,
                target=branch.target.name,
                revision=self.revision,
            )

    def check_plug_ins(self, spec: TableSpec) -> None:
        """Raise UnnamedPlaceError if the spec names a plug-in, key or catalog that the base does not."""
        known = {
            (group, name) for table in self.specs.values() for group, _, name in keys_and_plug_ins(table)
        }
        for group, path, name in keys_and_plug_ins(spec):
            if (group, name) not in known:
                raise UnnamedPlaceError(
                    "{path} is {name}, which {revision} does not name",
                    path=path,
                    name=name,
                    revision=self.revision,
                )

    def check_catalog(self, branch: ResolvedProject, spec: TableSpec) -> None:
        """Raise UnnamedPlaceError unless the base declares the table with this entry and these options.

        The plan shows columns of the entry, and the options decide where credentials are sent.
        """
        name, known = spec.extra.catalog or "", self.specs.get(spec.name)
        is_named = known is not None and (known.extra.catalog, known.extra.database) == (
            name,
            spec.extra.database,
        )
        base_catalogs = {} if self.project is None else templates(self.project.target.catalogs)
        if not is_named or base_catalogs.get(name) != templates(branch.target.catalogs).get(name):
            raise UnnamedPlaceError(
                "the entry of {table} in the catalog {catalog} is not read: {revision} does not name it so",
                table=spec.name,
                catalog=name,
                revision=self.revision,
            )

    def check_guesses(self, spec: TableSpec, *applied: TableSpec) -> None:
        """Raise UnnamedPlaceError if the spec tests personal values in a way that the base does not declare.

        The number of files that a query reads, or that a choice of partitions selects, shows whether a value
        may occur in them, and a branch could try a thousand values. A column is personal if a column with its
        name is personal in any table of the base, in the spec, or in the ``applied`` specs.
        """
        tables = self.specs.values()
        pii = pii_columns(*(table.columns for table in (spec, *applied, *tables)))

        def check(what: str, columns: Iterable[str]) -> None:
            personal = sorted(name for name in columns if name.partition(".")[0].lower() in pii)
            if personal:
                raise UnnamedPlaceError(
                    "{subject} uses {column}, which is personal, and {revision} does not declare it",
                    subject=what,
                    column=personal[0],
                    revision=self.revision,
                )

        known = {query.where for table in tables for query in table.extra.queries}
        for query in DeclaredQueries.of(spec):
            if query.where not in known:
                check(f"query {query.name}", query.columns)
        chosen = _named_partitions(spec)
        if any(chosen) and chosen not in map(_named_partitions, tables):
            check("clustering.plan.partitions", spec.partition_by)

    def check_source(self, source: Source) -> None:
        """Raise UnnamedPlaceError unless the base declares the source or names a location that holds it."""
        known = {self._absolute(s.path) for table in self.specs.values() for s in table.sources}
        folder, _ = split_pattern(source.path)
        if self._absolute(source.path) not in known:
            self.named_location(folder)
        self._check_links(self._absolute(folder))

    def _places(self, base: ResolvedProject) -> Iterator[str]:
        yield base.target.warehouse
        yield from (table.location for table in base.tables)

    def _absolute(self, location: str) -> str:
        try:
            return absolute(self.root, normalised(location))
        except LocationProblem as problem:
            raise UnnamedPlaceError(
                "{revision} does not name the location {location}", revision=self.revision, location=location
            ) from problem

    def _check_links(self, uri: str) -> None:
        """Raise UnnamedPlaceError if a link lies between the repository and the location, or inside it."""
        top = str(self.repository)
        if not uri.startswith("/") or not contains(top, uri):
            return
        parts = uri[len(top) :].strip("/").split("/")
        folders = (posixpath.join(top, *parts[: index + 1]) for index in range(len(parts)))
        link = next((folder for folder in folders if os.path.islink(folder)), None) or _link_in(uri)  # noqa: PTH114
        if link is not None:
            raise UnnamedPlaceError("{path} is a link, which may lead anywhere", path=link)


def base_at(
    directory: Path,
    revision: str | None,
    *,
    target: str | None,
    variables: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Base:
    """Return the base of the branch that is checked out in ``directory``.

    Args:
        directory: The folder of the project.
        revision: The revision of the base, None for the default branch of origin.
        target: The name of the target, None for the default one.
        variables: The variables given by the user.
        environment: The environment variables.

    Raises:
        RevisionError: If the revision does not exist, or if the project is not valid there.
        UnnamedPlaceError: If a link of the branch leads to the folder.
    """
    _check_folder(directory)
    commit = _commit(directory, revision)
    revision_name = revision or "the default branch of origin"
    root = Path(os.path.realpath(directory))
    declared, base_project = DeclaredVariables(elsewhere=revision_name), None
    files = files_at(directory, commit)
    if PROJECT_FILE in files:
        first, unknown = load_known(directory, target=target, variables=variables, files=files)
        if target is None or not first.lacks(target):
            declared = replace(declared, names=_valid(first, revision_name).environment)
            known = {name: value for name, value in variables.items() if name not in unknown}
            loaded = project.load(
                directory, target=target, variables=known, environment=environment, files=files
            )
            base_project = _valid(loaded, revision_name)
    return Base(
        revision=revision_name,
        given=revision or "",
        commit=commit,
        root=root,
        repository=repository_root(root) or root,
        declared=declared,
        project=base_project,
        specs={table.name: table.spec for table in (() if base_project is None else base_project.tables)},
    )


def _check_folder(directory: Path) -> None:
    """Raise UnnamedPlaceError if a link of the branch leads to the folder, maybe of another project."""
    step = Path(directory.anchor or "/")
    is_inside = False
    for part in Path(os.path.abspath(directory)).parts[1:]:  # noqa: PTH100 - resolve() would follow links
        step /= part
        if is_inside and step.is_symlink():
            raise UnnamedPlaceError(
                "{path} is a link, which may lead anywhere; name the folder itself", path=step
            )
        is_inside = is_inside or (step / ".git").exists()


def masked_environment(environment: Mapping[str, str], declared: DeclaredVariables) -> dict[str, str]:
    """Return the environment for an untrusted branch, with ``***`` as the value of undeclared variables."""
    return {name: value if name in declared else MASK for name, value in environment.items()}


def _commit(directory: Path, revision: str | None) -> str:
    """Return the commit of a revision. A name that the author gave to a branch or tag cannot replace it."""
    names = (
        DEFAULT_BRANCHES if revision is None else (revision, *(form.format(revision) for form in _FULL_NAMES))
    )
    found = {name: object_named(directory, f"{name}^{{commit}}").line for name in names}
    commits = {commit for commit in found.values() if commit is not None}
    if not commits:
        what = (
            "origin has no default branch here" if revision is None else f"there is no revision {revision!r}"
        )
        raise RevisionError("{reason}; {remedy}", reason=what, remedy=_REMEDY)
    if revision is not None and len(commits) > 1:
        spelled = " and ".join(name for name, commit in found.items() if commit and name != revision)
        raise RevisionError(
            "{revision} is ambiguous: {names} are different commits; give the full name of one of them",
            revision=revision,
            names=spelled,
        )
    return next(commit for commit in found.values() if commit is not None)


def _valid(loaded: project.LoadResult, revision_name: str) -> ResolvedProject:
    if loaded.project is None:
        first = errors(loaded.diagnostics)[0]
        raise RevisionError(
            "the project is not valid at {revision}: {file}: {reason}; correct it there",
            revision=revision_name,
            file=first.file,
            reason=first.message,
        )
    return loaded.project


def _named_partitions(spec: TableSpec) -> tuple[tuple[str, ...], str | None]:
    """Return the partitions that the clustering policy lists, and its regular expression for partitions."""
    chosen = spec.clustering.plan.partitions
    return chosen.selected, chosen.regex


def keys_and_plug_ins(spec: TableSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the plug-in strategies, the keys and the catalog of a spec as (group, path, name).

    All keys have the same group, because a key may move from one setting to another.
    """
    for path, name in plug_ins_of(spec.clustering):
        yield path, path, name
    for name in spec.files.keys:
        path = "encryption_key" if name == spec.files.encryption_key else "former_encryption_keys"
        yield "key", f"files.{path}", name
    for source in spec.sources:
        for name in source.encryption_keys:
            yield "key", f"sources.{source.name}.encryption_keys", name
    if spec.publish is not None and (catalog := spec.publish.catalog) is not None:
        yield "catalog", "publish.iceberg.catalog", f"{catalog.name} ({catalog.digest})"


def _link_in(folder: str) -> str | None:
    """Return a link inside a folder or below it, or None."""
    for top, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(top, name)  # noqa: PTH118 - there may be many
            if os.path.islink(path):  # noqa: PTH114
                return path
    return None
