"""Objects of an S3 bucket, through s3fs. Conditional puts use If-None-Match and If-Match."""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from parquetry.message import Value
from parquetry.runtime.errors import StorageError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.storage.answers import Answer
from parquetry.runtime.storage.bucket import (
    FIRST_PAUSE_SECONDS,
    BucketStore,
    ListingPage,
    ObjectPart,
    milliseconds,
)
from parquetry.runtime.storage.model import ObjectInfo
from parquetry.runtime.storage.regular_file import MOST_BYTES

_DELETE_BATCH = 1000
_READ_ATTEMPTS = 5
_MOST_COPIED_BYTES = 5 << 30
"""The largest object that S3 copies with one request."""

_NEVER_SENT = frozenset({"NoCredentialsError", "PartialCredentialsError", "ParamValidationError"})
_NOT_CONNECTED = frozenset({"EndpointConnectionError", "ConnectTimeoutError"})


class S3Store(BucketStore):
    """Objects below ``s3://bucket/prefix``; ``options`` are those of s3fs."""

    scheme: ClassVar[str] = "s3"
    spark_scheme: ClassVar[str] = "s3a"

    def _connect(self) -> Any:
        s3fs = importlib.import_module("s3fs")
        return s3fs.S3FileSystem(
            **{"use_listings_cache": False, "default_cache_type": "none", **self.options}
        )

    def _client_errors(self) -> tuple[type[Exception], ...]:
        return client_errors()

    def _answer(self, error: BaseException) -> Answer:
        return answer_of(error)

    def _is_from_store(self, error: BaseException) -> bool:
        return answer_of(error).status is not None or super()._is_from_store(error)

    def _get(self, key: str, *, most_bytes: int) -> tuple[bytes, str]:
        content, answer = self._download(key, most_bytes=most_bytes)
        return content, answer["ETag"]

    def _get_version(self, key: str, *, most_bytes: int) -> tuple[bytes, str, int, str]:
        content, answer = self._download(key, most_bytes=most_bytes)
        date = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
        return content, answer["ETag"], milliseconds(answer["LastModified"].timestamp()), date

    def _download(self, key: str, *, most_bytes: int) -> tuple[bytes, dict[str, Any]]:
        """Return an object and the response with one request. s3fs would first request the size."""

        async def get() -> tuple[bytes, dict[str, Any]]:
            return await self._get_object(key, most_bytes=most_bytes)

        downloaded: tuple[bytes, dict[str, Any]] = self._run(get)
        return downloaded

    async def _get_part(self, key: str, byte_range: str) -> ObjectPart:
        content, answer = await self._get_object(key, most_bytes=MOST_BYTES, Range=byte_range)
        return ObjectPart.answered(content, answer["ETag"], answer.get("ContentRange"))

    async def _get_object(self, key: str, *, most_bytes: int, **request: str) -> tuple[bytes, dict[str, Any]]:
        """Return the content and the response, with the request again if the connection breaks."""
        call = self._filesystem()._call_s3  # noqa: SLF001
        for attempt in range(1, _READ_ATTEMPTS + 1):
            answer = await call("get_object", Bucket=self.bucket, Key=key, **request)
            self._note_date(_date_of(answer))
            try:
                self._check_size(key, answer["ContentLength"], most_bytes=most_bytes)
                data: bytes = await answer["Body"].read()
            except client_errors():  # the connection broke during the response
                if attempt == _READ_ATTEMPTS:
                    raise
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
            else:
                return data, answer
            finally:
                answer["Body"].close()
        raise AssertionError

    def _head(self, key: str) -> ObjectInfo:
        head = self._call("head_object", Key=key)
        return ObjectInfo(
            path=key,
            size_bytes=head["ContentLength"],
            modified_ms=milliseconds(head["LastModified"].timestamp()),
            etag=head["ETag"].strip('"'),
        )

    def _pages(self, prefix: str, *, recursive: bool, after: str | None = None) -> Iterator[ListingPage]:
        request: dict[str, str] = {"Prefix": prefix, **({} if recursive else {"Delimiter": "/"})}
        if after is not None:
            request["StartAfter"] = after
        while True:
            page = self._call("list_objects_v2", **request)
            yield ListingPage(
                objects=[
                    ObjectInfo(
                        path=entry["Key"],
                        size_bytes=entry["Size"],
                        modified_ms=milliseconds(entry["LastModified"].timestamp()),
                        etag=entry["ETag"].strip('"'),
                    )
                    for entry in page.get("Contents", ())
                ],
                folders=[entry["Prefix"] for entry in page.get("CommonPrefixes", ())],
                is_last=not page.get("IsTruncated"),
            )
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _put(self, key: str, data: bytes) -> None:
        self._call("put_object", Key=key, Body=data)

    def _send_put_if(self, key: str, data: bytes, *, tag: str | None) -> str:
        """Put an object with a single request. Retries of s3fs would hide that a response got lost."""
        filesystem = self._filesystem()

        async def send() -> str:
            await filesystem.set_session()
            client = await filesystem.get_s3(self.bucket)
            put = client.put_object
            condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
            request = {"Bucket": self.bucket, "Key": key, "Body": data, **condition}
            # Add the parameters that the options require for every request, such as encryption.
            answer = await put(**filesystem._get_s3_method_kwargs(put, request))  # noqa: SLF001
            new_tag: str = answer["ETag"]
            return new_tag

        new_tag: str = self._run(send)
        return new_tag

    def _copy(self, key: str, to: str) -> None:
        size_bytes = self._head(key).size_bytes
        if size_bytes <= _MOST_COPIED_BYTES:
            self._call("copy_object", Key=to, CopySource={"Bucket": self.bucket, "Key": key})
            return
        copy = self._filesystem()._copy_managed  # noqa: SLF001 - in parts
        self._run(functools.partial(copy, f"{self.bucket}/{key}", f"{self.bucket}/{to}", size_bytes))

    def _delete(self, key: str) -> None:
        self._call("delete_object", Key=key)

    def _delete_all(self, keys: list[str]) -> None:
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = [{"Key": key} for key in keys[start : start + _DELETE_BATCH]]
            answer = self._call("delete_objects", Delete={"Objects": batch, "Quiet": True})
            for failed in answer.get("Errors", ()):
                raise StorageError(
                    "cannot delete {uri}: {reason}; grant s3:DeleteObject",
                    uri=Value.uri(f"s3://{self.bucket}/{failed.get('Key')}"),
                    reason=quoted_library_text(str(failed.get("Message")), kind=str(failed.get("Code"))),
                )

    def _date(self) -> str:
        answer = self._call("list_objects_v2", MaxKeys=1, Prefix=self.prefix)
        date: str = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
        return date

    def _call(self, method: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._filesystem().call_s3(method, Bucket=self.bucket, **request)
        self._note_date(_date_of(answer))
        return answer


def _date_of(answer: Mapping[str, Any]) -> str | None:
    """Return the ``Date`` header of a response, if there is one."""
    date: str | None = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return date


@functools.cache
def client_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions with which s3fs, aiobotocore and aiohttp report a failed request.

    If these packages are not installed, no request is sent, and opening the store fails with its own message.
    """
    try:
        botocore = importlib.import_module("botocore.exceptions")
        aiohttp = importlib.import_module("aiohttp")
    except ImportError:
        return (OSError,)
    return (OSError, botocore.BotoCoreError, botocore.ClientError, aiohttp.ClientError)


def answer_of(error: BaseException) -> Answer:
    """Return the meaning of an error of s3fs, which may have the client's error as its cause."""
    source = error if hasattr(error, "response") else error.__cause__ or error
    response = getattr(source, "response", None)
    if not isinstance(response, dict):
        name = type(source).__name__
        return Answer.unanswered(never_sent=name in _NEVER_SENT, not_connected=name in _NOT_CONNECTED)
    metadata = response.get("ResponseMetadata", {})
    code = response.get("Error", {}).get("Code")
    return Answer.answered(
        metadata.get("HTTPStatusCode"),
        code=code,
        repeated=metadata.get("RetryAttempts", 0) > 0,
        no_bucket=code == "NoSuchBucket",
    )
