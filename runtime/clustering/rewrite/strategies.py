"""The execution strategies: the built-in ones, and those of the entry-point group.

A strategy is a function of the clustering columns and of a sample of a group's rows. It returns a function
that computes, for any rows of the group, the columns to sort them by. Tasks load the strategy by name, so a
plug-in has to be installed where they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.errors import ParquetryError
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.clustering.rewrite.stable_order import stable_order
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.curves import Ranks, bits_per_column, hilbert_index, z_index
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.plug_ins import EXECUTION_STRATEGIES, PLAN_STRATEGIES

_RANKED_AT_ONCE: Final = 16_384
"""The number of rows whose curve positions are computed at once: each takes several numbers per column."""

Keys: TypeAlias = Sequence[pa.Array | pa.ChunkedArray]
KeysOf: TypeAlias = Callable[[pa.Table], Keys]


class ExecutionStrategy(Protocol):
    """A function of column names, dotted for fields of structs, and of a sample with these columns."""

    def __call__(self, columns: Sequence[str], sample: pa.Table, /) -> KeysOf:
        """Return a function that computes the sort keys of rows, all ascending, the first one first.

        Values are ordered as in Arrow: NaN after all numbers, null after NaN, texts by their UTF-8 bytes.
        """
        ...


def by_columns(columns: Sequence[str], _: pa.Table, /) -> KeysOf:
    """Return a function whose sort keys are the columns themselves."""
    return lambda rows: [values_of(rows, name) for name in columns]


def by_z_curve(columns: Sequence[str], sample: pa.Table, /) -> KeysOf:
    """Return a function whose sort key is the position on the Z-order curve over the columns' quantiles."""
    return _by_curve(z_index, columns, sample)


def by_hilbert_curve(columns: Sequence[str], sample: pa.Table, /) -> KeysOf:
    """Return a function whose sort key is the position on the Hilbert curve over the columns' quantiles."""
    return _by_curve(hilbert_index, columns, sample)


BUILT_IN: Final[Mapping[str, ExecutionStrategy]] = {
    "sort": by_columns,
    "zorder": by_z_curve,
    "hilbert": by_hilbert_curve,
}


def execution_strategy(name: str) -> ExecutionStrategy:
    """Return the execution strategy of that name, built in or from the entry-point group.

    Raises:
        InvalidDataError: If there is no such strategy (the message lists the known ones), or it cannot be
            loaded.

    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    point = EXECUTION_STRATEGIES.entry_point(name)
    if point is None:
        raise InvalidDataError(
            "clustering.execution.strategy: {problem}", problem=EXECUTION_STRATEGIES.missing(name)
        )
    with plug_in_errors(name):
        strategy: ExecutionStrategy = point.load()
    return strategy


def plug_ins_of(policy: ClusteringSpec) -> list[tuple[str, str]]:
    """Return the strategies of the policy that are not built in, each with its path in the spec."""
    named = (
        ("clustering.plan.strategy", policy.plan.strategy, PLAN_STRATEGIES),
        ("clustering.execution.strategy", policy.execution.strategy, EXECUTION_STRATEGIES),
    )
    return [(path, name) for path, name, group in named if name not in group.built_in]


def are_allowed(policy: ClusteringSpec, allowed: Allowed) -> bool:
    """Return whether all strategies of the policy may be loaded."""
    return allowed.strategies.issuperset(name for _, name in plug_ins_of(policy))


def check_strategies(policy: ClusteringSpec, allowed: Allowed) -> None:
    """Raise InvalidDataError if a strategy of the policy may not be loaded."""
    for path, name in plug_ins_of(policy):
        allowed.check_strategy(path, name)


@contextmanager
def plug_in_errors(name: str) -> Iterator[None]:
    """Yield, and convert any error of a plug-in strategy into an InvalidDataError that names it."""
    try:
        yield
    except ParquetryError:
        raise
    except Exception as failure:
        if name in BUILT_IN:
            raise
        reason = quoted_library_text(" ".join(str(failure).split()))
        raise InvalidDataError(
            "clustering.execution.strategy: {strategy!r} failed: {error_class}: {reason}; correct the "
            "package that it comes from, or name another strategy",
            strategy=name,
            error_class=type(failure).__name__,
            reason=reason,
        ) from failure


def values_of(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the values of a column or of a dotted field of a struct, null where the struct is null.

    Raises:
        InvalidDataError: If the rows have no such column.

    """
    first, *inner = name.split(".")
    try:
        column = rows.column(first)
        for field in inner:
            column = pc.struct_field(column, field)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError) as error:
        raise InvalidDataError(
            "clustering.execution: the table has no column {column!r}; choose an existing column", column=name
        ) from error
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def ranks_in(values: pa.Array, known: pa.Array, *, bits: int) -> Ranks:
    """Return the share of the sorted ``known`` values below each value, in steps of ``2**-bits``.

    Equal shares of the rows get equal shares of the ranks, even if the values are skewed or share a prefix.
    """
    if not len(known):
        return np.zeros(len(values), np.uint64)
    order = stable_order([pa.concat_arrays([values, known])])
    is_known = order >= len(values)
    before = np.cumsum(is_known)
    smaller = np.empty(len(values), np.uint64)
    smaller[order[~is_known]] = before[~is_known].astype(np.uint64)
    steps = (smaller << np.uint64(bits)) // np.uint64(len(known))
    ranks: Ranks = np.minimum(steps, np.uint64((1 << bits) - 1))
    return ranks


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _by_curve(curve: Callable[..., Ranks], columns: Sequence[str], sample: pa.Table) -> KeysOf:
    """Return a function whose sort key is the position on a curve."""
    if len(columns) == 1:
        # A curve over one column has the order of the column.
        return by_columns(columns, sample)
    bits = bits_per_column(len(columns))
    values = [as_one_array(values_of(sample, name)) for name in columns]
    known = [column.take(pc.sort_indices(column)) for column in values]

    def keys(rows: pa.Table) -> Keys:
        ranks = [
            ranks_in(as_one_array(values_of(rows, name)), quantiles, bits=bits).astype(np.uint16)
            for name, quantiles in zip(columns, known, strict=True)
        ]
        positions = np.empty(rows.num_rows, np.uint64)
        for start in range(0, rows.num_rows, _RANKED_AT_ONCE):
            part = slice(start, start + _RANKED_AT_ONCE)
            positions[part] = curve([rank[part].astype(np.uint64) for rank in ranks], bits=bits)
        return [pa.array(positions)]

    return keys
