"""Write-time file sizing: the number of a batch's new rows that goes into each file.

The algorithm is that of Apache Hudi's copy-on-write upsert partitioner: small files are filled up, and the
rest goes to new files of the split size. In place of Hudi's hash scatter it uses exact quotas, and it fills
the cheapest files first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.packing import FILL_SHARE
from parquetry.runtime.spec.sizing import SizingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The number of new rows for one file; if ``slice`` is None, for a file to be created.

    ``size_after_bytes`` is predicted from the record size.
    """

    slice: FileSlice | None
    inserts: int
    size_after_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDecision:
    """The decision about an existing file with its reason; ``inserts`` may be 0."""

    slice: FileSlice
    small: bool
    updates: int
    inserts: int
    size_after_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingPlan:
    """Quotas that sum to the batch's inserts.

    ``assignments`` are in the order in which incoming rows are dealt out, and each has at least one row.
    ``decisions`` contains every existing file, in the order given. ``split_size_rows`` is the number of rows
    of a full new file.
    """

    assignments: tuple[Assignment, ...]
    decisions: tuple[SliceDecision, ...]
    record_size_bytes: float
    split_size_rows: int

    @property
    def inserts(self) -> int:
        """The number of rows that the plan assigns."""
        return sum(assignment.inserts for assignment in self.assignments)

    @property
    def new_files(self) -> tuple[Assignment, ...]:
        """The assignments to files that are to be created."""
        return tuple(a for a in self.assignments if a.slice is None)


@dataclass(slots=True)
class _Candidate:
    slice: FileSlice
    room: int
    rewritten_anyway: bool
    inserts: int = field(default=0)


def full_file_bytes(policy: SizingPolicy) -> int:
    """Return the number of bytes up to which writers fill a file."""
    return int(FILL_SHARE * policy.max_file_size_bytes)


def split_size(policy: SizingPolicy, record_size_bytes: float) -> int:
    """Return the number of rows of a full new file, at least 1.

    This is the configured number, but never more rows than fit into a full file.
    """
    fitting = max(1, Fraction(full_file_bytes(policy)) // _exact(record_size_bytes))
    return fitting if policy.insert_split_size is None else min(policy.insert_split_size, fitting)


def plan_inserts(
    *,
    slices: Sequence[FileSlice],
    inserts: int,
    record_size_bytes: float,
    policy: SizingPolicy,
    updates: Mapping[str, int] | None = None,
    excluded: Mapping[str, str] | None = None,
) -> SizingPlan:
    """Return the plan that distributes ``inserts`` rows of one partition over its files and new ones.

    The result does not depend on the order of ``slices``, except that ``decisions`` follow it.

    Args:
        slices: The existing files of the partition.
        inserts: The number of rows to distribute.
        record_size_bytes: The average compressed bytes per row.
        policy: The sizing policy.
        updates: The number of updates and deletes by file id. The write rewrites these files in any case, so
            filling them costs nothing.
        excluded: The files that must not be filled: the reason by file id.

    Raises:
        ValueError: If ``inserts`` is negative or ``record_size_bytes`` is not positive.

    """
    updates = updates or {}
    excluded = excluded or {}
    record = _exact(record_size_bytes)
    if inserts < 0 or record <= 0:
        msg = (
            "the number of rows must not be negative, and their size must be positive: "
            f"found {inserts} rows of {record_size_bytes} bytes"
        )
        raise ValueError(msg)
    reasons: dict[str, str] = {}
    candidates: list[_Candidate] = []
    for file_slice in slices:
        room = max(0, (full_file_bytes(policy) - file_slice.size_bytes) // record)
        refusal = _refusal(file_slice, policy, room=room, excluded=excluded)
        if refusal is None:
            is_rewritten = updates.get(file_slice.file_id, 0) > 0
            candidates.append(_Candidate(file_slice, room, is_rewritten))
        else:
            reasons[file_slice.file_id] = refusal
    candidates.sort(key=_cost)
    left = _fill(candidates, inserts, record=record, policy=policy)
    for candidate in candidates:
        reasons[candidate.slice.file_id] = _filling_reason(candidate, policy)
    per_file = split_size(policy, record_size_bytes)
    quotas = {c.slice.file_id: c.inserts for c in candidates}
    return SizingPlan(
        assignments=(
            *(
                Assignment(
                    slice=c.slice,
                    inserts=c.inserts,
                    size_after_bytes=_size_after(c.slice.size_bytes, c.inserts, record),
                    reason=reasons[c.slice.file_id],
                )
                for c in candidates
                if c.inserts
            ),
            *_new_files(left, per_file=per_file, record=record, policy=policy),
        ),
        decisions=tuple(
            SliceDecision(
                slice=file_slice,
                small=is_small(file_slice.size_bytes, policy),
                updates=updates.get(file_slice.file_id, 0),
                inserts=quotas.get(file_slice.file_id, 0),
                size_after_bytes=_size_after(
                    file_slice.size_bytes, quotas.get(file_slice.file_id, 0), record
                ),
                reason=reasons[file_slice.file_id],
            )
            for file_slice in slices
        ),
        record_size_bytes=record_size_bytes,
        split_size_rows=per_file,
    )


def is_small(size_bytes: int, policy: SizingPolicy) -> bool:
    """Return whether the next write may fill a file of that size; False if the small file limit is 0."""
    return size_bytes < min(policy.small_file_limit_bytes, full_file_bytes(policy))


def _exact(record_size_bytes: float) -> Fraction:
    """Return the number as a fraction, because floating-point division would sometimes misplace a row."""
    return Fraction(record_size_bytes)


def _cost(candidate: _Candidate) -> tuple[Fraction, str]:
    """Return the rewritten bytes per added row if the file is filled up, then the file id to break ties."""
    rewritten = 0 if candidate.rewritten_anyway else candidate.slice.size_bytes
    return Fraction(rewritten, candidate.room), candidate.slice.file_id


def _refusal(
    file_slice: FileSlice, policy: SizingPolicy, *, room: int, excluded: Mapping[str, str]
) -> str | None:
    """Return the reason why a file cannot be filled, or None if it can be."""
    if policy.small_file_limit_bytes == 0:
        return "not filled: filling small files is off (small_file_limit 0)"
    if not is_small(file_slice.size_bytes, policy):
        return f"not small: {file_slice.size_bytes} B, the limit is {policy.small_file_limit_bytes} B"
    if file_slice.file_id in excluded:
        return f"small, left out: {excluded[file_slice.file_id]}"
    if room == 0:
        return "small, but a whole record does not fit below the maximum"
    return None


def _fill(candidates: Sequence[_Candidate], inserts: int, *, record: Fraction, policy: SizingPolicy) -> int:
    """Set the quotas of the candidates, cheapest first, and return the number of rows that are left."""
    left = _fill_in_order(candidates, inserts, record=record, policy=policy)
    small = [c for c in candidates if is_small(_size_after(c.slice.size_bytes, c.inserts, record), policy)]
    deficit = sum(candidate.room for candidate in candidates) - inserts
    spare = [candidate for candidate in candidates if candidate.room >= deficit]
    if len(small) > 1 and spare and policy.min_fill == 0:
        # The batch can fill all candidates but one, so only the costliest of them stays small.
        last = spare[-1]
        ordered = [*(c for c in candidates if c is not last), last]
        return _fill_in_order(ordered, inserts, record=record, policy=policy)
    return left


def _fill_in_order(
    candidates: Sequence[_Candidate], inserts: int, *, record: Fraction, policy: SizingPolicy
) -> int:
    """Set the quotas of the candidates in the given order and return the number of rows that are left."""
    left = inserts
    for candidate in candidates:
        quota = min(candidate.room, left)
        gained = quota * record
        least = Fraction(policy.min_fill) * candidate.slice.size_bytes
        is_worth_it = candidate.rewritten_anyway or gained >= least
        candidate.inserts = quota if is_worth_it else 0
        left -= candidate.inserts
    return left


def _filling_reason(candidate: _Candidate, policy: SizingPolicy) -> str:
    if candidate.inserts == candidate.room:
        why = "it is rewritten for its updates anyway" if candidate.rewritten_anyway else "small"
        return f"filled up: {why}"
    if candidate.inserts:
        return "filled in part: no rows were left"
    if policy.min_fill > 0:
        return f"small, not filled: it would get less than min_fill ({policy.min_fill:g}) of its size"
    return "small, not filled: no rows were left"


def _new_files(rows: int, *, per_file: int, record: Fraction, policy: SizingPolicy) -> tuple[Assignment, ...]:
    full, rest = divmod(rows, per_file)
    configured = policy.insert_split_size == per_file
    origin = "insert_split_size rows" if configured else "as many rows as fill it"
    files = [
        Assignment(
            slice=None,
            inserts=per_file,
            size_after_bytes=_size_after(0, per_file, record),
            reason=f"new file, full: {origin}",
        )
    ] * full
    if rest:
        files.append(
            Assignment(
                slice=None,
                inserts=rest,
                size_after_bytes=_size_after(0, rest, record),
                reason=f"new file, for the rest: {rest} of {per_file} rows",
            )
        )
    return tuple(files)


def _size_after(size_bytes: int, inserts: int, record: Fraction) -> int:
    """Return the predicted size of a file after so many inserts."""
    return size_bytes + int(inserts * record)
