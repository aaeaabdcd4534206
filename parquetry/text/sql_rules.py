"""The relations and functions that the SQL of specs may name.

The check without Spark and the check of Spark's own plan share these rules. Anybody who can open a pull
request may write a spec, which is then executed with the credentials of the table. Therefore its SQL computes
with the rows that it is given: it reads no other relation, and calls nothing that runs code or opens files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SOURCE: Final = "source"
"""The only relation of a ``select``, besides those that it defines in WITH."""

MOST_CHARACTERS: Final = 100_000
"""The maximum length of one SQL text: parsing takes time and memory, here and on the driver."""

TABLE_FUNCTIONS: Final = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack
    variant_explode variant_explode_outer
    """.split()  # noqa: SIM905 - a dozen words read better as a text
)
"""Functions that may be called in FROM or after LATERAL VIEW: they make rows from their arguments alone."""

_LONGEST_SHOWN: Final = 80
_OF_SPARK: Final = frozenset({(), ("builtin",), ("system", "builtin"), ("session",), ("system", "session")})
_RUNS_JAVA: Final = "it runs code of the cluster's Java"
_OPENS_FILES: Final = "it opens files by their paths"
_FETCHES: Final = "it can fetch what an XML text names"
REFUSED_FUNCTIONS: Final = {
    "reflect": _RUNS_JAVA,
    "java_method": _RUNS_JAVA,
    "try_reflect": _RUNS_JAVA,
    "from_protobuf": _OPENS_FILES,
    "to_protobuf": _OPENS_FILES,
    "xpath": _FETCHES,
    **{
        f"xpath_{kind}": _FETCHES
        for kind in ("boolean", "double", "float", "int", "long", "number", "short", "string")
    },
}
"""Functions of Spark that SQL may not call, each with the reason as a clause."""

# The arguments after these are options, which can name the file or address of a schema.
_ARGUMENTS_BEFORE_OPTIONS: Final = {"from_avro": 2, "schema_of_avro": 1, "from_xml": 2, "schema_of_xml": 1}


def why_function_is_refused(name: Sequence[str], arguments: int = 0) -> str | None:
    """Return the reason, as a clause, why SQL may not call a function, or None if it may.

    Args:
        name: The parts of the function's name, qualifiers first.
        arguments: The number of arguments of the call.

    """
    *qualifiers, last = (part.lower() for part in name)
    if tuple(qualifiers) not in _OF_SPARK:
        return "it is a function of a catalog, which may run code of other people"
    if last in REFUSED_FUNCTIONS:
        return REFUSED_FUNCTIONS[last]
    if arguments > _ARGUMENTS_BEFORE_OPTIONS.get(last, arguments):
        return "its options can name files"
    return None


def why_table_function_is_refused(name: Sequence[str]) -> str | None:
    """Return the reason, as a clause, why a function may not be in FROM or LATERAL VIEW, or None."""
    refused = why_function_is_refused(name)
    if refused is None and name[-1].lower() not in TABLE_FUNCTIONS:
        return f"in FROM and LATERAL VIEW only {', '.join(sorted(TABLE_FUNCTIONS))} are called"
    return refused


def shown_name(parts: Sequence[str]) -> str:
    """Return a name of SQL for a message, on one line and cut to 80 characters."""
    name = "".join(letter if letter.isprintable() else "?" for letter in ".".join(parts)[:_LONGEST_SHOWN])
    return f"{name}..." if len(name) == _LONGEST_SHOWN else name
