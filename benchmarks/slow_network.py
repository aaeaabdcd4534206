"""A proxy before a local server that keeps every answer back, as the way to a distant server does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def slow_network(url: str, seconds: float) -> Iterator[str]:
    """The URL at which the server at ``url`` answers later by so many seconds, each request for itself."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    target = urlsplit(url)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            upstream, request = await asyncio.open_connection(target.hostname, target.port)
            exchange = _Exchange(seconds)
            await asyncio.gather(
                _copied(reader, request, exchange.sent), _copied(upstream, writer, exchange.answered)
            )

    start = asyncio.start_server(connected, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(start, loop).result()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class _Exchange:
    """The requests and answers of one connection, one after the other."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_request = False

    async def sent(self) -> None:
        self._is_request = True

    async def answered(self) -> None:
        """Wait before the first bytes of an answer."""
        if self._is_request:
            self._is_request = False
            await asyncio.sleep(self._seconds)


async def _copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter, before: object) -> None:
    with suppress(OSError):
        while content := await source.read(1 << 20):
            await before()
            sink.write(content)
            await sink.drain()
    with suppress(OSError):
        sink.close()
