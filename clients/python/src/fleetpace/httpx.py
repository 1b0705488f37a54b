"""Transports for httpx: each request takes a turn, and a refusal pauses the whole fleet.

A slot is released, and a cost is settled, when the answer is closed.
"""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from itertools import chain
from time import monotonic

import httpx

from . import protocol
from .aio import AsyncLimiter, AsyncTurn
from .errors import FleetpaceError
from .needs import Document
from .retry_after import retry_after
from .sync import Limiter, Turn
from .usage import Estimate, Usage, UsageReader, estimate

logger = logging.getLogger("fleetpace")
Costs = Callable[[Estimate], Sequence[int]]  # what a request costs of each limit
Used = Callable[[Usage], Sequence[int]]  # what it has used of each limit; -1: what it costs
MOST_READ = 64 << 10  # bytes of a refusal
MOST_SENT = 16 << 10  # bytes of a refusal, which may be three times as long in JSON; a longer one is judged by its status
TELLS = re.compile(r"^date$|retry|ratelimit|errortype")  # names of headers
NOT_HEARD = "a refusal was not passed on; others may call too early: %s"
NOT_SETTLED = "a turn was not settled, so its cost or a hard stop stays: %s"


class PacedTransport(httpx.BaseTransport):
    """Sends a request by transport when its turn comes. It raises TooLate if that would be after max_wait.

    api names whose rules say what a refusal means: anthropic, openai, azure, gemini, bedrock, shopify or github. By its
    status and body the limits are paused, or stopped if the account is used up, and headers tell an SDK whether to
    repeat it. Without api, a Retry-After of status 429 or 503 pauses them.

    cost says what a request to a language model costs of each limit, in their order. used says what it has used; then
    the limits need `settles: true`. If an answer does not state the tokens of its prompt, the cost stays. With a status
    of 400 or above it has used none. If the call probes a hard stop and its answer is a success, also within its body,
    the stop ends. A body that is sent in parts, without being whole before, counts as empty for cost.
    """

    def __init__(
        self, limiter: Limiter, transport: httpx.BaseTransport | None = None, *,
        max_wait: float | None = None, cost: Costs | None = None, used: Used | None = None, api: str | None = None,
    ) -> None:  # fmt: skip
        self._limiter, self._max_wait, self._cost, self._used, self._api = limiter, max_wait, cost, used, api
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with ExitStack() as ends:
            turn = ends.enter_context(self._limiter.turn(_costs(self._cost, request), max_wait=self._max_wait))
            sent = monotonic()
            response = self._transport.handle_request(request)
            reader = UsageReader(response.headers) if self._used or self._api or turn.probes else None
            use = partial(_use, turn, self._limiter, response, self._used, reader)
            hear = partial(self._hear, request, response, sent) if self._api else None
            ends.callback(_settle, turn, use, reader, None if response.is_error else hear)
            begun: list[bytes] = []
            if isinstance(response.stream, httpx.SyncByteStream) and not response.is_closed:
                parts = iter(response.stream)
                if hear and response.is_error:
                    for part in parts:
                        begun.append(part)
                        if sum(map(len, begun)) > MOST_READ:
                            break
                response.stream = _Stream(response.stream, chain(begun, parts), ends.pop_all(), reader)
            if hear and response.is_error:
                response.headers.update(hear(_text(response, begun)))
            elif not hear and (seconds := _pause(response)):
                try:
                    self._limiter.pause(seconds, _reason(request, response))
                except FleetpaceError as error:
                    logger.warning("no pause of %s s: %s", seconds, error)
        return response

    def _hear(self, request: httpx.Request, response: httpx.Response, sent: float, body: bytes) -> dict[str, str]:
        """Passes a refusal on. It returns headers that tell an SDK what to do."""
        about = _about(self._api, request, response, body)
        try:
            return self._limiter._client.run(protocol.refused(self._limiter._needs, about, sent))
        except FleetpaceError as error:
            logger.warning(NOT_HEARD, error)
            return {}

    def close(self) -> None:
        self._transport.close()


class AsyncPacedTransport(httpx.AsyncBaseTransport):
    """The same for httpx.AsyncClient."""

    def __init__(
        self, limiter: AsyncLimiter, transport: httpx.AsyncBaseTransport | None = None, *,
        max_wait: float | None = None, cost: Costs | None = None, used: Used | None = None, api: str | None = None,
    ) -> None:  # fmt: skip
        self._limiter, self._max_wait, self._cost, self._used, self._api = limiter, max_wait, cost, used, api
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with AsyncExitStack() as ends:
            costs = _costs(self._cost, request)
            turn = await ends.enter_async_context(self._limiter.turn(costs, max_wait=self._max_wait))
            sent = monotonic()
            response = await self._transport.handle_async_request(request)
            reader = UsageReader(response.headers) if self._used or self._api or turn.probes else None
            use = partial(_use, turn, self._limiter, response, self._used, reader)
            hear = partial(self._hear, request, response, sent) if self._api else None
            ends.push_async_callback(_settle_async, turn, use, reader, None if response.is_error else hear)
            begun: list[bytes] = []
            if isinstance(response.stream, httpx.AsyncByteStream) and not response.is_closed:
                parts = aiter(response.stream)
                if hear and response.is_error:
                    async for part in parts:
                        begun.append(part)
                        if sum(map(len, begun)) > MOST_READ:
                            break
                response.stream = _AsyncStream(response.stream, begun, parts, ends.pop_all(), reader)
            if hear and response.is_error:
                response.headers.update(await hear(_text(response, begun)))
            elif not hear and (seconds := _pause(response)):
                try:
                    await self._limiter.pause(seconds, _reason(request, response))
                except FleetpaceError as error:
                    logger.warning("no pause of %s s: %s", seconds, error)
        return response

    async def _hear(self, request: httpx.Request, response: httpx.Response, sent: float, body: bytes) -> dict[str, str]:
        about = _about(self._api, request, response, body)
        try:
            return await self._limiter._client.run(protocol.refused(self._limiter._needs, about, sent))
        except FleetpaceError as error:
            logger.warning(NOT_HEARD, error)
            return {}

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Stream(httpx.SyncByteStream):
    """The body of a response. The turn ends when the body is closed."""

    def __init__(
        self, stream: httpx.SyncByteStream, parts: Iterator[bytes], ends: ExitStack, reader: UsageReader | None
    ) -> None:
        self._stream, self._parts, self._ends, self._reader = stream, parts, ends, reader

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if self._reader:
                self._reader.read(part)
            yield part

    def close(self) -> None:
        with self._ends:
            self._stream.close()


class _AsyncStream(httpx.AsyncByteStream):
    def __init__(
        self, stream: httpx.AsyncByteStream, begun: list[bytes], rest: AsyncIterator[bytes],
        ends: AsyncExitStack, reader: UsageReader | None,
    ) -> None:  # fmt: skip
        self._stream, self._begun, self._rest, self._ends, self._reader = stream, begun, rest, ends, reader

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._begun:
            yield part
        async for part in self._rest:
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


def _settle(
    turn: Turn, use: Callable[[], tuple[Sequence[int], bool]],
    reader: UsageReader | None, hear: Callable[[bytes], object] | None,
) -> None:  # fmt: skip
    try:
        used, served = use()
        if used:
            turn.settle(*used, served=served)
    except FleetpaceError as error:
        logger.warning(NOT_SETTLED, error)
    if hear and reader and reader.failure:
        hear(reader.failure)


async def _settle_async(
    turn: AsyncTurn, use: Callable[[], tuple[Sequence[int], bool]],
    reader: UsageReader | None, hear: Callable[[bytes], Awaitable[object]] | None,
) -> None:  # fmt: skip
    try:
        used, served = use()
        if used:
            await turn.settle(*used, served=served)
    except FleetpaceError as error:
        logger.warning(NOT_SETTLED, error)
    if hear and reader and reader.failure:
        await hear(reader.failure)


def _text(response: httpx.Response, begun: list[bytes]) -> bytes:
    """The body of a refusal, as far as it is known."""
    if response.is_closed:
        return response.content
    reader = UsageReader({"content-encoding": response.headers.get("content-encoding", "identity")})
    for part in begun:
        reader.read(part)
    return reader.rest


def _about(api: str | None, request: httpx.Request, response: httpx.Response, body: bytes) -> Document:
    """What the server is told of a refusal."""
    headers = {name: value for name, value in response.headers.items() if TELLS.search(name)}
    return {
        "api": api, "status": response.status_code, "headers": headers, "host": request.url.host,
        "body": body.decode(errors="replace") if len(body) <= MOST_SENT else "",
    }  # fmt: skip


def _pause(response: httpx.Response) -> float:
    """How long a response asks to pause; 0: it does not. If a proxy has added a header, the longest counts."""
    if response.status_code not in (429, 503):
        return 0.0
    date = response.headers.get("Date")
    return max((retry_after(text, date) for text in response.headers.get_list("Retry-After")), default=0.0)


def _reason(request: httpx.Request, response: httpx.Response) -> str:
    return f"{request.url.host} answered {response.status_code} with Retry-After"
