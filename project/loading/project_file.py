"""The project file: variables, the choice of a target, and the target's settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, phrase
from parquetry.project.diagnostics.model import Diagnostic, diagnostic, did_you_mean, errors, one_of
from parquetry.project.diagnostics.source import START, Span
from parquetry.project.loading.resolve import section
from parquetry.project.model import settings
from parquetry.project.model.layers import merge
from parquetry.project.model.locations import LocationProblem, absolute, normalised
from parquetry.project.model.operations import MAX_DELAY_SECONDS, Operations, ServiceWindow
from parquetry.project.model.prices import Prices
from parquetry.project.model.resolved import (
    AllowEntry,
    Budget,
    Launcher,
    Layer,
    LineageSettings,
    MetricsSettings,
    Origin,
    SparkLaunchSettings,
    Target,
    TargetSettings,
)
from parquetry.project.model.target_settings import target_settings
from parquetry.project.validation.definitions import Kind
from parquetry.project.validation.interpolate import (
    DeclaredVariables,
    Secret,
    TargetView,
    TemplateScope,
    TemplateSite,
    render,
)
from parquetry.project.validation.spec_file import SpecFile, masked, spec_file
from parquetry.project.validation.template_syntax import TemplateProblem, is_template
from parquetry.project.validation.units import duration_seconds
from parquetry.project.yaml.document import Document, Node
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.project.yaml.scalar import NotUsable, scalar
from parquetry.text.metastore_addresses import METASTORE_FORM, metastore_addresses
from parquetry.text.secret_names import is_secret_name

CATALOG_OPTIONS = {
    "sql": (frozenset({"uri"}), frozenset({"uri"})),
    "rest": (
        frozenset({"uri", "warehouse", "token", "credential", "scope", "oauth2_server_uri"}),
        frozenset({"uri"}),
    ),
    "glue": (frozenset({"region", "endpoint", "partition_index"}), frozenset[str]()),
    "hive": (frozenset({"uri"}), frozenset({"uri"})),
}
"""The options of catalogs by type, and those that are required."""

_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_PASSWORD = re.compile(r"://[^/@]*:[^/@]*@")

_UNKNOWN_WAREHOUSE = "${warehouse}"
_CONF = ("--conf", "-c")
_CREDENTIAL = re.compile(r"key|secret|token|password|user|credential", re.IGNORECASE)
_ADDRESS = re.compile(
    r"endpoint|prox|host|ur[il]|address|master|jars|files$|archives$|image$|packages|repositor|path|dir|fs$",
    re.IGNORECASE,
)


class UndeclaredVariableError(ParquetryError):
    """A variable, ``name``, is given by a command line or a call, but the project does not declare it."""

    exit_code: ClassVar[int] = 2

    def __init__(self, name: str, declared: Collection[str]) -> None:
        known = one_of("variable", name, declared) if declared else "declare it under vars in parquetry.yml"
        given = phrase("--var (or PARQUETRY_VAR)", called="variables=")
        super().__init__(
            "{option} sets {variable!r}, which the project does not declare; {hint}",
            option=given,
            variable=name,
            hint=known,
        )
        self.name = name


@dataclass(slots=True, kw_only=True)
class ProjectFile:
    """The loaded project file, with the values that tables need for their resolution.

    ``file`` is None if the file has no usable value, and ``variables`` is None if ``vars`` could not be read.
    ``warehouse`` is normalised and may be relative to the project's root, as are those of the other targets;
    one of these is None if it is not known here. ``environment`` has the declared names of environment
    variables.
    """

    file: SpecFile | None
    target: str | None
    targets: tuple[str, ...]
    variables: Mapping[str, Any] | None
    warehouse: str
    settings: Mapping[str, TargetSettings] = field(default_factory=dict)
    other_warehouses: tuple[str | None, ...] = ()
    environment: frozenset[str] = frozenset()
    found: list[Diagnostic]

    def scope(self) -> TemplateScope:
        """Return the values that templates of tables and policies can read."""
        view = TargetView(name=self.target or "default", warehouse=self.warehouse)
        return TemplateScope(variables=self.variables, target=view)


def load_project_file(
    document: Document,
    *,
    target: str | None,
    variables: Mapping[str, Any],
    environment: Mapping[str, str] | None,
    declared: DeclaredVariables | None = None,
) -> ProjectFile:
    """Load the project file at a target; if ``environment`` is None, no environment variable is read.

    Args:
        document: the parsed file.
        target: the name of the target; None chooses the default one.
        variables: values that replace declared ones.
        environment: the environment variables, or None.
        declared: the environment variables that may be read, in place of those that the file declares.

    Raises:
        UndeclaredVariableError: if ``variables`` has a name that the file does not declare.

    """
    found: list[Diagnostic] = []
    root = document.root

    def report(
        code: str, summary: str, span: Span, hint: str | None = None, *, shows_lines: bool = True
    ) -> None:
        found.append(
            diagnostic(code, summary, source=document.source, span=span, hint=hint, shows_lines=shows_lines)
        )

    if root is None or not isinstance(root.value, dict):
        broken = spec_file(document, Kind.PROJECT, lambda _: None)
        found.extend(broken.diagnostics if broken else document.diagnostics)
        return ProjectFile(
            file=None, target=target, targets=(), variables=None, warehouse=_UNKNOWN_WAREHOUSE, found=found
        )
    targets = _target_names(root)
    chosen = _choose_target(root, targets, target, report, strict=environment is not None)
    variables_of = _variables(root, targets, chosen, variables, report)
    values = variables_of[chosen]
    own = _declared_environment(root, report)
    declared = declared or DeclaredVariables(names=own)
    scope = TemplateScope(variables=values, target=TargetView(name=chosen or "default"), declared=declared)
    reading = _template_sites(root, scope, variables_of, chosen, environment)
    file = spec_file(document, Kind.PROJECT, reading)
    assert file is not None, "the document has a root"
    found.extend(file.diagnostics)
    warehouse = _warehouse(file, chosen, report)
    _check_catalogs(file, report)
    _check_operations(file, report)
    others = [
        TemplateScope(
            variables=variables_of[n], target=TargetView(name=n), environment=environment, declared=declared
        )
        for n in targets
        if n != chosen
    ]
    return ProjectFile(
        file=file,
        target=chosen,
        targets=targets,
        variables=values,
        warehouse=warehouse,
        settings={}
        if errors(found)
        else {name: target_settings(file, root, name, variables=variables_of[name]) for name in targets},
        other_warehouses=tuple(_warehouse_elsewhere(root, scope) for scope in others),
        environment=own,
        found=found,
    )


def build_target(head: ProjectFile, file: SpecFile, name: str, *, root: Path) -> Target:
    """Return the settings of a target whose part of the file is valid."""
    value = file.value["targets"][name]
    spark = value.get("spark", {})
    return Target(
        name=name,
        warehouse=absolute(root, head.warehouse),
        spark=SparkLaunchSettings(
            launcher=Launcher(spark.get("launcher", Launcher.IN_PROCESS)),
            master=_text(spark["master"]) if "master" in spark else None,
            submit_args=tuple(_text(argument) for argument in spark.get("submit_args", ())),
            packages=tuple(spark.get("packages", ())),
            conf={key: _text(setting) for key, setting in spark.get("conf", {}).items()},
        ),
        storage=value.get("storage", {}),
        budget=_budget(file, name),
        # The value lacks the currency if it depends on an environment variable that is not read here.
        prices=Prices.of(value["prices"]) if "currency" in value.get("prices", {}) else None,
        protect=tuple(value.get("protect", ())),
        signing_keys=_signing_keys(value.get("applied") or file.value.get("applied") or {}),
        tests_after_run=bool((value.get("tests") or file.value.get("tests") or {}).get("after_run")),
        metrics=_metrics(value.get("metrics") or {}, root),
        lineage=_lineage(value.get("lineage") or {}, root),
        declared=head.settings[name],
        catalogs=value.get("catalogs", {}),
        operations=Operations.of(value["operations"]) if "operations" in value else None,
    )


def _metrics(value: Mapping[str, Any], root: Path) -> MetricsSettings | None:
    """Return where commands write metrics, or None if that is nowhere or not known here."""
    file, push_gateway = value.get("file"), value.get("push_gateway")
    if file is None and push_gateway is None:
        return None
    return MetricsSettings(file=None if file is None else str(root / file), push_gateway=push_gateway)


def _lineage(value: Mapping[str, Any], root: Path) -> LineageSettings | None:
    """Return where commands send events, or None if that is nowhere or not known here."""
    file, url, console = value.get("file"), value.get("url"), value.get("console", False)
    if file is None and url is None and not console:
        return None
    return LineageSettings(
        url=url,
        api_key=value.get("api_key"),
        file=None if file is None else str(root / file),
        console=console,
    )


def _signing_keys(applied: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key that signs records, followed by former ones; none if no key is declared."""
    if "signing_key" not in applied:
        return ()
    return (applied["signing_key"], *applied.get("former_signing_keys", ()))


def allow_entries(file: SpecFile) -> tuple[AllowEntry, ...]:
    """Return the project's allow entries."""
    entries = []
    for index, entry in enumerate(file.value.get("allow", ())):
        start = file.node.at(("allow", index)).span.start
        origin = Origin(Layer.DEFAULTS, file.source.path, start.line, start.column)
        entries.append(
            AllowEntry(
                code=entry["code"],
                table=entry["table"],
                reason=entry["reason"],
                origin=origin,
                guardrail=entry.get("guardrail"),
            )
        )
    return tuple(entries)


def _budget(file: SpecFile, target: str) -> Budget:
    """Return the target's budget. Later ones win: built-in, defaults, target, target's overrides."""
    paths: tuple[DocumentPath, ...] = (("defaults",), ("targets", target), ("targets", target, "overrides"))
    parts = [section(Layer.DEFAULTS, file, path, ("budget",)) for path in paths]
    merged = merge(parts).value.get("budget", {})
    return settings.budget({**settings.built_in_budget(), **merged})


def _text(value: Any) -> str | Secret:
    """Return a value of a setting as text; a secret stays a secret."""
    if isinstance(value, (str, Secret)):
        return value
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _variables(
    root: Node,
    targets: tuple[str, ...],
    chosen: str | None,
    given: Mapping[str, Any],
    report: Callable[..., None],
) -> Mapping[str | None, Mapping[str, Any] | None]:
    """Return the variables of each target, and under None those without a target.

    Later values win: the project's, the target's, the given ones. The result is None for each target if one
    value cannot be used. A variable that only targets declare needs a value at every target.

    Raises:
        UndeclaredVariableError: if a given variable is unknown at the chosen target.

    """
    declared = _scalars(root.children.get("vars"))
    own = {name: _scalars(_target_vars(root, name)) for name in targets}
    if declared is None or None in own.values():
        return dict.fromkeys((*targets, None))
    found: dict[str | None, Mapping[str, Any] | None] = {None: declared}
    for target in targets:
        values = dict(declared)
        for name, value in (own[target] or {}).items():
            span = root.at(("targets", target, "vars", name)).span
            lacking = [t for t in targets if name not in (own[t] or {}) and name not in declared]
            if lacking:
                hint = did_you_mean(name, declared)
                report(
                    "PQ209",
                    f"variable '{name}' of target '{target}' has no value at {', '.join(sorted(lacking))}",
                    span,
                    hint or "declare it under vars of the project, or of every target",
                )
            values[name] = (
                _as_declared_type(value, declared[name], f"variable '{name}' must be", span, report)
                if name in declared
                else value
            )
        found[target] = values
    known = found[chosen] or {}
    for name, value in given.items():
        if name not in known:
            raise UndeclaredVariableError(name, known)
        place = ("vars", name) if name in declared else ("targets", chosen or "", "vars", name)
        what = phrase(f"--var {name} must be", called=f"variables= must give {name} as")
        typed = _as_declared_type(value, known[name], what, root.at(place).span, report)
        found = {target: {**(values or {}), name: typed} for target, values in found.items()}
    return found


def _declared_environment(root: Node, report: Callable[..., None]) -> frozenset[str]:
    """Return the declared environment variables, and report those with the names of secrets."""
    node = root.children.get("environment")
    names = set()
    for entry in node.children.values() if node and isinstance(node.value, list) else ():
        if not isinstance(entry.value, str):
            continue
        if is_secret_name(entry.value):
            hint = "remove it from the list: storage and spark can read it anyway, and it is printed as ***"
            report(
                "PQ211",
                f"'{entry.value}' is declared as public, but has the name of a secret",
                entry.span,
                hint,
            )
        else:
            names.add(entry.value)
    return frozenset(names)


def _target_vars(root: Node, target: str) -> Node | None:
    """Return the node of a target's variables, or None."""
    targets = root.children.get("targets")
    node = targets.children.get(target) if targets else None
    return node.children.get("vars") if node else None


def _scalars(node: Node | None) -> Mapping[str, Any] | None:
    """Return the variables of a node, or None if a value is not a text, number or boolean."""
    declared = node.value if node else {}
    if not isinstance(declared, dict):
        return None
    return declared if all(isinstance(v, (str, int, float, bool)) for v in declared.values()) else None


def _as_declared_type(value: Any, declared: Any, what: Text, span: Span, report: Callable[..., None]) -> Any:
    """Return a value in the type of the declared one.

    A value that cannot be converted is reported, and the declared one is returned.
    """
    typed = _typed(value, declared)
    if typed is not None:
        return typed
    kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(type(declared), "a text")
    report(
        "PQ207",
        Message("{subject} {expected}, not {found}", subject=what, expected=kind, found=repr(value)),
        span,
        "give it such a value",
    )
    return declared


def _typed(value: Any, declared: Any) -> Any:
    """Return a given value in the type of the declared one, or None if it cannot be converted."""
    if isinstance(declared, str):
        return None if is_template(value) else str(value)
    parsed = scalar(value) if isinstance(value, str) else value
    if isinstance(parsed, NotUsable):
        return None
    if isinstance(parsed, bool) or isinstance(declared, bool):
        return parsed if isinstance(parsed, bool) and isinstance(declared, bool) else None
    if isinstance(declared, int):
        return parsed if isinstance(parsed, int) else None
    if isinstance(declared, float):
        return float(parsed) if isinstance(parsed, (int, float)) else None
    return parsed


def _target_names(root: Node) -> tuple[str, ...]:
    """Return the names of the declared targets."""
    node = root.children.get("targets")
    return tuple(node.value) if node and isinstance(node.value, dict) else ()


def _choose_target(
    root: Node, targets: tuple[str, ...], wanted: str | None, report: Callable[..., None], *, strict: bool
) -> str | None:
    """Return the target to use: the wanted or default one, or else the first; report an unclear choice."""
    if not targets:
        return None
    default = root.children.get("default_target")
    span = root.keys.get("targets", START)
    if default and isinstance(default.value, str) and default.value not in targets:
        report(
            "PQ305",
            f"default_target '{default.value}' is not declared",
            default.span,
            _known_targets(default.value, targets),
        )
        return wanted if wanted in targets else targets[0]
    if wanted is not None:
        if wanted in targets:
            return wanted
        report("PQ305", f"there is no target '{wanted}'", span, _known_targets(wanted, targets))
        return targets[0]
    if default and isinstance(default.value, str):
        return default.value
    if len(targets) > 1 and strict:
        report(
            "PQ305",
            "no target was chosen and there are several",
            span,
            Message(
                "{targets}; {option}, or set default_target",
                targets=_listed(targets),
                option=phrase("give --target", called="give target="),
            ),
        )
    return targets[0]


def _known_targets(name: str, targets: tuple[str, ...]) -> str:
    """Return the list of targets in words, and the nearest one to ``name``."""
    nearest = did_you_mean(name, targets)
    return _listed(targets) if nearest is None else f"{_listed(targets)}; {nearest}"


def _check_catalogs(file: SpecFile, report: Callable[..., None]) -> None:
    """Report options that catalogs of that type do not have, lack, or that contain a secret."""
    targets = file.value.get("targets")
    for target, declared in targets.items() if isinstance(targets, dict) else ():
        catalogs = declared.get("catalogs") if isinstance(declared, dict) else None
        for name, options in catalogs.items() if isinstance(catalogs, dict) else ():
            kind = options.get("type") if isinstance(options, dict) else None
            if kind not in CATALOG_OPTIONS:
                continue
            known, needed = CATALOG_OPTIONS[kind]
            at = ("targets", target, "catalogs", name)
            for option in sorted(options.keys() - {"type"} - known):
                report(
                    "PQ314",
                    f"a catalog of type {kind} has no {option}",
                    file.node.key_span((*at, option)),
                    f"remove it; {kind} has {', '.join(sorted(known))}",
                )
            for option in sorted(needed - file.node.at(at).keys.keys()):
                report(
                    "PQ314",
                    f"a catalog of type {kind} needs {option}",
                    file.node.key_span(at),
                    f"add {option}",
                )
            uri = options.get("uri")
            if kind == "hive" and isinstance(uri, str) and not _is_metastore(uri):
                report(
                    "PQ314",
                    "uri is not the address of a Hive Metastore",
                    file.node.at((*at, "uri")).span,
                    f"write {METASTORE_FORM}",
                )
            for option, value in options.items():
                if _is_secret(option, value):
                    summary = f"{option} (not shown) contains a secret"
                    hint = "put it into an environment variable, and write env:NAME"
                    report("PQ315", summary, file.node.at((*at, option)).span, hint, shows_lines=False)


def _check_operations(file: SpecFile, report: Callable[..., None]) -> None:
    """Report windows that no clock knows, and tables that wait longer after a clustering than they may."""
    targets = file.value.get("targets")
    for target, declared in targets.items() if isinstance(targets, dict) else ():
        rules = declared.get("operations") if isinstance(declared, dict) else None
        if not isinstance(rules, dict):
            continue
        at = ("targets", target, "operations")
        if isinstance(window := rules.get("window"), str):
            try:
                ServiceWindow.parse(window)
            except ValueError as error:
                report(
                    "PQ316",
                    f"operations.window cannot be used: {error}",
                    file.node.at((*at, "window")).span,
                    "write two times and a zone of the IANA database, such as 01:00-05:00 Europe/Rome",
                )
        found = [_seconds_of(rules.get(key)) for key in ("cooldown", "max_delay")]
        if found[0] is not None and found[0] >= (MAX_DELAY_SECONDS if found[1] is None else found[1]):
            report(
                "PQ317",
                "operations.cooldown is not shorter than max_delay, so a table is overdue while it waits",
                file.node.at((*at, "cooldown")).span,
                "shorten cooldown, or raise max_delay (default 7d)",
            )


def _seconds_of(value: Any) -> int | None:
    """Return the seconds of a duration, or None if there is none or it is invalid."""
    with suppress(ValueError):
        return duration_seconds(value) if isinstance(value, str) else None
    return None


def _is_metastore(uri: str) -> bool:
    """Return whether a text names Hive Metastores; a template and a password are judged elsewhere."""
    is_other = _VARIABLE.fullmatch(uri) or _PASSWORD.search(uri) or is_template(uri)
    return bool(is_other or metastore_addresses(uri))


def _is_secret(option: str, value: Any) -> bool:
    """Return whether an option of a catalog is a secret itself, or an address with a password."""
    if not isinstance(value, str) or _VARIABLE.fullmatch(value):
        return False
    return option in ("token", "credential") or _PASSWORD.search(value) is not None


def _listed(targets: tuple[str, ...]) -> str:
    """Return the list of targets in words."""
    return f"{'the target is' if len(targets) == 1 else 'targets are'} {', '.join(sorted(targets))}"


def _site(path: DocumentPath, beside: Node) -> TemplateSite:
    """Return the kind of place that a setting of a target is, which decides what its templates may read.

    Secrets may not be in addresses or on command lines. ``beside`` is the list or mapping that has
    the setting.
    """
    site = TemplateSite.TARGET
    match path[2:]:
        case ("storage", *options):
            names = [str(option) for option in options]
            if names and _CREDENTIAL.search(names[-1]) and not any(map(_ADDRESS.search, names)):
                site = TemplateSite.CREDENTIALS
        case ("lineage", "api_key"):
            site = TemplateSite.CREDENTIALS
        case ("spark", "conf", str() as key):
            site = _site_of_setting(key)
        case ("spark", "submit_args", int() as index):
            before, word = (str(beside.children[i].value) for i in (max(index - 1, 0), index))
            option, _, setting = word.partition("=")
            if before in _CONF:
                site = _site_of_setting(option)
            else:
                site = (
                    _site_of_setting(setting.partition("=")[0])
                    if option in _CONF
                    else TemplateSite.COMMAND_LINE
                )
    return site


def _site_of_setting(name: str) -> TemplateSite:
    """Return what a template in a Spark or storage setting may read, by the setting's name."""
    if name.lower().endswith("javaoptions"):
        return TemplateSite.COMMAND_LINE
    return TemplateSite.TARGET if _ADDRESS.search(name) else TemplateSite.CREDENTIALS


def _template_sites(
    root: Node,
    scope: TemplateScope,
    variables_of: Mapping[str | None, Mapping[str, Any] | None],
    chosen: str | None,
    environment: Mapping[str, str] | None,
) -> Callable[[DocumentPath], tuple[TemplateSite, TemplateScope] | None]:
    """Return the function that decides what a template at a path of the project file may read."""

    def scope_of(target: str) -> TemplateScope:
        known = environment if target == chosen else None
        variables = variables_of.get(target, scope.variables)
        return replace(scope, variables=variables, target=TargetView(name=target), environment=known)

    def reading(path: DocumentPath) -> tuple[TemplateSite, TemplateScope] | None:
        match path:
            case ("targets", str(), "vars", *_):
                return None
            case ("targets", str() as name, "allow", index, part, *rest):
                if part != "value":
                    return None
                setting = root.at(("targets", name, "allow", index, "setting")).value
                allowed = ("targets", name, *_steps(setting), *rest)
                return _site(allowed, root.at(path[:-1])), scope_of(name)
            case ("targets", str() as name, *_):
                return _site(path, root.at(path[:-1])), scope_of(name)
            case ("defaults", *_) | ("description",):
                return TemplateSite.SPEC, scope
        return None

    return reading


def _steps(setting: Any) -> list[str | int]:
    """Return the path within a target of the setting that an allow entry names.

    Templates in the entry's value may read what templates at this path may read.
    """
    section, _, rest = str(setting).partition(".")
    first, _, key = rest.partition(".")
    return [section, first, *filter(None, [key])] if section == "spark" else [section, *rest.split(".")]


def _warehouse(file: SpecFile, target: str | None, report: Callable[..., None]) -> str:
    """Return the target's normalised warehouse, or a placeholder if it is not known.

    Invalid warehouses of other targets are reported too.
    """
    targets = file.value.get("targets")
    chosen = targets.get(target) if isinstance(targets, dict) else None
    warehouse = masked(chosen.get("warehouse")) if isinstance(chosen, dict) else None
    for name, value in targets.items() if isinstance(targets, dict) else ():
        text = value.get("warehouse") if isinstance(value, dict) else None
        if isinstance(text, str) and name != target:
            _normalised(file, name, text, report)
    if not isinstance(warehouse, str) or target is None:
        return _UNKNOWN_WAREHOUSE
    return _normalised(file, target, warehouse, report)


def _warehouse_elsewhere(root: Node, scope: TemplateScope) -> str | None:
    """Return the warehouse of another target, or None if it depends on values that are not set here."""
    text = root.at(("targets", scope.target.name, "warehouse")).value
    if not isinstance(text, str):
        return None
    try:
        rendered = render(text, scope=scope, site=TemplateSite.TARGET)
        return normalised(rendered.value) if rendered.known and isinstance(rendered.value, str) else None
    except (TemplateProblem, LocationProblem):
        return None


def _normalised(file: SpecFile, target: str, text: str, report: Callable[..., None]) -> str:
    """Return a normalised location of the warehouse; report an invalid one and return a placeholder."""
    try:
        return normalised(text)
    except LocationProblem as problem:
        report(
            problem.code, problem.summary, file.node.at(("targets", target, "warehouse")).span, problem.hint
        )
        return _UNKNOWN_WAREHOUSE
