"""What an S3 client's error says: answered or not, worth repeating or not, and in words."""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from http import HTTPStatus

from parquetry.message import Message, Value
from parquetry.runtime.errors import NotFoundError, StorageError
from parquetry.runtime.quoting import of_library
from parquetry.runtime.redaction import without_secrets
from parquetry.runtime.storage.os_errors import storage_error

_FINAL = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.LENGTH_REQUIRED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)
_DID_NOTHING = _FINAL | {
    HTTPStatus.CONFLICT,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.TOO_MANY_REQUESTS,
}
_NEVER_SENT = frozenset({"NoCredentialsError", "PartialCredentialsError", "ParamValidationError"})
_NOT_CONNECTED = frozenset({"EndpointConnectionError", "ConnectTimeoutError"})


@functools.cache
def client_errors() -> tuple[type[Exception], ...]:
    """The exceptions with which s3fs, aiobotocore and aiohttp report a failed request.

    Without these packages no request is sent, and what opening the store says is the failure to tell.
    """
    try:
        botocore = importlib.import_module("botocore.exceptions")
        aiohttp = importlib.import_module("aiohttp")
    except ImportError:
        return (OSError,)
    return (OSError, botocore.BotoCoreError, botocore.ClientError, aiohttp.ClientError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The store's answer; ``status`` is None when none arrived.

    ``final``: repeating the request cannot help. ``may_have_worked``: the request, or an
    earlier one that the client repeated by itself, may have taken effect.
    """

    status: int | None
    code: str | None
    final: bool
    may_have_worked: bool

    @classmethod
    def of(cls, error: BaseException) -> Answer:
        """The answer in the error, or in the client's error that s3fs translated it from."""
        source = error if hasattr(error, "response") else error.__cause__ or error
        response = getattr(source, "response", None)
        if not isinstance(response, dict):
            name = type(source).__name__
            return cls(
                status=None,
                code=None,
                final=name in _NEVER_SENT,
                may_have_worked=name not in _NEVER_SENT | _NOT_CONNECTED,
            )
        metadata = response.get("ResponseMetadata", {})
        status = metadata.get("HTTPStatusCode")
        return cls(
            status=status,
            code=response.get("Error", {}).get("Code"),
            final=status in _FINAL,
            may_have_worked=status not in _DID_NOTHING or metadata.get("RetryAttempts", 0) > 0,
        )

    @classmethod
    def is_from_store(cls, error: BaseException) -> bool:
        """Whether a request to the store failed, rather than an operation on a local file."""
        answered = cls.of(error).status is not None
        return (
            answered or not isinstance(error, OSError) or isinstance(error, (ConnectionError, TimeoutError))
        )


def failure(doing: str, where: Value, error: BaseException) -> StorageError:
    """``cannot <doing> <where>: <reason>; <remedy>``; NotFoundError when there is no object."""
    answer = Answer.of(error)
    what = (f"cannot {doing} ", where, ": ")
    reason = of_library(without_secrets(str(error)), kind=type(error).__name__)
    if answer.code == "NoSuchBucket":
        return StorageError(Message(*what, "there is no such bucket; create it"))
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return StorageError(
            Message(*what, reason, f" ({answer.code}); grant these credentials the permission")
        )
    if isinstance(error, FileNotFoundError):
        return NotFoundError(Message(*what, "there is no such object; check the path"))
    if answer.status is not None and isinstance(error, OSError):
        return storage_error(doing, where, error)
    return StorageError(Message(*what, reason, "; check the endpoint, the credentials and the connection"))
