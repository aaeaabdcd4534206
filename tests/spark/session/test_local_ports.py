"""Where the JVM of a session without a cluster listens, and whom it answers."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

_SESSION = """
from parquetry.runtime.spark.session.start import start_session
from parquetry.runtime.spec.job import SparkSettings

session = start_session(SparkSettings(master="local[2]"), name="ports")
assert session.range(10).repartition(2).count() == 10
context = session.sparkContext
print(context._gateway.proc.pid, context.getConf().get("spark.driver.port"), flush=True)
input()
"""

_REQUEST = 3
"""RpcRequest of Spark's network protocol: a frame of length, type, id, length of the body, body."""


@pytest.mark.spark
def test_spark_listens_on_loopback_and_deserializes_nothing_of_strangers():
    child = subprocess.Popen(
        [sys.executable, "-c", _SESSION], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None and child.stdin is not None
        pid, port = map(int, child.stdout.readline().split())
        addresses = _listening(pid)
        answer = _answer_to(port, b"\xac\xed\x00\x05no object")
        child.stdin.write("\n")
    assert len(addresses) >= 2, "the gateway of Python, and the driver"
    assert all(address.is_loopback for address in addresses), addresses
    assert b"Expected SaslMessage" in answer
    assert b"ObjectInputStream" not in answer, "nothing is deserialized"
    assert child.returncode == 0


def _listening(pid: int) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses at which a process listens."""
    folder = Path(f"/proc/{pid}/fd")
    links = [os.readlink(folder / name) for name in os.listdir(folder)]
    own = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in own:
                found.append(_address(words[1].partition(":")[0]))
    return found


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address that Linux writes as words of 32 bits, each in the machine's order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _answer_to(port: int, body: bytes) -> bytes:
    frame = struct.pack(">qbqi", 21 + len(body), _REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(frame)
        (length,) = struct.unpack(">q", _received(connection, 8))
        return _received(connection, length - 8)


def _received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := connection.recv(size - len(found))):
        found += part
    return found
