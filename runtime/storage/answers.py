"""What a client's error says of a request: answered or not, worth repeating or not, and in words."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The store's answer; ``status`` is None when none arrived.

    ``final``: repeating the request cannot help. ``may_have_worked``: the request, or an
    earlier one that the client repeated by itself, may have taken effect. ``no_bucket``: the bucket itself
    is not there.
    """

    status: int | None
    code: str | None = None
    final: bool
    may_have_worked: bool
    no_bucket: bool = False

    @classmethod
    def answered(
        cls, status: int | None, *, code: str | None = None, repeated: bool = False, no_bucket: bool = False
    ) -> Answer:
        """Return what a status of HTTP says; ``repeated`` if the client had sent the request before."""
        return cls(
            status=status,
            code=code,
            final=status in _FINAL,
            may_have_worked=status not in _DID_NOTHING or repeated,
            no_bucket=no_bucket,
        )

    @classmethod
    def none(cls, *, never_sent: bool = False, not_connected: bool = False) -> Answer:
        """Return what is known of a request without an answer."""
        return cls(status=None, final=never_sent, may_have_worked=not never_sent and not not_connected)


def failure(doing: str, where: Value, error: BaseException, answer: Answer) -> StorageError:
    """``cannot <doing> <where>: <reason>; <remedy>``; NotFoundError when there is no object."""
    what = (f"cannot {doing} ", where, ": ")
    reason = of_library(without_secrets(str(error)), kind=type(error).__name__)
    if answer.no_bucket:
        return StorageError(Message(*what, "there is no such bucket; create it"))
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        code = f" ({answer.code})" if answer.code else ""
        return StorageError(Message(*what, reason, f"{code}; grant these credentials the permission"))
    if isinstance(error, FileNotFoundError) or answer.status == HTTPStatus.NOT_FOUND:
        return NotFoundError(Message(*what, "there is no such object; check the path"))
    if answer.status is not None and isinstance(error, OSError):
        return storage_error(doing, where, error)
    return StorageError(Message(*what, reason, "; check the endpoint, the credentials and the connection"))
