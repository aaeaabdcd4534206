"""The meaning of a client's error: whether the store answered, whether a retry can help, and a message."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from parquetry.message import Message, Value
from parquetry.runtime.errors import NotFoundError, StorageError
from parquetry.runtime.quoting import quoted_library_text
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
    """The store's response to a failed request.

    ``status`` is None if no response arrived. ``final`` means that a retry cannot help. ``may_have_worked``
    means that the request, or an earlier one that the client repeated by itself, may have taken effect.
    ``no_bucket`` means that the bucket does not exist.
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
        """Return the answer for a response with an HTTP status.

        Args:
            status: The HTTP status.
            code: The store's own error code, if there is one.
            repeated: Whether the client had already sent the request before.
            no_bucket: Whether the store reported that the bucket does not exist.

        """
        return cls(
            status=status,
            code=code,
            final=status in _FINAL,
            may_have_worked=status not in _DID_NOTHING or repeated,
            no_bucket=no_bucket,
        )

    @classmethod
    def unanswered(cls, *, never_sent: bool = False, not_connected: bool = False) -> Answer:
        """Return the answer for a request without a response.

        Args:
            never_sent: Whether the client failed before it sent the request, for example without credentials.
            not_connected: Whether the client could not connect, so that the request had no effect.

        """
        return cls(status=None, final=never_sent, may_have_worked=not never_sent and not not_connected)


def failure(operation: str, where: Value, error: BaseException, answer: Answer) -> StorageError:
    """Return a StorageError ``cannot <doing> <where>: <reason>; <remedy>``.

    It is a NotFoundError if the object is absent.

    Args:
        operation: The verb of the operation, such as "read".
        where: The URI of the object.
        error: The error of the client.
        answer: The meaning of that error.

    """
    failed = Message("cannot {operation} {uri}", operation=operation, uri=where)
    reason = quoted_library_text(without_secrets(str(error)), kind=type(error).__name__)
    if answer.no_bucket:
        return StorageError("{failed}: there is no such bucket; create it", failed=failed)
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        code = f" ({answer.code})" if answer.code else ""
        return StorageError(
            "{failed}: {reason}{code}; grant these credentials the permission",
            failed=failed,
            reason=reason,
            code=code,
        )
    if isinstance(error, FileNotFoundError) or answer.status == HTTPStatus.NOT_FOUND:
        return NotFoundError("{failed}: there is no such object; check the path", failed=failed)
    if answer.status is not None and isinstance(error, OSError):
        return storage_error(operation, where, error)
    return StorageError(
        "{failed}: {reason}; check the endpoint, the credentials and the connection",
        failed=failed,
        reason=reason,
    )
