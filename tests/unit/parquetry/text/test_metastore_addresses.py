"""Addresses of Hive Metastores."""

from __future__ import annotations

import pytest

from parquetry.text.metastore_addresses import metastore_addresses


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("thrift://metastore", (("metastore", 9083),)),
        ("thrift://a.b:1/", (("a.b", 1),)),
        ("thrift://a:1, thrift://[::1]:2", (("a", 1), ("::1", 2))),
        ("thrift://a:65535", (("a", 65535),)),
        ("thrift://a:65536", ()),
        ("thrift://a:75083,thrift://b:1", ()),
        ("thrift://a:0", ()),
        ("thrift://a:1,", ()),
        ("thrift://ann:secret@a:1", ()),
        ("thrift://a:1/path", ()),
        ("http://a:1", ()),
        ("", ()),
    ],
)
def test_hosts_and_ports(uri: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert metastore_addresses(uri) == expected
