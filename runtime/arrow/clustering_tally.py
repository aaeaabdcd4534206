"""What a task counts of the rows that it takes in and of those that it writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from parquetry.runtime.arrow.fingerprint import MODULUS, fingerprint


class Tally:
    """Counts rows on their way, and sums up what they contain."""

    def __init__(self) -> None:
        self.rows = 0
        self.fingerprint = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, each counted when it is taken."""
        for batch in batches:
            self.rows += batch.num_rows
            self.add(batch)
            yield batch

    def add(self, columns: pa.RecordBatch) -> None:
        """Sum up some columns of rows that are counted elsewhere."""
        self.fingerprint = (self.fingerprint + fingerprint(columns)) % MODULUS

    def add_all(self, other: Tally) -> None:
        """Take over what another one has counted."""
        self.rows += other.rows
        self.fingerprint = (self.fingerprint + other.fingerprint) % MODULUS
