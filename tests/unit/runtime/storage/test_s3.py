"""What is particular to S3: answers that get lost, conflicts, pages, buckets, credentials."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from parquetry.message import Value
from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnknownOutcomeError
from parquetry.runtime.storage import bucket, s3
from parquetry.runtime.storage.bucket import opened_in_turn
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.s3 import S3Store
from tests.support.s3_server import BUCKET
from tests.support.scripted_put import ScriptedPut

TIMEOUT = ReadTimeoutError(endpoint_url="http://lake")
UNREACHABLE = EndpointConnectionError(endpoint_url="http://lake")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(bucket, "FIRST_PAUSE_SECONDS", 0.001)


class ScriptedStore(ScriptedPut, S3Store):
    pass


@pytest.fixture
def store(s3_options):
    return ScriptedStore(BUCKET, s3_options)


def answer(status, code, *, retries=0):
    response = {
        "Error": {"Code": code, "Message": f"{code} said the store"},
        "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": retries},
    }
    return ClientError(response, "PutObject")


def test_a_retry_of_the_client_itself_counts_as_a_lost_answer(store):
    store.put("t", b"same bytes")
    store.script = [(False, answer(412, "PreconditionFailed", retries=1))]
    assert store.put_if_absent("t", b"same bytes") is PutOutcome.MINE
    store.script = [(False, answer(412, "PreconditionFailed"))]
    assert store.put_if_absent("t", b"same bytes") is PutOutcome.LOST


def test_a_conflict_is_repeated(store):
    conflict = answer(409, "ConditionalRequestConflict")
    store.script = [(False, conflict)] * 3
    assert store.put_if_absent("t", b"x") is PutOutcome.WON
    assert store.sent == 4


def test_when_the_winner_vanishes_before_it_is_read_the_put_is_repeated(store):
    store.script = [(False, answer(412, "PreconditionFailed"))]
    assert store.put_if_absent("t", b"n1", nonce="n1") is PutOutcome.WON


def test_a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_written(store):
    store.script = [(True, TIMEOUT)] + [(False, answer(403, "ExpiredToken"))] * 10_000
    with pytest.raises(UnknownOutcomeError):
        store.put_if_absent("t", b"x")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (answer(403, "AccessDenied"), r".*AccessDenied.*; grant these credentials the permission"),
        (answer(404, "NoSuchBucket"), r"there is no such bucket; create it"),
        (NoCredentialsError(), r"Unable to locate credentials; check"),
    ],
)
def test_a_refusal_is_a_failure_at_once(store, error, message):
    store.script = [(False, error)]
    with pytest.raises(StorageError, match=f"cannot write s3://lake/.*/t: {message}") as caught:
        store.put_if_absent("t", b"x")
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert store.sent == 1
    assert store.stat("t") is None


def test_what_could_not_be_deleted_is_named_as_a_value(store, monkeypatch):
    error = {"Key": "t/p=Ada/x.parquet", "Code": "AccessDenied", "Message": "not p=Ada"}
    monkeypatch.setattr(store, "_call", lambda *_, **__: {"Errors": [error]})
    with pytest.raises(
        StorageError, match=f"cannot delete s3://{BUCKET}/t/p=Ada/x.parquet: not p=Ada"
    ) as caught:
        store.delete_all(["p=Ada/x.parquet"])
    assert [part for part in caught.value.args[0].parts if "Ada" in str(part)] == [
        Value.uri(f"s3://{BUCKET}/t/p=Ada/x.parquet"),
        Value.quote("not p=Ada", "AccessDenied"),
    ]


def test_a_store_that_was_never_reached_is_a_failure_after_the_patience(store):
    store.script = [(False, UNREACHABLE)] * 10_000
    with pytest.raises(StorageError, match="Could not connect to the endpoint") as caught:
        store.put_if_absent("t", b"x")
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert store.sent > 2


def test_what_is_no_clients_error_passes_through(store):
    store.script = [(False, AttributeError("a bug"))]
    with pytest.raises(AttributeError):
        store.put_if_absent("t", b"x")


def test_listing_goes_over_all_pages(store):
    for number in range(1003):
        store._filesystem().call_s3(
            "put_object", Bucket=BUCKET, Key=f"{store.prefix}/p/{number:04}", Body=b""
        )
    assert [info.path for info in store.list("p")] == [f"p/{number:04}" for number in range(1003)]
    store.delete_folder("p")
    assert store.list(recursive=True) == []


def test_folder_markers_of_other_tools_are_no_objects(store):
    store._filesystem().call_s3("put_object", Bucket=BUCKET, Key=f"{store.prefix}/p/", Body=b"")
    store.put("p/f", b"x")
    assert [info.path for info in store.list(recursive=True)] == ["p/f"]
    assert store.list_folders() == ["p"]


def test_each_operation_is_one_request(store, s3_requests):
    def requests():
        found = dict(s3_requests)
        s3_requests.clear()
        return found

    store.put("a", b"first")
    assert requests() == {"PUT": 1}
    assert store.read("a") == b"first"
    assert requests() == {"GET": 1}
    store.put("none", b"")
    assert store.read("none") == b""
    assert requests() == {"PUT": 1, "GET": 1}
    assert store.read_range("a", 1, 3) == b"ir"
    assert requests() == {"GET": 1}
    store.put_if_absent("b", b"second")
    assert requests() == {"PUT": 1}
    store.stat("b")
    assert requests() == {"HEAD": 1}
    store.list()
    store.list_folders()
    assert requests() == {"LIST": 2}
    with store.create_file("c") as sink:
        sink.write(b"third")
    assert requests() == {"PUT": 1}
    store.delete_all(["a", "b"])
    assert requests() == {"DELETE": 1}


def test_an_answer_that_breaks_off_is_asked_for_again(store, monkeypatch):
    store.put("a", b"data")
    client = store._filesystem()
    broken = [ConnectionResetError("gone"), TIMEOUT]
    call = type(client)._call_s3

    async def breaks_off(self, method, **request):
        answer = await call(self, method, **request)
        if broken:
            answer["Body"] = Broken(broken.pop())
        return answer

    monkeypatch.setattr(type(client), "_call_s3", breaks_off)
    assert store.read("a") == b"data"
    broken[:] = [ConnectionResetError("gone")] * s3._READ_ATTEMPTS
    with pytest.raises(StorageError, match="gone"):
        store.read("a")


class Broken:
    """The body of an answer whose connection ends."""

    def __init__(self, error):
        self._error = error

    async def read(self):
        raise self._error

    def close(self):
        pass


def test_an_overwritten_object_has_another_etag(store):
    store.put("f", b"1")
    first = store.stat("f")
    store.put("f", b"2")
    assert first.etag != store.stat("f").etag == store.list()[0].etag


def test_a_missing_bucket_is_named(s3_options):
    store = open_store("s3://no-such-bucket/t", s3_options)
    for action in (
        lambda: store.put("f", b""),
        lambda: store.put_if_absent("f", b""),
        store.list,
        lambda: store.delete_all(["f"]),
    ):
        with pytest.raises(StorageError, match=r"s3://no-such-bucket/t.*there is no such bucket; create it"):
            action()


def test_a_file_in_many_parts(store):
    block = bytes(range(256)) * 4096
    with store.create_file("big") as sink:
        for _ in range(40):
            sink.write(block)
    assert store.stat("big").size_bytes == 40 * len(block)
    with store.open_input("big") as source:
        source.seek(39 * len(block))
        assert source.read() == block


def test_the_clock_is_the_stores_and_asked_once_a_minute(store, monkeypatch):
    store.now_ms()
    monkeypatch.setattr(store, "_read_clock", None)
    first = store.now_ms()
    time.sleep(0.01)
    assert first < store.now_ms()


def test_a_bucket_may_be_the_root(s3_options):
    store = open_store(f"s3://{BUCKET}", s3_options)
    assert (store.uri, store.spark_uri(""), store.spark_uri("a[1]")) == (
        f"s3://{BUCKET}",
        f"s3a://{BUCKET}",
        f"s3a://{BUCKET}/a\\[1\\]",
    )
    name = uuid.uuid4().hex
    store.put(f"{name}/f", b"x")
    assert name in store.list_folders()
    assert [info.path for info in store.list(name)] == [f"{name}/f"]
    store.delete_folder(name)


def test_s3a_is_s3():
    store = open_store("s3a://lake/some/t/")
    assert isinstance(store, S3Store)
    assert store.uri == "s3://lake/some/t"
    assert store.spark_uri("d=1") == "s3a://lake/some/t/d=1"
    assert store == open_store("s3://lake/some/t")
    assert store != open_store("s3://lake/some/u")


def test_every_put_asks_for_the_encryption_of_the_options(s3_options):
    asked = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/lake"}
    options = {**s3_options, "s3_additional_kwargs": asked}
    store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}", options)
    store.put("a", b"1")
    assert store.put_if_absent("b", b"2") is PutOutcome.WON
    for name, size in (("c", 10), ("d", 20_000_000)):
        with store.create_file(name) as sink:
            sink.write(b"3" * size)
    for name in "abcd":
        head = store._call("head_object", Key=f"{store.prefix}/{name}")
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "alias/lake"), name


def test_an_object_that_is_absent_is_not_found(store):
    with pytest.raises(NotFoundError, match=rf"{store.uri}/none: there is no such object"):
        store.read("none")


def test_an_object_that_is_too_large_is_refused_before_its_body_is_read(store, monkeypatch):
    store.put("t", b"theirs")
    filesystem = store._filesystem()
    send, sent, closed = filesystem._call_s3, [], []

    class Body:
        async def read(self):
            raise AssertionError("it is read")

        def close(self):
            closed.append(True)

    async def answered(method, *rest, **request):
        sent.append(method)
        answer = await send(method, *rest, **request)
        return {**answer, "ContentLength": 1 << 40, "Body": Body()}

    monkeypatch.setattr(filesystem, "_call_s3", answered)
    with pytest.raises(
        TooLargeError, match=r"/t: it has 1,099,511,627,776 bytes or more, and at most 268,435,456"
    ):
        store.read("t")
    assert (sent, closed) == (["get_object"], [True])
    assert store.put_if_absent("t", b"data n1", nonce="n1") is PutOutcome.LOST
    assert store.sent == 1


def test_a_lost_answer_to_a_replacement_is_found_to_be_ours(store):
    first = store.put_if_match("t", b"1", tag=None)
    store.script = [(True, TIMEOUT)]
    second = store.put_if_match("t", b"2", tag=first)
    assert store.read_version("t").tag == second
    store.script = [(False, TIMEOUT)]
    assert store.put_if_match("t", b"3", tag=first) is None
    assert store.read("t") == b"2"


def test_a_replacement_whose_outcome_stays_unknown_ends_when_its_caller_says(store):
    first = store.put_if_match("t", b"1", tag=None)
    store.patience_seconds = 600
    store.script = [(True, TIMEOUT)] + [(False, TIMEOUT)] * 10_000
    with pytest.raises(UnknownOutcomeError):
        store.put_if_match("t", b"2", tag=first, patience_seconds=0.1)
    assert store.read("t") == b"2"


def test_the_ends_of_the_next_files_are_requested_before_they_are_opened(store, s3_requests):
    for n in range(7):
        store.put(f"turn/{n}", b"%d" % n)
    files = store.list("turn")
    store.delete("turn/2")
    s3_requests.clear()
    turn = opened_in_turn(store, files)
    found = []
    for _ in range(6):
        path = next(turn).path
        with suppress(NotFoundError), store.open_input(path) as source:
            found.append(source.read())
        assert path not in store._tails
        assert len(store._tails) == min(3, 6 - int(path[-1]))
    turn.close()
    assert found == [b"0", b"1", b"3", b"4", b"5"]
    assert store._tails == {}
    assert s3_requests["GET"] <= len(files)
    assert s3_requests["HEAD"] == 0


@pytest.mark.parametrize("status", [None, 416])
def test_an_empty_object_is_opened_though_s3_refuses_a_range_of_it(store, s3_requests, monkeypatch, status):
    store.put("none", b"")
    s3_requests.clear()
    if status:

        async def refused(key: str, byte_range: str) -> None:
            raise ClientError({"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {}}, "GetObject")

        monkeypatch.setattr(store, "_get_part", refused)
    with store.open_input("none") as source:
        assert (source.size(), source.read()) == (0, b"")
    assert s3_requests == ({"HEAD": 1} if status else {"GET": 1})
    if status:
        store.put("full", b"x")
        with pytest.raises(StorageError, match="cannot read s3://"):
            store.open_input("full")


def test_what_is_too_large_for_one_copy_is_copied_in_parts(store, monkeypatch):
    monkeypatch.setattr(s3, "_MOST_COPIED_BYTES", 2)
    store.put("p/a", b"rows")
    store.move("p/a", "q/b")
    assert [(info.path, info.size_bytes) for info in store.list(recursive=True)] == [("q/b", 4)]


def test_a_copy_that_fails_deletes_nothing(store, monkeypatch):
    store.put("p/a", b"rows")

    def refused(*_):
        raise answer(500, "InternalError")

    monkeypatch.setattr(S3Store, "_copy", refused)
    with pytest.raises(StorageError, match="cannot copy"):
        store.move("p/a", "q/b")
    assert store.read("p/a") == b"rows"
