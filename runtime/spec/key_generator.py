"""Hudi's key generators, which determine the spelling of record keys and partition paths.

Source: KeyGeneratorType, KeyGenUtils and the classes of org.apache.hudi.keygen of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

NULL_KEY_PART: Final = "__null__"
EMPTY_KEY_PART: Final = "__empty__"
"""The texts that a record key of several fields contains for null and for an empty text."""

_PACKAGE: Final = "org.apache.hudi.keygen."


class KeyGenerator(StrEnum):
    """The key generators of Hudi, by the simple names of their Spark classes."""

    SIMPLE = "SimpleKeyGenerator"
    COMPLEX = "ComplexKeyGenerator"
    NON_PARTITION = "NonpartitionedKeyGenerator"
    TIMESTAMP = "TimestampBasedKeyGenerator"
    CUSTOM = "CustomKeyGenerator"
    GLOBAL_DELETE = "GlobalDeleteKeyGenerator"

    @property
    def class_name(self) -> str:
        """The full name of the Java class, as in ``hoodie.properties``."""
        return _PACKAGE + self.value


class KeyEncoding(StrEnum):
    """The spelling of a record key: ``v`` or ``field:v[,field:v...]``."""

    BARE = "bare"
    PREFIXED = "prefixed"


def choose_key_generator(record_key: Sequence[str], partition_by: Sequence[str]) -> KeyGenerator:
    """Return the key generator for a new table.

    It is Hudi's own choice, except for one key field and several partition fields: Hudi's versions disagree
    about ComplexKeyGenerator with one field, but agree about CustomKeyGenerator.
    """
    if not partition_by:
        return KeyGenerator.NON_PARTITION
    if len(record_key) <= 1 and len(partition_by) == 1:
        return KeyGenerator.SIMPLE
    return KeyGenerator.CUSTOM if len(record_key) == 1 else KeyGenerator.COMPLEX


def infer_key_generator(
    properties: Mapping[str, str], record_key: Sequence[str], partition_by: Sequence[str]
) -> KeyGenerator | None:
    """Return the key generator that the properties of a table mean, or None if it is not part of Hudi.

    Hudi 0.x stores a class, Hudi 1.x a type. Without either, the number of fields decides, as in Hudi.
    """
    class_name = properties.get("hoodie.table.keygenerator.class")
    if class_name:
        simple_name = class_name.removeprefix(_PACKAGE)
        return _BY_CLASS.get(simple_name) or _BY_CLASS.get(simple_name.replace("Avro", ""))
    type_name = properties.get("hoodie.table.keygenerator.type")
    if type_name:
        return KeyGenerator.__members__.get(type_name.upper().removesuffix("_AVRO"))
    if not partition_by:
        return KeyGenerator.NON_PARTITION
    single = len(record_key) <= 1 and len(partition_by) == 1
    return KeyGenerator.SIMPLE if single else KeyGenerator.COMPLEX


def key_encoding_of(generator: KeyGenerator | None, record_key: Sequence[str]) -> KeyEncoding | None:
    """Return the key encoding of the generator, or None if Hudi's versions disagree.

    Only the files of the table then show the encoding.
    """
    if generator is None:
        return None
    if len(record_key) != 1:
        return KeyEncoding.PREFIXED if record_key else KeyEncoding.BARE
    return None if generator in (KeyGenerator.COMPLEX, KeyGenerator.GLOBAL_DELETE) else KeyEncoding.BARE


_BY_CLASS = {generator.value: generator for generator in KeyGenerator}
