"""Transports for httpx: each request takes a turn, and a response with Retry-After pauses the whole fleet.

A slot is released, and a cost is settled, when the answer is closed.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial

import httpx

from .aio import AsyncLimiter, AsyncTurn
from .errors import FleetpaceError
from .retry_after import retry_after
from .sync import Limiter, Turn
from .usage import Estimate, Usage, UsageReader, estimate

logger = logging.getLogger("fleetpace")
Costs = Callable[[Estimate], Sequence[int]]  # what a request costs of each limit
Used = Callable[[Usage], Sequence[int]]  # what it has used of each limit; -1: what it costs
NOT_SETTLED = "a turn was not settled, so its cost or a hard stop stays: %s"


class PacedTransport(httpx.BaseTransport):
    """Sends a request by transport when its turn comes. It raises TooLate if that would be after max_wait.

    cost says what a request to a language model costs of each limit, in their order. used says what it has used; then
    the limits need `settles: true`. If an answer does not state the tokens of its prompt, the cost stays. With a status
    of 400 or above it has used none. If the call probes a hard stop and its answer is a success, also within its body,
    the stop ends. A body that is sent in parts, without being whole before, counts as empty for cost.
    """

    def __init__(
        self, limiter: Limiter, transport: httpx.BaseTransport | None = None, *,
        max_wait: float | None = None, cost: Costs | None = None, used: Used | None = None,
    ) -> None:  # fmt: skip
        self._limiter, self._max_wait, self._cost, self._used = limiter, max_wait, cost, used
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with ExitStack() as ends:
            turn = ends.enter_context(self._limiter.turn(_costs(self._cost, request), max_wait=self._max_wait))
            response = self._transport.handle_request(request)
            reader = UsageReader(response.headers) if self._used or turn.probes else None
            use = partial(_use, turn, self._limiter, response, self._used, reader)
            ends.callback(_settle, turn, use)
            if isinstance(response.stream, httpx.SyncByteStream) and not response.is_closed:
                response.stream = _Stream(response.stream, ends.pop_all(), reader)
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
        self, limiter: AsyncLimiter, transport: httpx.AsyncBaseTransport | None = None, *,
        max_wait: float | None = None, cost: Costs | None = None, used: Used | None = None,
    ) -> None:  # fmt: skip
        self._limiter, self._max_wait, self._cost, self._used = limiter, max_wait, cost, used
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with AsyncExitStack() as ends:
            costs = _costs(self._cost, request)
            turn = await ends.enter_async_context(self._limiter.turn(costs, max_wait=self._max_wait))
            response = await self._transport.handle_async_request(request)
            reader = UsageReader(response.headers) if self._used or turn.probes else None
            use = partial(_use, turn, self._limiter, response, self._used, reader)
            ends.push_async_callback(_settle_async, turn, use)
            if isinstance(response.stream, httpx.AsyncByteStream) and not response.is_closed:
                response.stream = _AsyncStream(response.stream, ends.pop_all(), reader)
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

    def __init__(self, stream: httpx.SyncByteStream, ends: ExitStack, reader: UsageReader | None) -> None:
        self._stream, self._ends, self._reader = stream, ends, reader

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            if self._reader:
                self._reader.read(part)
            yield part

    def close(self) -> None:
        with self._ends:
            self._stream.close()


class _AsyncStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, ends: AsyncExitStack, reader: UsageReader | None) -> None:
        self._stream, self._ends, self._reader = stream, ends, reader

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            if self._reader:
                self._reader.read(part)
            yield part

    async def aclose(self) -> None:
        async with self._ends:
            await self._stream.aclose()


def _costs(cost: Costs | None, request: httpx.Request) -> list[int] | None:
    """What a request costs, if its body is known before it is sent."""
    if cost is None:
        return None
    try:
        body = request.content
    except httpx.RequestNotRead:
        body = b""
    return [max(1, n) for n in cost(estimate(body))]


def _use(
    turn: Turn | AsyncTurn, limiter: Limiter | AsyncLimiter, response: httpx.Response,
    used: Used | None, reader: UsageReader | None,
) -> tuple[Sequence[int], bool]:  # fmt: skip
    """What a call has used of each limit, and whether it was served. Empty: there is nothing to settle."""
    usage = Usage() if response.is_error else reader.end() if reader else None
    served = response.is_success and not (reader and reader.failed)
    if used and usage:
        return used(usage), served
    return [-1] * len(limiter._needs.limits) if turn.probes and served else (), served


def _settle(turn: Turn, use: Callable[[], tuple[Sequence[int], bool]]) -> None:
    try:
        used, served = use()
        if used:
            turn.settle(*used, served=served)
    except FleetpaceError as error:
        logger.warning(NOT_SETTLED, error)


async def _settle_async(turn: AsyncTurn, use: Callable[[], tuple[Sequence[int], bool]]) -> None:
    try:
        used, served = use()
        if used:
            await turn.settle(*used, served=served)
    except FleetpaceError as error:
        logger.warning(NOT_SETTLED, error)


def _pause(response: httpx.Response) -> float:
    """How long a response asks to pause; 0: it does not. If a proxy has added a header, the longest counts."""
    if response.status_code not in (429, 503):
        return 0.0
    date = response.headers.get("Date")
    return max((retry_after(text, date) for text in response.headers.get_list("Retry-After")), default=0.0)


def _reason(request: httpx.Request, response: httpx.Response) -> str:
    return f"{request.url.host} answered {response.status_code} with Retry-After"
