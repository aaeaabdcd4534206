"""The peculiarities of Google Cloud Storage: refusals, pages, buckets, versions of files."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from aiohttp import ClientConnectorError, ServerDisconnectedError
from aiohttp.client_reqrep import ConnectionKey
from gcsfs.retry import HttpError
from google.auth.exceptions import DefaultCredentialsError, RefreshError

from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnknownOutcomeError
from parquetry.runtime.storage import bucket
from parquetry.runtime.storage.gcs import GcsStore
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.storage.open import open_store
from tests.support.gcs_server import BUCKET
from tests.support.scripted_put import ScriptedPut

LOST = ServerDisconnectedError()
UNREACHABLE = ClientConnectorError(
    ConnectionKey("lake", 443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None),
    OSError(111, "Connection refused"),
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(bucket, "FIRST_PAUSE_SECONDS", 0.001)


class ScriptedStore(ScriptedPut, GcsStore):
    pass


@pytest.fixture
def store(gcs_options):
    return ScriptedStore(BUCKET, gcs_options)


def answer(status):
    return HttpError({"code": status, "message": f"{status} said the store"})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("Forbidden: https://lake/o\nno access"), "; grant these credentials the permission"),
        (answer(401), "; grant these credentials the permission"),
        (DefaultCredentialsError("no credentials"), "no credentials; check the endpoint, the credentials"),
        (RefreshError("no token"), "no token; check the endpoint, the credentials"),
        (answer(400), "; check the endpoint"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_is_a_failure_at_once(store, error, message):
    store.script = [(False, error)]
    with pytest.raises(StorageError, match=f"(?s)cannot write gs://lake/.*/t: .*{message}") as caught:
        store.put_if_absent("t", b"x")
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert store.sent == 1
    assert store.stat("t") is None


def test_a_conditional_put_is_one_request_that_the_client_does_not_repeat(store, monkeypatch):
    asked = []

    async def refuse(self, method, path, *args, **request):
        asked.append(request["ifGenerationMatch"])
        raise answer(503)

    monkeypatch.setattr(type(store._filesystem())._request, "__wrapped__", refuse)
    with pytest.raises(HttpError):
        super(ScriptedStore, store)._send_put_if("t", b"x", tag=None)
    assert asked == ["0"]


def test_bytes_that_look_like_a_boundary_are_kept(store):
    data = b"\r\n--==0==--\r\n--==0==\r\n--"
    store.put("t", data)
    assert store.put_if_absent("u", data) is PutOutcome.WON
    with store.create_file("v") as sink:
        sink.write(data)
    assert store.read("t") == store.read("u") == store.read("v") == data


def test_a_listing_goes_over_all_pages(store, monkeypatch):
    names = [f"p/{number:03}" for number in range(25)] + [f"q{number}/x" for number in range(3)]
    for name in names:
        store.put(name, b"")
    call = GcsStore._call
    pages = []

    def in_small_pages(self, method, path, *args, **request):
        if "prefix" in request:
            pages.append(request.get("pageToken"))
            request |= {"maxResults": 4}
        return call(self, method, path, *args, **request)

    monkeypatch.setattr(GcsStore, "_call", in_small_pages)
    assert [info.path for info in store.list("p")] == names[:25]
    assert len(pages) == 7
    assert store.list_folders() == ["p", "q0", "q1", "q2"]
    store.delete_folder("p")
    assert [info.path for info in store.list(recursive=True)] == names[25:]


def test_a_file_is_known_by_the_digest_of_its_content(store):
    store.put("a", b"content")
    store.put("b", b"content")
    store.put("c", b"others!")
    same, other, differing = store.list()
    assert same.etag == other.etag == store.stat("a").etag != differing.etag
    assert same.etag is not None


def test_folder_markers_of_other_tools_are_no_objects(store):
    store._put(f"{store.prefix}/p/", b"")
    store.put("p/f", b"x")
    assert [info.path for info in store.list(recursive=True)] == ["p/f"]
    assert store.list_folders() == ["p"]


def test_a_missing_bucket_is_named(gcs_options):
    store = open_store("gs://no-such-bucket/t", gcs_options)
    for act in (
        store.list,
        store.now_ms,
        lambda: store.put("a", b""),
        lambda: store.put_if_absent("a", b""),
    ):
        with pytest.raises(StorageError, match="there is no such bucket; create it") as caught:
            act()
        assert not isinstance(caught.value, NotFoundError)


def test_spark_reads_the_same_place(gcs_options):
    store = open_store("gs://lake/some/t/", gcs_options)
    assert (store.uri, store.spark_uri("p={1}")) == ("gs://lake/some/t", "gs://lake/some/t/p=\\{1\\}")
    assert open_store("gs://lake", gcs_options).uri == "gs://lake"


@cache
def body() -> bytes:
    """Return 256 MiB of nothing, compressed."""
    return gzip.compress(bytes(256 << 20), compresslevel=1)


class LargeObject(BaseHTTPRequestHandler):
    """Answers with an object that is compressed."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body())))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(body())

    def log_message(self, *_):
        """Say nothing."""


@pytest.mark.parametrize("most", [1000, 2 << 20])
def test_an_object_that_is_too_large_is_refused_before_it_is_read_or_unpacked(most):
    """The peak has what the client and the server of this process take besides, and what is read ahead."""
    with ThreadingHTTPServer(("127.0.0.1", 0), LargeObject) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            options = {"endpoint_url": f"http://127.0.0.1:{server.server_port}", "token": "anon"}
            store = open_store("gs://lake/t", options)
            with pytest.raises(TooLargeError):
                store.read("f", most_bytes=most)  # what the client imports and makes once is not counted
            LargeObject.asked.clear()
            tracemalloc.start(1)
            with pytest.raises(
                TooLargeError, match=f"gs://lake/t/f: it has .* bytes or more, and at most {most:,}"
            ):
                store.read("f", most_bytes=most)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            server.shutdown()
    assert len(LargeObject.asked) == 1
    assert peak < 16 << 20


def test_a_lost_answer_to_a_replacement_is_found_to_be_ours(store):
    first = store.put_if_match("t", b"1", tag=None)
    store.script = [(True, LOST)]
    second = store.put_if_match("t", b"2", tag=first)
    assert store.read_version("t").tag == second
    store.script = [(False, LOST)]
    assert store.put_if_match("t", b"3", tag=first) is None
    assert store.read("t") == b"2"


def test_a_replacement_whose_outcome_stays_unknown_ends_when_its_caller_says(store):
    first = store.put_if_match("t", b"1", tag=None)
    store.patience_seconds = 600
    store.script = [(True, LOST)] + [(False, LOST)] * 10_000
    with pytest.raises(UnknownOutcomeError):
        store.put_if_match("t", b"2", tag=first, patience_seconds=0.1)
    assert store.read("t") == b"2"
