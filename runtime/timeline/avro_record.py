"""A record of Hudi's that is the whole content of a state file on the timeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.avro_model import decode_container, encode_container


class AvroRecord(ABC):
    """``RECORD`` is Hudi's name for it. ``decode`` reads files of any Hudi version."""

    __slots__ = ()
    RECORD: ClassVar[str]

    @abstractmethod
    def to_avro(self) -> dict[str, Any]:
        """The record's Avro value."""

    @classmethod
    @abstractmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The record of an Avro value; fields that old versions lack get defaults."""

    def encode(self) -> bytes:
        """The bytes of the state file; equal records give equal bytes."""
        return encode_container(self.RECORD, self.to_avro())

    @classmethod
    def decode(cls, content: bytes, *, place: str) -> Self:
        """The record in a state file; CorruptTableError, naming ``place``, for anything else."""
        value = decode_container(content, place=place)
        try:
            return cls.from_avro(value)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptTableError(f"{place}: not a {cls.RECORD} ({error!r})") from error
