"""Declared SQL may compute, not run other programs: refused on Spark's own parsed plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from parquetry.runtime.errors import InvalidDataError

FORBIDDEN_FUNCTIONS = frozenset({"reflect", "java_method", "try_reflect"})
_LINE = 80
_FUNCTION = "org.apache.spark.sql.catalyst.analysis.UnresolvedFunction"
_TRANSFORM = "ScriptTransformation"
_COMPUTED_NAME = "WithUnresolvedIdentifier"


def check_query(spark: SparkSession, text: str, *, place: str) -> None:
    """Return when ``text`` is one SELECT that calls nothing forbidden; else InvalidDataError."""
    _refuse_forbidden(spark, _parsed(spark, text, place=place, expression=False), place)


def check_expression(spark: SparkSession, text: str, *, place: str) -> None:
    """Return when ``text`` is one expression that calls nothing forbidden; else InvalidDataError."""
    _refuse_forbidden(spark, _parsed(spark, text, place=place, expression=True), place)


def _parsed(spark: SparkSession, text: str, *, place: str, expression: bool) -> Any:
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001  # PySpark has no public parser
    try:
        return parser.parseExpression(text) if expression else parser.parseQuery(text)
    except ParseException as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidDataError(
            f"{place}: {shown_sql(text)} is not understood: {first}; correct the SQL"
        ) from error


def _refuse_forbidden(spark: SparkSession, plan: Any, place: str) -> None:
    for node in _nodes(spark, plan):
        kind = node.getClass().getName()
        if kind.endswith(_TRANSFORM):
            raise InvalidDataError(
                f"{place}: TRANSFORM runs another program and is refused; use SQL functions"
            )
        if kind.endswith(_COMPUTED_NAME):
            raise InvalidDataError(
                f"{place}: IDENTIFIER() hides what is called and is refused; write the name"
            )
        if kind == _FUNCTION:
            name = str(node.nameParts().last()).lower()
            if name in FORBIDDEN_FUNCTIONS:
                raise InvalidDataError(f"{place}: the function {name} is refused; use SQL functions")


def _nodes(spark: SparkSession, root: Any) -> Iterator[Any]:
    """Every Scala object below ``root``: plans, expressions, subqueries and what lies between.

    A parsed plan is made of case classes and collections, so walking those misses no part of it,
    in whatever Spark version it was parsed.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    product = jvm.java.lang.Class.forName("scala.Product")
    iterable = jvm.java.lang.Class.forName("scala.collection.Iterable")
    pending = [root]
    while pending:
        node = pending.pop()
        if not hasattr(node, "_target_id"):
            continue
        if iterable.isInstance(node):
            pending.extend(_drained(node.iterator()))
        elif product.isInstance(node):
            yield node
            pending.extend(_drained(node.productIterator()))


def _drained(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def shown_sql(text: str) -> str:
    """SQL on one line, quoted, cut where it is long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _LINE else line[: _LINE - 3] + "...")
