"""The file sizes that clustering rewrites, and those that it produces."""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.runtime.layout.packing import FILL_SHARE, OVERSIZE, SMALLEST_SHARE, Outputs, outputs_of
from parquetry.runtime.spec.clustering import PlanPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """The sizes that make a file due, and the sizes of the files that a rewrite makes.

    A file of five sixths of the target is not small, whatever ``small_file_limit`` is, because clustering
    writes such files itself. The target never exceeds the size up to which writers fill files.
    """

    target_bytes: int
    most_bytes: int
    small_below_bytes: int
    oversize_above_bytes: int

    @classmethod
    def of(cls, plan: PlanPolicy, *, max_file_size_bytes: int) -> SizeLimits:
        """Return the limits of a plan policy under the maximum file size."""
        target = min(plan.target_file_size_bytes, int(FILL_SHARE * max_file_size_bytes))
        return cls(
            target_bytes=target,
            most_bytes=max_file_size_bytes,
            small_below_bytes=min(plan.small_file_limit_bytes, int(target * SMALLEST_SHARE)),
            oversize_above_bytes=int(max_file_size_bytes * OVERSIZE),
        )

    def is_small(self, size_bytes: int) -> bool:
        """Return whether a file of that size should be merged with others."""
        return size_bytes < self.small_below_bytes

    def is_oversize(self, size_bytes: int) -> bool:
        """Return whether a file of that size should be split."""
        return size_bytes > self.oversize_above_bytes

    def is_off_size(self, size_bytes: int) -> bool:
        """Return whether a file of that size is small or oversize."""
        return self.is_small(size_bytes) or self.is_oversize(size_bytes)

    def output_files(self, size_bytes: float, *, rows: int | None = None) -> int:
        """Return the number of files that ``size_bytes`` go into."""
        return self.outputs(size_bytes, rows=rows).files

    def outputs(self, size_bytes: float, *, rows: int | None = None) -> Outputs:
        """Return the files that the writer makes from ``size_bytes``, at most as many as there are rows."""
        outputs = outputs_of(size_bytes, target_bytes=self.target_bytes, most_bytes=self.most_bytes)
        if rows is None or outputs.files <= max(rows, 1):
            return outputs
        each = size_bytes / max(rows, 1)
        return Outputs(files=max(rows, 1), each_bytes=each, last_bytes=each)
