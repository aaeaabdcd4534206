from __future__ import annotations

import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.key_generator import (
    KeyEncoding,
    KeyGenerator,
    choose_key_generator,
    key_encoding_of,
)
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.timeline.instant import Timezone

OLD = {
    "hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id", "hoodie.table.precombine.field": "ts", "hoodie.table.partition.fields": "p,q",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator", "hoodie.archivelog.folder": "archived",
    "hoodie.datasource.write.hive_style_partitioning": "true", "hoodie.table.timeline.timezone": "UTC",
}  # fmt: skip
NEW = {
    "hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id", "hoodie.table.ordering.fields": "ts", "hoodie.table.partition.fields": "p:SIMPLE,q:SIMPLE",
    "hoodie.table.keygenerator.type": "CUSTOM", "hoodie.archivelog.folder": "history", "hoodie.timeline.path": "timeline",
    "hoodie.datasource.write.hive_style_partitioning": "TRUE",
}  # fmt: skip


def config(**changes):
    raw = {**OLD, **{key.replace("__", "."): value for key, value in changes.items()}}
    return TableConfig.from_properties(
        {key: value for key, value in raw.items() if value is not None}, location="t"
    )


def test_both_spellings_mean_the_same():
    old, new = (TableConfig.from_properties(raw, location="t") for raw in (OLD, NEW))
    for read in (old, new):
        assert (read.name, read.version, read.layout) == ("t", 6, 1)
        assert read.record_key == ("id",)
        assert read.ordering == "ts"
        assert read.partition_by == ("p", "q")
        assert read.key_generator is KeyGenerator.CUSTOM
        assert read.hive_style
        assert read.meta_columns is MetaColumns.ALL
        assert read.metadata_partitions == ()
    assert old.timeline_layout.archive_folder == ".hoodie/archived"
    assert new.timeline_layout.archive_folder == ".hoodie/history"
    assert old.timezone is Timezone.UTC
    assert new.timezone is Timezone.LOCAL


@pytest.mark.parametrize(
    ("populate", "ours", "expected"),
    [
        ("false", None, MetaColumns.NONE),
        ("FALSE", "none", MetaColumns.NONE),
        ("false", "commit_time", MetaColumns.COMMIT_TIME),
        ("true", "commit_time", MetaColumns.ALL),
        (None, None, MetaColumns.ALL),
    ],
)
def test_meta_columns_follow_from_hudis_property_and_ours(populate, ours, expected):
    read = config(hoodie__populate__meta__fields=populate, parquetry__meta__columns=ours)
    assert read.meta_columns is expected


@pytest.mark.parametrize("ours", ["all", "key"])
def test_meta_columns_that_no_files_have_are_corrupt(ours):
    with pytest.raises(CorruptTableError, match="neither commit_time nor none"):
        config(hoodie__populate__meta__fields="false", parquetry__meta__columns=ours)


def test_several_ordering_fields_are_no_ordering():
    read = config(hoodie__table__ordering__fields="a,b")
    assert read.ordering is None
    assert read.ordering_fields == ("a", "b")


def test_metadata_partitions_count_when_they_are_being_built_too():
    assert config(
        hoodie__table__metadata__partitions="", hoodie__table__metadata__partitions__inflight="files"
    ).metadata_partitions == ("files",)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("org.apache.hudi.keygen.SimpleKeyGenerator", KeyGenerator.SIMPLE),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGenerator.COMPLEX),
        ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", KeyGenerator.NON_PARTITION),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", KeyGenerator.TIMESTAMP),
        ("com.example.MyKeyGenerator", None),
        ("com.example.SimpleKeyGenerator", None),
    ],
)
def test_key_generators_are_known_by_class(written, expected):
    assert config(hoodie__table__keygenerator__class=written).key_generator is expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("SIMPLE", KeyGenerator.SIMPLE),
        ("NON_PARTITION_AVRO", KeyGenerator.NON_PARTITION),
        ("USER_PROVIDED", None),
    ],
)
def test_key_generators_are_known_by_type(written, expected):
    read = config(hoodie__table__keygenerator__class=None, hoodie__table__keygenerator__type=written)
    assert read.key_generator is expected
    assert read.key_generator_class == written


@pytest.mark.parametrize(
    ("record_key", "partition_by", "expected"),
    [
        ("id", None, KeyGenerator.NON_PARTITION),
        ("id", "p", KeyGenerator.SIMPLE),
        ("id", "p,q", KeyGenerator.COMPLEX),
        ("a,b", "p", KeyGenerator.COMPLEX),
    ],
)
def test_without_a_generator_hudi_goes_by_the_number_of_fields(record_key, partition_by, expected):
    read = config(
        hoodie__table__keygenerator__class=None,
        hoodie__table__recordkey__fields=record_key,
        hoodie__table__partition__fields=partition_by,
    )
    assert read.key_generator is expected


@pytest.mark.parametrize(
    ("record_key", "partition_by", "expected"),
    [
        ((), (), KeyGenerator.NON_PARTITION), (("a", "b"), (), KeyGenerator.NON_PARTITION), (("a",), ("p",), KeyGenerator.SIMPLE),
        ((), ("p",), KeyGenerator.SIMPLE), (("a",), ("p", "q"), KeyGenerator.CUSTOM), (("a", "b"), ("p",), KeyGenerator.COMPLEX),
        (("a", "b"), ("p", "q"), KeyGenerator.COMPLEX), ((), ("p", "q"), KeyGenerator.COMPLEX),
    ],
)  # fmt: skip
def test_new_tables_never_get_a_complex_generator_for_one_key(record_key, partition_by, expected):
    assert choose_key_generator(record_key, partition_by) is expected


@pytest.mark.parametrize(
    ("generator", "record_key", "expected"),
    [
        (KeyGenerator.SIMPLE, ("a",), KeyEncoding.BARE), (KeyGenerator.CUSTOM, ("a",), KeyEncoding.BARE),
        (KeyGenerator.CUSTOM, ("a", "b"), KeyEncoding.PREFIXED), (KeyGenerator.NON_PARTITION, ("a",), KeyEncoding.BARE),
        (KeyGenerator.NON_PARTITION, ("a", "b"), KeyEncoding.PREFIXED), (KeyGenerator.COMPLEX, ("a", "b"), KeyEncoding.PREFIXED),
        (KeyGenerator.COMPLEX, ("a",), None), (KeyGenerator.GLOBAL_DELETE, ("a",), None), (KeyGenerator.COMPLEX, (), KeyEncoding.BARE),
    ],
)  # fmt: skip
def test_keys_are_spelled_as_the_generator_does(generator, record_key, expected):
    assert key_encoding_of(generator, record_key) is expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hoodie__table__name": None}, r"t/\.hoodie/hoodie\.properties: hoodie\.table\.name is missing"),
        ({"hoodie__table__version": "six"}, r"hoodie\.table\.version=six is not a number"),
        ({"hoodie__table__timeline__timezone": "Mars"}, "neither UTC nor LOCAL"),
    ],
)
def test_unusable_properties_are_named(changes, message):
    with pytest.raises(CorruptTableError, match=message):
        config(**changes)
