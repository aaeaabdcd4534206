"""JSON over HTTPS with a token: limited answers, complete lists, and retries that respect rate limits.

Only redirects within the server are followed, so that no other server gets the token. No message contains it.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

import urllib3

from parquetry.compiler.review.forge import ForgeError
from parquetry.compiler.security.connections import LOOPBACK, connections, proxy_of
from parquetry.errors import UsageError, message_of
from parquetry.runtime.spec.codec import parsed_json
from parquetry.text.printable import quoted
from parquetry.version import VERSION

PAGE: Final = 100
"""The number of list items per answer."""

_MOST_BYTES: Final = 16 << 20
_MOST_PAGES: Final = 100
_MOST_REDIRECTS: Final = 3
_ATTEMPTS: Final = 6
_MAX_DELAY_SECONDS: Final = 900
"""The limit for all attempts of one request together."""

_FIRST_WAIT_SECONDS: Final = 1.0
_UNNAMED_LIMIT_SECONDS: Final = 60.0
"""The pause for a rate limit without a duration; GitHub asks for a minute."""

_LONGEST_MESSAGE: Final = 200
_TIMEOUT: Final = urllib3.Timeout(connect=10, read=60)
_VISIBLE: Final = re.compile(r"[!-~]+")
_REDIRECTS: Final = (301, 302, 307, 308)
_LIMITED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
_FAILING: Final = (500, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonAnswer:
    """A complete answer; ``next`` is the URL of a list's next page, or None."""

    status: int
    content: Any
    next: str | None = None


class NotThereError(ForgeError):
    """The server does not have the resource, or hides it from this token."""


class NotAllowedError(ForgeError):
    """The token is valid, but lacks the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonClient:
    """A client of the JSON API at ``address``; ``headers`` contain the token and go to that server only.

    ``sleep`` and ``now`` (seconds since 1970) are the clock of retries.
    """

    address: str
    headers: Mapping[str, str] = field(repr=False)
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time
    _pools: dict[str, urllib3.PoolManager] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        parts = _address_parts(self.address)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise UsageError(
                "{address} is not a safe address of a forge: it must begin with https://, or the token "
                "can be read on the way",
                address=quoted(self.address),
            )
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise _not_an_address(self.address)

    def get(self, path: str) -> Any:
        """Return the document at a path.

        Raises:
            NotThereError: if there is none.

        """
        return self._request("GET", self._url(path)).content

    def pages(self, path: str, **query: str) -> Iterator[Any]:
        """Yield the items of the list at a path, page by page.

        Raises:
            ForgeError: if the list has more than 10,000 items, or a page is not a list.

        """
        url: str | None = self._url(f"{path}?{urlencode({**query, 'per_page': PAGE})}")
        for _ in range(_MOST_PAGES):
            assert url is not None, "the loop ends with the last page"
            answer = self._request("GET", url)
            if not isinstance(answer.content, list):
                raise ForgeError(
                    "{address} answers with something else than a list", address=self._named(url)
                )
            yield from answer.content
            url = answer.next
            if url is None:
                return
        raise ForgeError(
            "{address} has more than {limit:,} items",
            address=self._named(self._url(path)),
            limit=_MOST_PAGES * PAGE,
        )

    def send(self, method: str, path: str, body: Mapping[str, Any] | None, *, repeatable: bool) -> Any:
        """Send a change and return the answer.

        A refused request is sent again. After a failure that may have had an effect, only a ``repeatable``
        request is sent again.
        """
        return self._request(method, self._url(path), body, repeatable=repeatable).content

    def _url(self, path: str) -> str:
        """Return the URL of a path of the API."""
        return f"{self.address.rstrip('/')}{path}"

    def _request(
        self, method: str, url: str, body: Mapping[str, Any] | None = None, *, repeatable: bool = True
    ) -> JsonAnswer:
        """Send a request, again after failures if it is ``repeatable``, and return the answer.

        Raises:
            ForgeError: if the server cannot be reached or refuses the request.
        """
        waited = 0.0
        for attempt in range(1, _ATTEMPTS + 1):
            pause = _FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * (1 + random.random() / 2)  # noqa: S311  # jitter
            try:
                status, headers, content = self._sent(method, url, body)
            except urllib3.exceptions.NewConnectionError as error:
                problem = f"cannot be reached: {type(error).__name__}"
            except urllib3.exceptions.HTTPError as error:
                problem = f"broke off: {type(error).__name__}"
                if not repeatable:
                    raise ForgeError(
                        "{address} {reason}; check whether the change was made",
                        address=self._named(url),
                        reason=problem,
                    ) from error
            else:
                limit = self._limit(status, headers, content)
                problem = f"answers with {status}"
                if limit is not None:
                    problem, pause = "limits the rate of requests", max(limit, pause)
                elif status not in _FAILING:
                    return self._answer(method, url, status, headers, content)
                elif not repeatable:
                    raise ForgeError(
                        "{address} {reason}; check whether the change was made",
                        address=self._named(url),
                        reason=problem,
                    )
            waited += pause
            if attempt == _ATTEMPTS or waited > _MAX_DELAY_SECONDS:
                break
            self.sleep(pause)
        raise ForgeError(
            "{address} {reason}, after {attempts} attempts; try again later",
            address=self._named(url),
            reason=problem,
            attempts=attempt,
        )

    def _sent(
        self, method: str, url: str, body: Mapping[str, Any] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of one request; follow redirects of GET within the server."""
        sent = None if body is None else json.dumps(body).encode()
        own = {"Content-Type": "application/json"} if sent is not None else {}
        headers = {**self.headers, **own, "User-Agent": f"parquetry/{VERSION}", "Accept-Encoding": "identity"}
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._pool(url).request(
                method,
                url,
                body=sent,
                headers=headers,
                timeout=_TIMEOUT,
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            content = response.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                response.close()
                raise ForgeError(
                    "{address} answers with more than {limit_mib} MiB",
                    address=self._named(url),
                    limit_mib=_MOST_BYTES >> 20,
                )
            response.release_conn()
            place = response.headers.get("Location")
            if response.status not in _REDIRECTS or place is None or method != "GET":
                return response.status, response.headers, content
            url = self._same_server_url(url, place)
        raise ForgeError("{address} redirects again and again", address=self._named(url))

    def _pool(self, url: str) -> urllib3.PoolManager:
        """Return the connections for a URL: direct ones, or through the proxy that the environment sets."""
        proxy = proxy_of(url)
        if proxy not in self._pools:
            self._pools[proxy] = connections(proxy)
        return self._pools[proxy]

    def _same_server_url(self, base: str, reference: str) -> str:
        """Return the absolute URL of a reference; raise ForgeError if it is on another server."""
        try:
            url = urljoin(base, reference)
            asked, own = urlsplit(url), urlsplit(self.address)
        except ValueError as error:
            raise ForgeError(
                "{address} links to {link}, which is not a URL",
                address=self._named(base),
                link=quoted(reference),
            ) from error
        if (asked.scheme, asked.netloc) != (own.scheme, own.netloc):
            raise ForgeError(
                "{address} links to another server ({server}), which must not get the token; give the "
                "forge's own address",
                address=self.address,
                server=quoted(asked.netloc),
            )
        return url

    def _limit(self, status: int, headers: Mapping[str, str], content: bytes) -> float | None:
        """Return the seconds to wait for a rate limit, or None if the answer reports no limit."""
        if status not in _LIMITED and status != HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        with suppress(ValueError):
            if "Retry-After" in headers:
                return max(0.0, _retry_after_seconds(headers["Retry-After"], now=self.now()))
            if headers.get("x-ratelimit-remaining") == "0" and "x-ratelimit-reset" in headers:
                return max(0.0, float(headers["x-ratelimit-reset"]) - self.now())
        is_limited = status == HTTPStatus.TOO_MANY_REQUESTS or b"rate limit" in content
        return _UNNAMED_LIMIT_SECONDS if is_limited else None

    def _answer(
        self, method: str, url: str, status: int, headers: Mapping[str, str], content: bytes
    ) -> JsonAnswer:
        """Return the JSON of an answer and the URL of the next page; raise ForgeError for a failure."""
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise _FAILURES.get(status, ForgeError)(
                "{address} answers {method} with {status}{answer}; {remedy}",
                address=self._named(url),
                method=method,
                status=status,
                answer=_server_message(content),
                remedy=_REMEDIES.get(status, "check the permissions of the token"),
            )
        try:
            document = parsed_json(content) if content else None
        except ValueError as error:
            raise ForgeError(
                "{address} answers with invalid JSON ({reason})",
                address=self._named(url),
                reason=message_of(error),
            ) from error
        following = _next_of(headers.get("Link", ""))
        return JsonAnswer(
            status=status,
            content=document,
            next=None if following is None else self._same_server_url(url, following),
        )

    def _named(self, url: str) -> str:
        """Return the quoted URL without its query, for messages."""
        return quoted(urlsplit(url)._replace(query="", fragment="").geturl())


_FAILURES: Final[Mapping[int, type[ForgeError]]] = {
    HTTPStatus.NOT_FOUND: NotThereError,
    HTTPStatus.FORBIDDEN: NotAllowedError,
}
_REMEDIES: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "the token is not valid",
    HTTPStatus.FORBIDDEN: "the token lacks the permission",
    HTTPStatus.NOT_FOUND: "it does not exist, or the token has no access to it",
}


def _address_parts(address: str) -> SplitResult:
    """Return the parts of a forge's address; raise UsageError if it cannot be parsed."""
    try:
        parts = urlsplit(address)
        is_usable = _VISIBLE.fullmatch(address) is not None and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise _not_an_address(address)
    return parts


def _not_an_address(address: str) -> UsageError:
    """Return the error for an invalid address of a forge."""
    return UsageError("the address of a forge is https://HOST/PATH, not {address}", address=quoted(address))


def _server_message(content: bytes) -> str:
    """Return the server's message about a failure in brackets, cut to 200 characters, or nothing."""
    with suppress(ValueError):
        document = parsed_json(content)
        if isinstance(document, dict) and isinstance(document.get("message"), str):
            return f" ({quoted(document['message'][:_LONGEST_MESSAGE])})"
    return ""


def _retry_after_seconds(text: str, *, now: float) -> float:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3): a number or a date; raise ValueError."""
    try:
        return float(text)
    except ValueError:
        return parsedate_to_datetime(text).timestamp() - now


def _next_of(links: str) -> str | None:
    """Return the target of ``rel="next"`` in a Link header (RFC 8288), or None."""
    for link in links.split(","):
        target, _, parameters = link.strip().partition(">")
        if target.startswith("<") and 'rel="next"' in (part.strip() for part in parameters.split(";")):
            return target[1:]
    return None
