"""Objects of a Google Cloud Storage bucket, through gcsfs. A conditional put requires a generation."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import functools
import hashlib
import importlib
import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar

from parquetry.runtime.storage.answers import Answer
from parquetry.runtime.storage.bucket import BucketStore, ListingPage, ObjectPart, milliseconds
from parquetry.runtime.storage.model import ObjectInfo

_OBJECTS = "b/{}/o"
_OBJECT = "b/{}/o/{}"
_REWRITE = "b/{}/o/{}/rewriteTo/b/{}/o/{}"
_FIELDS = "name,size,updated,md5Hash"
_DELETES_AT_ONCE = 32


class NoBucketError(OSError):
    """The bucket does not exist."""


class GcsStore(BucketStore):
    """Objects below ``gs://bucket/prefix``; ``options`` are those of gcsfs.

    The store sends requests to the JSON API. gcsfs authorises and repeats them.
    """

    scheme: ClassVar[str] = "gs"
    spark_scheme: ClassVar[str] = "gs"

    def _connect(self) -> Any:
        # The class that the package exports would first ask over gRPC for the type of the bucket.
        gcsfs = importlib.import_module("gcsfs.core")
        # gcsfs also logs the errors that it raises.
        logging.getLogger("gcsfs").addHandler(logging.NullHandler())
        return gcsfs.GCSFileSystem(**{"use_listings_cache": False, **self.options})

    def _client_errors(self) -> tuple[type[Exception], ...]:
        return client_errors()

    def _answer(self, error: BaseException) -> Answer:
        return answer_of(error)

    def _is_from_store(self, error: BaseException) -> bool:
        return "://" in str(error) or super()._is_from_store(error)  # errors of gcsfs contain the URL

    def _get(self, key: str, *, most_bytes: int) -> tuple[bytes, str]:
        content, headers = self._download(key, most_bytes=most_bytes)
        return content, headers["X-Goog-Generation"]

    def _listed_etag(self, content: bytes, tag: str) -> str:
        del tag
        return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()

    def _get_version(self, key: str, *, most_bytes: int) -> tuple[bytes, str, int, str]:
        content, headers = self._download(key, most_bytes=most_bytes)
        modified = email.utils.parsedate_to_datetime(headers["Last-Modified"])
        return content, headers["X-Goog-Generation"], milliseconds(modified.timestamp()), headers["Date"]

    def _download(self, key: str, *, most_bytes: int) -> tuple[bytes, Mapping[str, str]]:
        """Return an object and the headers of the response with one request.

        gcsfs itself would read a response of any length, and would decompress a compressed one.
        """
        filesystem = self._filesystem()
        retry = importlib.import_module("gcsfs.retry")

        async def get() -> tuple[bytes, Mapping[str, str]]:
            await filesystem._set_session()  # noqa: SLF001
            async with filesystem.session.get(
                filesystem._format_path(_OBJECT, (self.bucket, key)),  # noqa: SLF001
                params=filesystem._get_params({"alt": "media"}),  # noqa: SLF001
                headers=filesystem._get_headers(None),  # noqa: SLF001
                timeout=filesystem.requests_timeout,
            ) as answer:
                self._note_date(answer.headers.get("Date"))
                self._check_size(key, answer.content_length or 0, most_bytes=most_bytes)
                parts, size_bytes = [], 0
                async for part in answer.content.iter_any():
                    size_bytes += len(part)
                    self._check_size(key, size_bytes, most_bytes=most_bytes)
                    parts.append(part)
                data = b"".join(parts)
                retry.validate_response(answer.status, data, _OBJECT, (self.bucket, key))
                return data, answer.headers

        with _bad_request_errors():
            downloaded: tuple[bytes, Mapping[str, str]] = self._run(retry.retry_request(get))
        return downloaded

    async def _get_part(self, key: str, byte_range: str) -> ObjectPart:
        with _bad_request_errors():
            headers, content = await self._filesystem()._call(  # noqa: SLF001
                "GET", _OBJECT, self.bucket, key, alt="media", headers={"Range": byte_range}
            )
        return ObjectPart.answered(bytes(content), headers["X-Goog-Generation"], headers.get("Content-Range"))

    def _head(self, key: str) -> ObjectInfo:
        return _info(json.loads(self._call("GET", _OBJECT, self.bucket, key, fields=_FIELDS)[1]))

    def _pages(self, prefix: str, *, recursive: bool, after: str | None = None) -> Iterator[ListingPage]:
        request = {"prefix": prefix, "fields": f"items({_FIELDS}),prefixes,nextPageToken"}
        request |= {} if recursive else {"delimiter": "/"}
        request |= {} if after is None else {"startOffset": after}
        while True:
            with _missing_bucket_errors():
                page = json.loads(self._call("GET", _OBJECTS, self.bucket, **request)[1])
            # The offset is listed too.
            objects = [_info(entry) for entry in page.get("items", ()) if entry["name"] != after]
            is_last = "nextPageToken" not in page
            yield ListingPage(objects=objects, folders=page.get("prefixes", []), is_last=is_last)
            if is_last:
                return
            request["pageToken"] = page["nextPageToken"]

    def _put(self, key: str, data: bytes) -> None:
        with _missing_bucket_errors():
            self._call("POST", self._uploads(), **_upload(key, data))

    def _send_put_if(self, key: str, data: bytes, *, tag: str | None) -> str:
        """Put an object with a single request. Retries of gcsfs would hide that a response got lost."""
        filesystem = self._filesystem()
        once = type(filesystem)._request.__wrapped__  # noqa: SLF001 - without its decorator that repeats

        async def send() -> bytes:
            upload = _upload(key, data, ifGenerationMatch=tag or "0")
            content: bytes = (await once(filesystem, "POST", self._uploads(), **upload))[3]
            return content

        with _missing_bucket_errors(), _bad_request_errors():
            new_tag: str = json.loads(self._run(send))["generation"]
        return new_tag

    def _copy(self, key: str, to: str) -> None:
        token: dict[str, str] = {}
        while True:
            names = (self.bucket, key, self.bucket, to)
            answer = json.loads(self._call("POST", _REWRITE, *names, **token)[1])
            if answer["done"]:
                return
            token = {"rewriteToken": answer["rewriteToken"]}

    def _delete(self, key: str) -> None:
        self._delete_all([key])

    def _delete_all(self, keys: list[str]) -> None:
        filesystem = self._filesystem()

        async def delete(key: str) -> None:
            with suppress(FileNotFoundError):
                await filesystem._call("DELETE", _OBJECT, self.bucket, key)  # noqa: SLF001

        async def delete_batch(batch: list[str]) -> None:
            await asyncio.gather(*map(delete, batch))

        for start in range(0, len(keys), _DELETES_AT_ONCE):
            batch = keys[start : start + _DELETES_AT_ONCE]
            self._run(functools.partial(delete_batch, batch))

    def _date(self) -> str:
        with _missing_bucket_errors():
            date: str = self._call("GET", _OBJECTS, self.bucket, maxResults=1, fields="kind")[0]["Date"]
        return date

    def _uploads(self) -> str:
        base: str = self._filesystem().base.replace("/storage/v1/", "/upload/storage/v1/")
        return f"{base}b/{importlib.import_module('gcsfs.core').quote(self.bucket)}/o"

    def _call(self, method: str, path: str, *names: str, **request: Any) -> tuple[Mapping[str, str], bytes]:
        with _bad_request_errors():
            headers, content = self._filesystem().call(method, path, *names, **request)
        self._note_date(headers.get("Date"))
        return headers, bytes(content)


def _info(entry: Mapping[str, Any]) -> ObjectInfo:
    return ObjectInfo(
        path=entry["name"],
        size_bytes=int(entry["size"]),
        modified_ms=milliseconds(datetime.fromisoformat(entry["updated"]).timestamp()),
        # Composite objects have no MD5, and the ETag of the store does not depend on the content alone.
        etag=entry.get("md5Hash"),
    )


def _upload(key: str, data: bytes, **condition: str) -> dict[str, Any]:
    """Return the arguments of the multipart request that creates an object.

    The boundary between its parts is random, so the content does not contain it. ``condition`` has further
    query parameters, such as the required generation.
    """
    boundary = uuid.uuid4().hex
    name = json.dumps({"name": key})
    head = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{name}\r\n"
    content = f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    return {
        "uploadType": "multipart",
        "headers": {"Content-Type": f"multipart/related; boundary={boundary}"},
        "data": b"".join((head.encode(), content.encode(), data, f"\r\n--{boundary}--".encode())),
        **condition,
    }


@contextmanager
def _missing_bucket_errors() -> Iterator[None]:
    """Yield, and convert a 404 to NoBucketError. The request concerns no object, so the bucket is missing."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoBucketError(*error.args) from error


@contextmanager
def _bad_request_errors() -> Iterator[None]:
    """Yield, and convert the ValueError by which gcsfs reports a bad request to an error of the client."""
    try:
        yield
    except ValueError as error:
        http = importlib.import_module("gcsfs.retry").HttpError
        raise http({"code": int(HTTPStatus.BAD_REQUEST), "message": str(error)}) from error


@functools.cache
def client_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions with which gcsfs, aiohttp and google-auth report a failed request.

    If these packages are not installed, no request is sent, and opening the store fails with its own message.
    """
    try:
        http = importlib.import_module("gcsfs.retry").HttpError
        auth = importlib.import_module("google.auth.exceptions").GoogleAuthError
        aiohttp = importlib.import_module("aiohttp").ClientError
    except ImportError:
        return (OSError,)
    return (OSError, http, auth, aiohttp)


def answer_of(error: BaseException) -> Answer:
    """Return the meaning of an error that gcsfs raised for a response of the store."""
    names = {kind.__name__ for kind in type(error).__mro__}
    status: int | None = None
    match error:
        case FileNotFoundError() | NoBucketError():
            status = HTTPStatus.NOT_FOUND
        case FileExistsError():
            status = HTTPStatus.PRECONDITION_FAILED
        case OSError() if str(error).startswith("Forbidden: "):
            status = HTTPStatus.FORBIDDEN
        case OSError() if "ProxyError" in names:
            status = HTTPStatus.BAD_GATEWAY
        case _ if "HttpError" in names:
            code = getattr(error, "code", None)
            status = None if code is None else int(code)
    if status is not None:
        return Answer.answered(status, no_bucket=isinstance(error, NoBucketError))
    return Answer.unanswered(
        never_sent="GoogleAuthError" in names, not_connected="ClientConnectorError" in names
    )
