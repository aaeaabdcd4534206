"""Jinja in string values: ``var``, ``env_var`` and ``target``.

A string that is a single expression takes the type of the expression's value: ``"{{ var('n') }}"`` may be a
number. :mod:`parquetry.project.validation.template_syntax` decides which templates are accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jinja2 import Undefined, UndefinedError, nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError

from parquetry.project.diagnostics.model import did_you_mean
from parquetry.project.validation.template_syntax import (
    ALLOWANCE,
    MAX_TEXT,
    TemplateAllowance,
    TemplateProblem,
    calls,
    environment,
    is_template,
    lone_expression,
    parsed,
    reads_warehouse,
)
from parquetry.text import shell
from parquetry.text.secret_names import MASK, SECRET_PREFIX, is_secret_name

_TYPES = "check the types of the variables that it reads"
_OWN = re.compile(r"PARQUETRY_(?!.*KEY)", re.DOTALL)
"""Names of parquetry's own variables, except those that may hold a key: any such variable may be secret."""


class TemplateSite(StrEnum):
    """The place of a template in a spec, which decides what the template may read.

    Values of CREDENTIALS are masked wherever they are shown. Every other value of a target may be printed,
    recorded, or sent as part of an address.
    """

    SPEC = "spec"
    TARGET = "target"
    CREDENTIALS = "credentials"
    COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret text; ``masked`` is its printable form with *** in place of the secret parts.

    ``template`` is the text as declared and ``names`` are the secret variables that it reads, so that files
    can refer to the variables.
    """

    masked: str
    template: str
    names: tuple[str, ...]
    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Return the secret text itself, for the code that has to use it."""
        return self._text

    def __str__(self) -> str:
        return self.masked


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """The object that templates see as ``target``; if ``warehouse`` is None, templates may not read it."""

    name: str
    warehouse: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVariables:
    """The names of environment variables that are declared to be public.

    ``elsewhere`` names the revision that declares them if it is not the project that is read.
    """

    names: frozenset[str] = frozenset()
    elsewhere: str | None = None

    def __contains__(self, name: str) -> bool:
        """Return whether a name is declared, or is parquetry's own and not that of a secret."""
        return name in self.names or (_OWN.match(name) is not None and not is_secret_name(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateScope:
    """The values that templates can read.

    ``variables`` is None if they could not be read, which is reported elsewhere. ``environment`` is None if
    no environment is read.
    """

    variables: Mapping[str, Any] | None
    target: TargetView
    environment: Mapping[str, str] | None = None
    declared: DeclaredVariables = DeclaredVariables()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The value of a string; ``known`` is False if it depends on variables that are not read here."""

    value: Any
    known: bool = True


def render(text: str, *, scope: TemplateScope, site: TemplateSite) -> Rendered:
    """Evaluate a template.

    If the environment is not read, ``env_var`` returns its default or the placeholder ``${NAME}``. If the
    template reads a secret variable, the value is a :class:`Secret`.

    Raises:
        TemplateProblem: if the template is not accepted here, or has no value.

    """
    tree = parsed(text)
    reads = calls(tree, "env_var")
    _check_reads(reads, site=site, declared=scope.declared)
    if scope.variables is None:
        return Rendered(value=text, known=False)
    _check_variables(tree, scope.variables)
    if scope.target.warehouse is None and reads_warehouse(tree):
        raise TemplateProblem("PQ206", "target.warehouse is not known here", "write it out")
    is_incomplete = scope.environment is None and not all(has_default for _, has_default in reads)
    try:
        value = _evaluate(text, scope, mask=False)
    except TemplateProblem:
        if is_incomplete:
            return Rendered(value=text, known=False)
        raise
    private = tuple(sorted({name for name, _ in reads if _is_hidden(name, scope)}))
    if private:
        masked = str(_evaluate(text, scope, mask=True))
        shown = masked if MASK in masked else MASK
        return Rendered(value=Secret(masked=shown, template=text, names=private, _text=str(value)))
    return Rendered(value=value, known=not is_incomplete)


def _is_hidden(name: str, scope: TemplateScope) -> bool:
    """Return whether a variable is secret and set; a variable that is not set has no value to hide."""
    if scope.environment is None or name in scope.declared:
        return False
    return name.startswith(SECRET_PREFIX) or name in scope.environment


def _check_reads(reads: list[tuple[str, bool]], *, site: TemplateSite, declared: DeclaredVariables) -> None:
    for name, _ in reads:
        if site is TemplateSite.SPEC:
            hint = "declare a variable under vars and read that"
            raise TemplateProblem("PQ203", f"env_var('{name}') is accepted only under targets", hint)
        if name.startswith(SECRET_PREFIX):
            if site is TemplateSite.COMMAND_LINE:
                summary = f"secret '{name}' would be on a command line, which every user of the machine reads"
                hint = "set it under spark.conf, where the job reads it, or in a file that is named here"
                raise TemplateProblem("PQ205", summary, hint)
            if site is not TemplateSite.CREDENTIALS:
                summary = (
                    f"secret '{name}' may be read only under spark and storage, "
                    "and not in a location or address"
                )
                raise TemplateProblem("PQ205", summary, "rename the variable if it is not a secret")
        elif name not in declared and site is not TemplateSite.CREDENTIALS:
            there, where = "", "in parquetry.yml"
            if declared.elsewhere is not None:
                there, where = f" at {declared.elsewhere}", f"at {declared.elsewhere} first"
            hint = f"declare it in `environment` {where}: environment: [{name}]"
            if is_secret_name(name):
                hint = "it has the name of a secret: read it only as a credential, under storage and spark"
            raise TemplateProblem("PQ210", f"environment variable '{name}' is not declared{there}", hint)


def _check_variables(tree: nodes.Template, variables: Mapping[str, Any]) -> None:
    for name, has_default in calls(tree, "var"):
        if name not in variables and not has_default:
            hint = did_you_mean(name, variables) or "declare it under vars in parquetry.yml"
            raise TemplateProblem("PQ202", f"variable '{name}' is not declared", hint)


def _evaluate(text: str, scope: TemplateScope, *, mask: bool) -> Any:
    """Return the template's value: a string, or any scalar if the template is a single expression."""
    variables, known, allowance = scope.variables or {}, scope.environment, TemplateAllowance()

    def var(name: str, default: Any = None) -> Any:
        return counted(variables.get(name, default))

    def counted(value: Any) -> Any:
        if isinstance(value, str):
            allowance.take(len(value))
        return value

    def env_var(name: str, *default: Any) -> Any:
        return counted(of_environment(name, *default))

    def of_environment(name: str, *default: Any) -> Any:
        if known is not None and name in known:
            return MASK if mask and name not in scope.declared else known[name]
        if default:
            return default[0]
        if known is None:
            return f"${{{name}}}"
        hint = f"set it: {shell.line('export', f'{name}=...')}"
        raise TemplateProblem("PQ204", f"environment variable '{name}' is not set", hint)

    names = {"var": var, "env_var": env_var, "target": scope.target, ALLOWANCE: allowance}
    expression = lone_expression(parsed(text))
    try:
        if expression is None:
            return _checked_value(environment().from_string(text).render(names))
        assignment = nodes.Assign(nodes.Name("result", "store", lineno=1), expression, lineno=1)
        template = environment().from_string(nodes.Template([assignment], lineno=1))
        return _checked_value(TemplateExpression(template, undefined_to_none=False)(names))
    except (UndefinedError, SecurityError, ArithmeticError, TypeError, ValueError) as error:
        raise TemplateProblem("PQ206", f"the template cannot be evaluated: {error}", _TYPES) from None


def _checked_value(value: Any) -> Any:
    """Return the value, or raise TemplateProblem if a spec cannot hold it."""
    wrong = None
    if isinstance(value, Undefined):
        wrong = "is undefined: a variable in it is not defined"
    elif isinstance(value, float) and not math.isfinite(value):
        wrong = "is not a finite number"
    elif value is not None and not isinstance(value, (str, int, float)):
        wrong = "is not a string, number or boolean"
    elif is_template(value):
        wrong = "is a template itself"
    elif isinstance(value, str) and len(value) > MAX_TEXT:
        wrong = f"has more than {MAX_TEXT:,} characters"
    if wrong:
        raise TemplateProblem("PQ206", f"the template's result {wrong}", _TYPES)
    return value
