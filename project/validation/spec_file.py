"""One file of a project, from parsed YAML to values that its schema accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parquetry.project.diagnostics.model import Diagnostic, diagnostic
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.validation.definitions import Kind
from parquetry.project.validation.errors import violations
from parquetry.project.validation.interpolate import Rendered, Secret, TemplateScope, TemplateSite, render
from parquetry.project.validation.invisible import invisible_characters
from parquetry.project.validation.template_syntax import TemplateProblem, is_template
from parquetry.project.yaml.document import MAX_BYTES, Document, Node, Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFile:
    """A file after templates and schema.

    ``node`` and ``value`` lack the parts that the schema does not accept. ``incomplete`` has the paths of
    those parts, and of values whose templates have no value yet; later checks draw no conclusion from their
    absence.
    """

    kind: Kind
    source: SourceText
    node: Node
    incomplete: frozenset[Path]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def value(self) -> Mapping[str, Any]:
        """The accepted values of the file."""
        return self.node.value if isinstance(self.node.value, dict) else {}


MOST_TEMPLATES = 1000
_LISTS = frozenset({"columns", "sources", "queries", "tests", "allow"})

Reading = Callable[[Path], tuple[TemplateSite, TemplateScope] | None]
"""A function from the path of a template to its site and scope; None if no template is evaluated there."""


def spec_file(document: Document, kind: Kind, reading: Reading) -> SpecFile | None:
    """Return a file's accepted values with its diagnostics, or None if the YAML has no root.

    The diagnostics of the document are included. ``reading`` decides what the template at a path may read.
    """
    found = list(document.diagnostics)
    if document.root is None:
        return None
    value, unknown = rendered(document.root, source=document.source, reading=reading, report=found.append)
    reported = {entry.span.start for entry in found}
    hidden = list(invisible_characters(value, node=document.root, source=document.source))
    places = {(entry.path, entry.diagnostic.span.start) for entry in hidden}
    wrong = [
        *hidden,
        *(
            entry
            for entry in violations(kind, masked(value), node=document.root, source=document.source)
            if (entry.path, entry.diagnostic.span.start) not in places
        ),
    ]
    # A placeholder that the schema refuses is not an error: the real value may be valid.
    mistakes = (
        entry.diagnostic
        for entry in wrong
        if entry.of_structure or entry.path not in unknown or entry in hidden
    )
    found.extend(entry for entry in mistakes if entry.span.start not in reported)
    dropped = {_path_to_drop(entry.path, entry.diagnostic.code) for entry in wrong}
    dropped.update(_path_to_drop(path, "PQ201") for path, placeholder in unknown.items() if not placeholder)
    incomplete = frozenset([*(entry.path for entry in wrong), *unknown])
    return SpecFile(
        kind=kind,
        source=document.source,
        node=_rebuilt(document.root, value, frozenset(dropped), ())
        if dropped or value is not document.root.value
        else document.root,
        incomplete=incomplete,
        diagnostics=tuple(found),
    )


def rendered(
    node: Node, *, source: SourceText, reading: Reading, report: Callable[[Diagnostic], None]
) -> tuple[Any, dict[Path, bool]]:
    """Evaluate the templates below a node, and return the values and the paths that are not known.

    A path is True in the mapping if its value is a placeholder for a later value, and False if the template
    is left as it is.
    """
    unknown: dict[Path, bool] = {}
    counted: list[Path] = []
    grown = 0
    if not is_template(source.text):
        return node.value, unknown

    def walk(part: Node, path: Path) -> Any:
        nonlocal grown
        if isinstance(part.value, dict):
            return {key: walk(child, (*path, key)) for key, child in part.children.items()}
        if isinstance(part.value, list):
            return [walk(child, (*path, index)) for index, child in part.children.items()]
        if not is_template(part.value):
            return part.value
        counted.append(path)
        if len(counted) > MOST_TEMPLATES or grown > MAX_BYTES:
            unknown[path] = False
            return part.value
        try:
            result = _render(part.value, reading(path))
        except TemplateProblem as problem:
            report(
                diagnostic(problem.code, problem.summary, source=source, span=part.span, hint=problem.hint)
            )
            unknown[path] = False
            return part.value
        grown += len(str(result.value))
        if grown > MAX_BYTES:
            summary = f"templates make more than {MAX_BYTES:,} characters of the file"
            report(diagnostic("PQ010", summary, source=source, span=part.span, hint="split the file"))
        if not result.known:
            unknown[path] = not is_template(result.value)
        return result.value

    value = walk(node, ())
    if len(counted) > MOST_TEMPLATES:
        span = node.at(counted[MOST_TEMPLATES]).span
        summary = f"more than {MOST_TEMPLATES:,} templates"
        report(diagnostic("PQ010", summary, source=source, span=span, hint="split the file"))
    return value, unknown


def _render(text: str, place: tuple[TemplateSite, TemplateScope] | None) -> Rendered:
    if place is None:
        raise TemplateProblem("PQ208", "templates are not evaluated here", "write the value out")
    site, scope = place
    return render(text, scope=scope, site=site)


def masked(value: Any) -> Any:
    """Return the value with each secret in its printable form."""
    match value:
        case Secret():
            return value.masked
        case dict():
            return {key: masked(child) for key, child in value.items()}
        case list():
            return [masked(child) for child in value]
    return value


def _path_to_drop(path: Path, code: str) -> Path:
    """Return the path to drop for a wrong part, which is the whole entry in lists such as ``columns``."""
    is_entry = len(path) > 2 and path[0] in _LISTS and isinstance(path[1], int)  # noqa: PLR2004 - below an entry
    return path[:2] if is_entry and code != "PQ102" else path


def _rebuilt(node: Node, value: Any, dropped: frozenset[Path], path: Path) -> Node:
    """Return the nodes with the values of ``value`` and without the dropped paths."""
    if path in dropped:
        return Node(None, node.span, {}, {})
    if isinstance(value, dict):
        named: dict[str | int, Node] = {
            key: _rebuilt(node.children[key], child, dropped, (*path, key))
            for key, child in value.items()
            if (*path, key) not in dropped
        }
        return Node({key: child.value for key, child in named.items()}, node.span, node.keys, named)
    if isinstance(value, list):
        kept = [
            _rebuilt(node.children[index], child, dropped, (*path, index))
            for index, child in enumerate(value)
            if (*path, index) not in dropped
        ]
        return Node([child.value for child in kept], node.span, {}, dict(enumerate(kept)))
    return Node(value, node.span, {}, {})
