"""The templates that are accepted: Jinja parses them, and an allowlist checks the tree before evaluation.

A template may contain expressions, conditions and a few filters; no loops, assignments or method calls, and
no attributes except those of ``target``. So an evaluation takes time and memory linear in the text and in the
characters that its :class:`TemplateAllowance` permits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from parquetry.project.diagnostics.model import Problem, did_you_mean

MAX_TEXT = 100_000
MAX_CHARACTERS_READ = 10 * MAX_TEXT
"""The characters that one evaluation may read from variables or make with ``replace``."""

ALLOWANCE = "allowance"
"""The name of the evaluation's allowance in the Jinja context; templates cannot read it."""
TARGET_ATTRIBUTES = frozenset({"name", "warehouse"})
_MARKERS = ("{{", "{%", "{#")
_MAX_DEPTH = 24
_MAX_INTEGER = 10**18
_FUNCTIONS = frozenset({"var", "env_var"})
_FILTERS = ("abs", "d", "default", "float", "int", "lower", "replace", "round", "string", "trim", "upper")
_TESTS = ("defined", "none", "eq", "equalto", "ne", "in")
_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Const,
    nodes.Concat,
    nodes.Compare,
    nodes.Operand,
    nodes.CondExpr,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Neg,
    nodes.Pos,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    nodes.If,
    nodes.Tuple,
    nodes.List,
)


class TemplateProblem(Problem):
    """A template that is not accepted or has no value."""


def is_template(value: object) -> bool:
    """Return whether a value is a text with Jinja markers."""
    return isinstance(value, str) and any(marker in value for marker in _MARKERS)


class TemplateAllowance:
    """The number of characters that one evaluation may still read and make."""

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS_READ

    def take(self, characters: int) -> None:
        """Subtract characters from the allowance; raise SecurityError if fewer are left."""
        self._left -= characters
        if self._left < 0:
            raise SecurityError(
                f"its variables and replacements have more than {MAX_CHARACTERS_READ:,} characters together"
            )


class _Environment(ImmutableSandboxedEnvironment):
    """A Jinja sandbox in which arithmetic operators accept only numbers."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator on two numbers; raise SecurityError for other or huge operands."""
        for side in (left, right):
            if isinstance(side, bool) or not isinstance(side, (int, float)) or abs(side) > _MAX_INTEGER:
                raise SecurityError(f"'{operator}' takes numbers; join texts with '~'")
        return super().call_binop(context, operator, left, right)


@cache
def environment() -> ImmutableSandboxedEnvironment:
    """Return the Jinja environment with the accepted filters and tests and without globals."""
    made = _Environment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_as_yaml
    )
    made.globals.clear()
    filters = {name: made.filters[name] for name in _FILTERS}
    made.filters.clear()
    made.filters.update(filters, replace=_replace)
    tests = {name: made.tests[name] for name in _TESTS}
    made.tests.clear()
    made.tests.update(tests)
    return made


@cache
def parsed(text: str) -> nodes.Template:
    """Return the syntax tree of a template.

    Raises:
        TemplateProblem: if Jinja cannot parse it, or if it uses something that is not accepted.

    """
    try:
        tree = environment().parse(text)
    except TemplateSyntaxError as error:
        hint = "write an expression such as {{ var('name') }}"
        raise TemplateProblem("PQ201", f"template cannot be read: {error.message}", hint) from None
    except RecursionError:
        raise TemplateProblem("PQ201", "template is nested too deeply", "write the value out") from None
    _check_allowlist(tree, 0)
    return tree


def calls(tree: nodes.Template, function: str) -> list[tuple[str, bool]]:
    """Return the names in calls of ``var`` or ``env_var``, each with whether a default is given."""
    found = []
    for call in tree.find_all(nodes.Call):
        name = call.args[0]
        if isinstance(call.node, nodes.Name) and call.node.name == function and isinstance(name, nodes.Const):
            found.append((str(name.value), len(call.args) > 1))
    return found


def reads_warehouse(tree: nodes.Template) -> bool:
    """Return whether the template reads ``target.warehouse``."""
    return any(node.attr == "warehouse" for node in tree.find_all(nodes.Getattr))


def lone_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression if it is the whole template (its value keeps its type), or None."""
    match tree.body:
        case [nodes.Output(nodes=[nodes.TemplateData()])]:
            return None
        case [nodes.Output(nodes=[nodes.Expr() as expression])]:
            return expression
    return None


def _check_allowlist(node: nodes.Node, depth: int) -> None:
    refusal = _refusal(node)
    if refusal:
        hint = "only var(), env_var(), target and conditions are evaluated"
        raise TemplateProblem("PQ201", f"template uses {refusal}", hint)
    if depth > _MAX_DEPTH:
        raise TemplateProblem("PQ201", "template is nested too deeply", "write the value out")
    for child in node.iter_child_nodes():
        is_function = isinstance(node, nodes.Call) and child is node.node
        is_target = isinstance(node, nodes.Getattr) and isinstance(child, nodes.Name)
        if not is_function and not is_target:
            _check_allowlist(child, depth + 1)


def _refusal(node: nodes.Node) -> str | None:
    """Return the refused construct of a node as words for a message, or None if the node is accepted."""
    refused: str | None = None
    match node:
        case nodes.Call():
            refused = _refused_call(node)
        case nodes.Name(name="target"):
            refused = "'target' as a value; write target.name or target.warehouse"
        case nodes.Name() if node.name in _FUNCTIONS:
            refused = f"'{node.name}' as a value; write {node.name}('NAME')"
        case nodes.Name():
            known = did_you_mean(node.name, ("target", *_FUNCTIONS))
            refused = f"the unknown name '{node.name}'" + (f" ({known})" if known else "")
        case nodes.Getattr():
            of_target = isinstance(node.node, nodes.Name) and node.node.name == "target"
            if not of_target or node.attr not in TARGET_ATTRIBUTES:
                refused = f"the attribute '{node.attr}'; target has name and warehouse"
        case nodes.Filter():
            if node.name not in _FILTERS or node.node is None:
                refused = f"the filter '{node.name}'"
        case nodes.Test():
            if node.name not in _TESTS:
                refused = f"the test '{node.name}'"
        case nodes.Const(value=int() as number) if abs(number) > _MAX_INTEGER:
            refused = "a number of more than 18 digits"
        case _ if not isinstance(node, _ALLOWED):
            refused = f"'{type(node).__name__.lower()}'"
    return refused


def _refused_call(call: nodes.Call) -> str | None:
    if not isinstance(call.node, nodes.Name) or call.node.name not in _FUNCTIONS:
        return "a call of something else than var and env_var"
    match call.args:
        case [nodes.Const(value=str())] | [nodes.Const(value=str()), _]:
            if not call.kwargs and call.dyn_args is None and call.dyn_kwargs is None:
                return None
    return f"{call.node.name}() without a quoted name and at most a default"


def _as_yaml(value: Any) -> Any:
    """Return booleans and null within a longer text in YAML's spelling, and other values unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else value


@pass_context
def _replace(context: Context, text: Any, old: Any, new: Any) -> str:
    before, after = str(text), str(new)
    most = before.count(str(old)) * len(after) + len(before)
    if most > MAX_TEXT:
        raise SecurityError("the text grows too long")
    context[ALLOWANCE].take(most)
    return before.replace(str(old), after)
