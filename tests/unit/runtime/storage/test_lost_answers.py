"""Conditional puts to stores in buckets whose answers get lost: no outcome is guessed."""

from __future__ import annotations

import pytest
from aiohttp import ClientConnectorError, ServerDisconnectedError
from aiohttp.client_reqrep import ConnectionKey
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from gcsfs.retry import HttpError

from parquetry.runtime.errors import UnknownOutcomeError
from parquetry.runtime.storage import bucket
from parquetry.runtime.storage.gcs import GcsStore
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.storage.s3 import S3Store
from tests.support.s3_server import BUCKET
from tests.support.scripted_put import ScriptedPut


class OnS3(ScriptedPut, S3Store):
    LOST = ReadTimeoutError(endpoint_url="http://lake")
    UNREACHABLE = EndpointConnectionError(endpoint_url="http://lake")
    FAILED, BUSY = (
        ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")
        for status, code in ((500, "InternalError"), (503, "SlowDown"))
    )


class OnGcs(ScriptedPut, GcsStore):
    LOST = ServerDisconnectedError()
    UNREACHABLE = ClientConnectorError(
        ConnectionKey(
            BUCKET, 443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
        ),
        OSError(111, "Connection refused"),
    )
    FAILED, BUSY = (HttpError({"code": status, "message": "said the store"}) for status in (503, 429))


@pytest.fixture(params=[OnS3, OnGcs])
def store(request, monkeypatch):
    monkeypatch.setattr(bucket, "FIRST_PAUSE_SECONDS", 0.001)
    options = request.getfixturevalue("s3_options" if request.param is OnS3 else "gcs_options")
    return request.param(BUCKET, options)


@pytest.mark.parametrize("nonce", [None, "n1"])
def test_a_lost_answer_is_found_to_be_ours(store, nonce):
    for number, error in enumerate((store.LOST, ConnectionResetError("reset"), store.FAILED)):
        store.script, store.sent = [(True, error)], 0
        assert store.put_if_absent(f"t{number}", b"data n1", nonce=nonce) is PutOutcome.MINE
        assert store.sent == 2


@pytest.mark.parametrize("nonce", [None, "n1"])
def test_a_request_lost_on_its_way_is_repeated_and_wins(store, nonce):
    store.script = [(False, store.LOST), (False, store.UNREACHABLE), (False, store.BUSY)]
    assert store.put_if_absent("t", b"data n1", nonce=nonce) is PutOutcome.WON
    assert store.read("t") == b"data n1"


@pytest.mark.parametrize("nonce", [None, "n1"])
def test_a_lost_answer_hides_no_other_winner(store, nonce):
    store.put("t", b"theirs")
    store.script = [(False, store.LOST)]
    assert store.put_if_absent("t", b"data n1", nonce=nonce) is PutOutcome.LOST
    assert store.read("t") == b"theirs"


def test_an_outcome_that_stays_unknown_is_no_failure(store):
    store.script = [(True, store.LOST)] + [(False, store.LOST)] * 10_000
    with pytest.raises(UnknownOutcomeError, match=rf"cannot tell if {store.uri}/t was written: .*; restore"):
        store.put_if_absent("t", b"x")
    assert store.read("t") == b"x"
