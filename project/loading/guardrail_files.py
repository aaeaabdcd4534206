"""The guardrails of a project: each file checked against its schema, its expressions compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from parquetry.project.diagnostics.model import Diagnostic, Problem, diagnostic, errors
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.guardrails.expression import compiled
from parquetry.project.guardrails.model import Example, Guardrail, Override, RuleMessage, RuleOutcome
from parquetry.project.validation.definitions import Kind
from parquetry.project.validation.spec_file import SpecFile, spec_file
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.project.yaml.document import parse
from parquetry.project.yaml.folder import ProjectFiles


def load_guardrails(
    paths: Sequence[str], files: ProjectFiles, found: list[Diagnostic]
) -> tuple[Guardrail, ...]:
    """Load the guardrails in these files and return them sorted by name; add diagnostics to ``found``."""
    by_name: dict[str, Guardrail] = {}
    for path in paths:
        guardrail = _load_guardrail(path, files, found)
        if guardrail is None:
            continue
        if by_name.setdefault(guardrail.name, guardrail) is not guardrail:
            summary = (
                f"guardrail '{guardrail.name}' is declared twice, also in {by_name[guardrail.name].file}"
            )
            source = SourceText(path=path, text="")
            found.append(diagnostic("PQ301", summary, source=source, hint="rename one of them"))
    return tuple(by_name[name] for name in sorted(by_name))


def _load_guardrail(path: str, files: ProjectFiles, found: list[Diagnostic]) -> Guardrail | None:
    """Load a guardrail; report its errors and return None for an invalid one."""
    data = files.read(path)
    if isinstance(data, Diagnostic):
        found.append(data)
        return None
    document = parse(path, data)
    file = spec_file(document, Kind.GUARDRAIL, lambda _: None)
    found.extend(file.diagnostics if file else document.diagnostics)
    if file is None or errors(file.diagnostics):
        return None
    problems: list[Diagnostic] = []
    value, name = file.value, str(file.value["name"])
    if name != PurePosixPath(path).stem:
        summary = f"the name '{name}' differs from the file name '{PurePosixPath(path).stem}'"
        problems.append(_diagnostic_at(file, ("name",), Problem("PQ302", summary, "make them equal")))
    expression = _read(file, "expression", compiled, problems)
    message = _read(file, "message", RuleMessage.of, problems)
    examples = tuple(_example(file, i, e, problems) for i, e in enumerate(value.get("examples", ())))
    found += problems
    if expression is None or message is None or errors(problems):
        return None
    return Guardrail(
        name=name,
        expression=expression,
        severity=RuleOutcome(value.get("severity", RuleOutcome.DENY)),
        message=message,
        override=Override(value.get("override", Override.ALLOW)),
        origin=_position_text(file, ("expression",)),
        description=value.get("description"),
        examples=examples,
    )


def _read(file: SpecFile, key: str, read: Any, found: list[Diagnostic]) -> Any:
    """Return what ``read`` makes of the value of a key; report its Problem and return None."""
    try:
        return read(file.value[key])
    except Problem as problem:
        found.append(_diagnostic_at(file, (key,), problem))
        return None


def _example(file: SpecFile, index: int, entry: Mapping[str, Any], found: list[Diagnostic]) -> Example:
    """Return an example plan of a guardrail; report a time that is not valid."""
    path: DocumentPath = ("examples", index)
    now = entry.get("now")
    try:
        datetime.fromisoformat(now or "2000-01-01T00:00:00Z")
    except ValueError as error:
        found.append(_diagnostic_at(file, (*path, "now"), Problem("PQ103", f"not a time: {error}")))
    return Example(
        plan=entry["plan"],
        expected=RuleOutcome(entry["expected"]),
        now=now,
        origin=_position_text(file, (*path, "plan")),
    )


def _position_text(file: SpecFile, path: DocumentPath) -> str:
    """Return a position in a file as text: ``file:line:column``."""
    start = file.node.at(path).span.start
    return f"{file.source.path}:{start.line}:{start.column}"


def _diagnostic_at(file: SpecFile, path: DocumentPath, problem: Problem) -> Diagnostic:
    """Return a problem as a diagnostic at a path of the file."""
    return diagnostic(
        problem.code,
        problem.summary,
        source=file.source,
        span=file.node.at(path).span,
        hint=problem.hint,
    )
