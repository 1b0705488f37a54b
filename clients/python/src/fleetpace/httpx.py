"""Transports for httpx: each request takes a turn, and a response with Retry-After pauses the whole fleet.

A slot is released when the answer is closed, and a turn is settled by nobody.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack

import httpx

from .aio import AsyncLimiter
from .errors import FleetpaceError
from .retry_after import retry_after
from .sync import Limiter

logger = logging.getLogger("fleetpace")


class PacedTransport(httpx.BaseTransport):
    """Sends a request by transport when its turn comes. It raises TooLate if that would be after max_wait."""

    def __init__(
        self, limiter: Limiter, transport: httpx.BaseTransport | None = None, *, max_wait: float | None = None
    ) -> None:
        self._limiter, self._max_wait = limiter, max_wait
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with ExitStack() as turn:
            turn.enter_context(self._limiter.turn(max_wait=self._max_wait))
            response = self._transport.handle_request(request)
            if isinstance(response.stream, httpx.SyncByteStream) and not response.is_closed:
                response.stream = _Stream(response.stream, turn.pop_all())
            if seconds := _pause(response):
                try:
                    self._limiter.pause(seconds, _reason(request, response))
                except FleetpaceError as error:
                    logger.warning("no pause of %s s: %s", seconds, error)
        return response

    def close(self) -> None:
        self._transport.close()


class AsyncPacedTransport(httpx.AsyncBaseTransport):
    """The same for httpx.AsyncClient."""

    def __init__(
        self, limiter: AsyncLimiter, transport: httpx.AsyncBaseTransport | None = None, *, max_wait: float | None = None
    ) -> None:
        self._limiter, self._max_wait = limiter, max_wait
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._limiter.turn(max_wait=self._max_wait))
            response = await self._transport.handle_async_request(request)
            if isinstance(response.stream, httpx.AsyncByteStream) and not response.is_closed:
                response.stream = _AsyncStream(response.stream, turn.pop_all())
            if seconds := _pause(response):
                try:
                    await self._limiter.pause(seconds, _reason(request, response))
                except FleetpaceError as error:
                    logger.warning("no pause of %s s: %s", seconds, error)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Stream(httpx.SyncByteStream):
    """The body of a response. The turn ends when the body is closed."""

    def __init__(self, stream: httpx.SyncByteStream, turn: ExitStack) -> None:
        self._stream, self._turn = stream, turn

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        with self._turn:
            self._stream.close()


class _AsyncStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, turn: AsyncExitStack) -> None:
        self._stream, self._turn = stream, turn

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        async with self._turn:
            await self._stream.aclose()


def _pause(response: httpx.Response) -> float:
    """How long a response asks to pause; 0: it does not. If a proxy has added a header, the longest counts."""
    if response.status_code not in (429, 503):
        return 0.0
    date = response.headers.get("Date")
    return max((retry_after(text, date) for text in response.headers.get_list("Retry-After")), default=0.0)


def _reason(request: httpx.Request, response: httpx.Response) -> str:
    return f"{request.url.host} answered {response.status_code} with Retry-After"
