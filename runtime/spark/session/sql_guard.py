"""The check that SQL in specs only computes with the rows that it is given.

It walks Spark's own parsed plan, which may contain only listed parts. Every other part is refused, also one
that a later Spark adds. A query reads ``source`` and the names of its WITH; an expression reads no relation.
Nothing is analysed before this check, as the analysis of ``csv.`/path` `` opens the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from py4j.java_collections import JavaArray
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.connect import refuse_connect
from parquetry.text.sql_functions import FUNCTIONS
from parquetry.text.sql_rules import (
    MOST_CHARACTERS,
    SOURCE,
    shown_name,
    why_function_is_refused,
    why_table_function_is_refused,
)

ALLOWED_FUNCTIONS: Final = "spark.parquetry.sql.functions"
"""The session setting that lists, separated by commas, functions that SQL may call besides Spark's own."""

_LINE: Final = 80
_CATALYST: Final = "org.apache.spark.sql.catalyst."
# Classes of the packages `analysis` and `plans.logical` in Spark 3.5 to 4.3.
_PLANS: Final = frozenset(
    """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit
    LocalRelation Offset OneRowRelation Pivot Project RepartitionByExpression Sample Sort SubqueryAlias Union
    Unpivot UnresolvedHaving UnresolvedHint UnresolvedInlineTable UnresolvedPivot UnresolvedQualify
    UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction
    UnresolvedWith WithWindowDefinition
    """.split()  # noqa: SIM905 - thirty words read better as a text
)
_UNRESOLVED_EXPRESSIONS: Final = frozenset(
    """
    MultiAlias UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction
    UnresolvedGenerator UnresolvedOrdinal UnresolvedRegex UnresolvedStar UnresolvedStarExcept
    UnresolvedStarExceptOrReplace UnresolvedSubqueryStar
    """.split()  # noqa: SIM905 - a dozen words read better as a text
)
# Operators and literals, which the parser resolves at once; not `expressions.objects`, which calls methods.
_EXPRESSION: Final = re.compile(
    re.escape(_CATALYST) + r"expressions\.(?:(?:aggregate|json|variant|xml)\.)?[A-Z]\w*(?:\$.*)?"
)
_REMEDIES: Final = {
    "ScriptTransformation": "TRANSFORM runs another program and is refused; use SQL functions",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER() hides what is read and is refused; write the name",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER() hides what is called and is refused; write the name",
    "RelationTimeTravel": "a past state of a table is refused; read source as it is",
    "NamedParameter": "parameters are refused, as nothing gives them values; write the value",
    "PosParameter": "parameters are refused, as nothing gives them values; write the value",
}
_Names = frozenset[str]


def check_query(spark: SparkSession, text: str, *, place: str) -> None:
    """Raise InvalidDataError unless ``text`` is one SELECT that reads only ``source``.

    ``place`` begins the error.
    """
    plan = _parsed(spark, text, place=place, expression=False)
    _Guard(spark, place).check(plan, frozenset({SOURCE}))


def check_expression(spark: SparkSession, text: str, *, place: str) -> None:
    """Raise InvalidDataError unless ``text`` is one expression that only computes.

    ``place`` begins the error.
    """
    plan = _parsed(spark, text, place=place, expression=True)
    _Guard(spark, place).check(plan, None)


def _parsed(spark: SparkSession, text: str, *, place: str, expression: bool) -> Any:
    refuse_connect(
        spark,
        f"{place}: SQL",
        reason="parquetry checks what it does on Spark's parsed plan, which stays on the server",
        instead="compute it in the DataFrame that is written, filter the one that is read, or use a session "
        "with its own JVM",
    )
    if len(text) > MOST_CHARACTERS:
        raise InvalidDataError(
            "{place}: the SQL has {found_characters:,} characters, but the limit is {limit:,}; join with "
            "a table of the values instead",
            place=place,
            found_characters=len(text),
            limit=MOST_CHARACTERS,
        )
    if "${" in text:
        raise InvalidDataError(
            "{place}: '${{' is refused, as Spark replaces it by its settings and the environment; "
            "write the value",
            place=place,
        )
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001  # PySpark has no public parser
    try:
        # Not parseQuery: that of Spark 3.5 ignores text after the query.
        return parser.parseExpression(text) if expression else parser.parsePlan(text)
    except ParseException as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidDataError(
            "{place}: Spark cannot parse {sql}: {reason}; correct the SQL",
            place=place,
            sql=shown_sql(text),
            reason=first,
        ) from error
    except Py4JJavaError as error:
        if not str(error.java_exception).startswith("java.lang.StackOverflowError"):
            raise
        raise InvalidDataError(
            "{place}: {sql} is nested too deeply for Spark; compute it in steps",
            place=place,
            sql=shown_sql(text),
        ) from error


class _Guard:
    """The walk through a parsed plan.

    A scope is the set of relations that a node may name. It is None where no query is allowed.
    """

    def __init__(self, spark: SparkSession, place: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - the classes of Scala's objects
        class_of = jvm.java.lang.Class.forName
        self._product = class_of("scala.Product")
        self._iterable = class_of("scala.collection.Iterable")
        self._node = class_of(_CATALYST + "trees.TreeNode")
        self._plan = class_of(_CATALYST + "plans.logical.LogicalPlan")
        self._catalog: Any = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
        self._keeps_case = spark.conf.get("spark.sql.caseSensitive") == "true"
        self._place = place
        self._checked_functions: set[str] = set()
        self._allowed = set(spark.conf.get(ALLOWED_FUNCTIONS, "").lower().replace(",", " ").split())

    def check(self, root: Any, names: _Names | None) -> None:
        """Raise InvalidDataError unless everything below ``root`` is on the lists.

        A parsed plan consists of case classes and collections, so this walk reaches every part of it in any
        version of Spark.
        """
        pending: list[tuple[Any, _Names | None]] = [(root, names)]
        while pending:
            node, scope = pending.pop()
            if isinstance(node, JavaArray):
                pending.extend((part, scope) for part in node)
            elif not isinstance(node, JavaObject):
                continue
            elif self._iterable.isInstance(node):
                pending.extend((part, scope) for part in _drained(node.iterator()))
            elif self._product.isInstance(node):
                pending.extend(self._checked_parts(node, scope))

    def _checked_parts(self, node: Any, scope: _Names | None) -> Iterator[tuple[Any, _Names | None]]:
        """Check one node of the plan, and yield the parts below it with their scope."""
        if self._node.isInstance(node):
            kind = node.getClass().getName()
            if self._plan.isInstance(node):
                if scope is None:
                    raise self._refused(
                        "an expression reads no other rows, and a query within it is refused; "
                        "compute it in the select of the source"
                    )
                self._check_plan(node, kind, scope)
                if kind.endswith(".UnresolvedWith"):
                    yield from self._with_scopes(node, scope)
                    return
            else:
                self._check_expression(node, kind)
                if kind.endswith((".Literal", ".UnresolvedAttribute")):
                    return
        for part in _drained(node.productIterator()):
            yield part, scope

    def _with_scopes(self, node: Any, scope: _Names) -> Iterator[tuple[Any, _Names | None]]:
        """Yield the queries of a WITH, each with the names that it may use.

        These are the names before it, and its own name if it is recursive.
        """
        # The only boolean field is `allowRecursion`, which Spark 3.5 lacks.
        recursive = any(part is True for part in _drained(node.productIterator()))
        for named in _drained(node.cteRelations().iterator()):
            inner = scope | {self._cased(str(named._1()))}  # noqa: SLF001 - a tuple of Scala's
            yield named._2(), inner if recursive else scope  # noqa: SLF001
            scope = inner
        yield node.child(), scope

    def _check_plan(self, node: Any, kind: str, scope: _Names) -> None:
        """Raise InvalidDataError unless the relation is on the lists and reads only names of the scope."""
        package, _, name = kind.rpartition(".")
        is_known = name in _PLANS and package in (_CATALYST + "analysis", _CATALYST + "plans.logical")
        if not is_known and kind != _CATALYST + "expressions.PipeOperator":
            raise self._unlisted(kind)
        if name == "UnresolvedRelation":
            parts = tuple(map(str, _drained(node.multipartIdentifier().iterator())))
            if len(parts) != 1 or self._cased(parts[0]) not in scope or node.isStreaming():
                raise self._refused(
                    f"the query may not read '{shown_name(parts)}', only {SOURCE} and what it names in "
                    "WITH; ingest it with a source of its own"
                )
        if name == "UnresolvedTableValuedFunction":
            self._check_rows_of(_name_of(node.name()))

    def _check_expression(self, node: Any, kind: str) -> None:
        """Raise InvalidDataError unless the expression, and the function that it calls, is on the lists."""
        package, _, name = kind.rpartition(".")
        if not _EXPRESSION.fullmatch(kind) and not (
            package == _CATALYST + "analysis" and name in _UNRESOLVED_EXPRESSIONS
        ):
            raise self._unlisted(kind)
        if name == "UnresolvedGenerator":
            self._check_rows_of(_name_of(node.name()))
        if name == "UnresolvedFunction":
            called = _name_of(node.nameParts())
            refused = why_function_is_refused(called, node.arguments().size())
            if refused is not None:
                raise self._refused(
                    f"the function {shown_name(called)} is refused, as {refused}; use SQL functions"
                )
            self._check_listed(called)

    def _check_rows_of(self, name: tuple[str, ...]) -> None:
        """Raise InvalidDataError if SQL may not call the function that returns rows (a table function)."""
        refused = why_table_function_is_refused(name)
        if refused is not None:
            raise self._refused(
                f"the function {shown_name(name)} is refused, as {refused}; use one of Spark's"
            )

    def _check_listed(self, name: tuple[str, ...]) -> None:
        """Raise InvalidDataError unless the function is listed and this Spark or session has it.

        A listed function that this Spark lacks is refused too, as the catalog may load a jar for it.
        """
        word = name[-1].lower()
        if word in self._checked_functions:
            return
        self._checked_functions.add(word)
        if word not in FUNCTIONS and word not in self._allowed:
            raise self._refused(
                f"the function '{shown_name(name)}' is not one that SQL may call; correct its name, or list "
                f"it in {ALLOWED_FUNCTIONS}, under spark.conf of the target or in a session of your own"
            )
        if self._catalog.lookupBuiltinOrTempFunction(name[-1]).isEmpty():
            raise self._refused(
                f"neither Spark nor this session has a function '{shown_name(name)}'; correct its name"
            )

    def _unlisted(self, kind: str) -> InvalidDataError:
        """Return the error for a part of a plan that is not on the lists."""
        name = kind.rpartition(".")[2]
        remedy = f"SQL of specs may not use {name} of Spark's plan; write it in another way"
        return self._refused(_REMEDIES.get(name, remedy))

    def _refused(self, reason: str) -> InvalidDataError:
        return InvalidDataError("{place}: {reason}", place=self._place, reason=reason)

    def _cased(self, name: str) -> str:
        """Return a name in the form in which this session compares names."""
        # Beyond ASCII, Java and Python differ in the lower case of some letters.
        return name.lower() if name.isascii() and not self._keeps_case else name


def _name_of(name: Any) -> tuple[str, ...]:
    """Return the parts of a function's name, a list or an identifier with an optional database."""
    if name.getClass().getSimpleName() == "FunctionIdentifier":
        return tuple(str(name.unquotedString()).split("."))
    return tuple(map(str, _drained(name.iterator())))


def _drained(iterator: Any) -> Iterator[Any]:
    """Yield the elements of an iterator of Scala or Java."""
    while iterator.hasNext():
        yield iterator.next()


def shown_sql(text: str) -> str:
    """Return SQL for an error text: on one line, quoted and shortened."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _LINE else line[: _LINE - 3] + "...")
