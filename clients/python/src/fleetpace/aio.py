"""The client for asyncio."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from . import protocol
from .aio_http import AsyncHTTP, hang_up
from .answers import Allowed, Given, Later, LimitInfo, State
from .errors import FleetpaceError
from .needs import Cost, Key, Limit, Needs, needs_of
from .protocol import Request, Steps, T, Wait


class AsyncFleetpace(AsyncHTTP):
    """A server that grants turns, for the tasks of one event loop. Close it at the end.

    A task that is cancelled while it waits hangs up: it gives up its place, unless it gave an id.
    """

    def limiter(
        self, *limits: str | Limit, key: Key = None, cost: int = 1,
        flow: str | None = None, weight: float | None = None, urgent: bool = False, share: str | None = None,
    ) -> "AsyncLimiter":  # fmt: skip
        """One limit, or several at once. Key and cost apply to limits given by name; a Limit has its own.

        share is the earlier name of flow. It is deprecated, and goes with v0.4.
        """
        return AsyncLimiter(self, needs_of(limits, key, cost, flow, weight, urgent, share))

    async def limits(self) -> list[LimitInfo]:
        """The limits of the server's file."""
        return await self.run(protocol.limits())

    async def state(self, name: str, key: str | None = None) -> State:
        """The state of a limit."""
        return await self.run(protocol.state(name, key))

    async def aclose(self) -> None:
        """Closes idle connections at once, and the others when their requests end."""
        self._closed = True
        await asyncio.gather(*self._finishing)
        while (stream := self.reuse(asyncio.get_running_loop())) is not None:
            await hang_up(stream)

    async def __aenter__(self) -> "AsyncFleetpace":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Carries out the steps of the protocol: requests and sleeps."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Request):
                    step = steps.send(await self.exchange(step))
                else:
                    step = steps.send(await asyncio.sleep(step, None))
        except StopIteration as done:
            return cast(T, done.value)

    def finish(self, steps: Steps[object]) -> "asyncio.Task[None]":
        """Sends such a request also if the caller is cancelled. Without it the server does the same later."""

        async def quietly() -> None:
            try:
                await self.run(steps)
            except FleetpaceError as error:
                logging.getLogger("fleetpace").info("%s", error)

        task = asyncio.create_task(quietly())
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task


class AsyncTurn:
    """A turn that came after waited seconds. lost is set if its slots are lost; then other calls may have them.
    probes: this call probes whether an API whose limit is stopped serves calls again. If it does, settle it as served.

    As a context manager, it renews its slots while the block runs, and releases them at the end.
    """

    def __init__(self, client: AsyncFleetpace, given: Given) -> None:
        self.id, self.waited, self.lost = given.turn, given.waited, asyncio.Event()
        self.probes = given.probes
        self._client, self._lease = client, given.lease
        self._renewing: asyncio.Task[None] | None = None

    async def settle(self, *used: int, served: bool = False) -> None:
        """Reports how many permits the call used of each limit; -1: unknown. With served, the API has served the call:
        if its turn probes a hard stop, the stop ends."""
        await self._client.run(protocol.settle(self.id, used, served and self.probes))

    async def __aenter__(self) -> "AsyncTurn":
        if self._lease is not None:
            self._renewing = asyncio.create_task(self._renew(self._lease))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.shield(self._client.finish(protocol.release(self.id)))

    async def _renew(self, lease: float) -> None:
        if await self._client.run(protocol.renew(self.id, lease, lambda: False)):
            self.lost.set()


class AsyncLimiter:
    """Takes turns of one limit, or of several at once."""

    def __init__(self, client: AsyncFleetpace, needs: Needs) -> None:
        self._client, self._needs = client, needs

    @asynccontextmanager
    async def turn(
        self, cost: Cost = None, *, max_wait: float | None = None, id: str | None = None
    ) -> AsyncIterator[AsyncTurn]:
        """Waits for a turn. It holds its slots while the block runs, and releases them at the end."""
        async with await self._wait(cost, max_wait, id, slots=True) as turn:
            yield turn

    async def wait(self, cost: Cost = None, *, max_wait: float | None = None, id: str | None = None) -> AsyncTurn:
        """Waits for a turn. The limits must have no slots."""
        return await self._wait(cost, max_wait, id, slots=False)

    async def ask(self, id: str, poll: float = 0.0, cost: Cost = None) -> AsyncTurn | Later:
        """Asks for the turn of the call with this id, for poll seconds. After that the call is booked, and Later says
        when to ask again, from any process. Use the turn at once: `async with turn:` if the limits have slots."""
        client = self._client
        wait = Wait(self._needs, cost, None, id, poll, client.timeout, client.patience, client.ways)
        answer = await client.run(wait.steps(slots=True, once=True))
        return AsyncTurn(client, answer) if isinstance(answer, Given) else answer

    async def leave(self, id: str, cost: Cost = None) -> None:
        """Gives up the place of an id: its call will not be made."""
        await self._client.run(protocol.leave(self._needs, cost, id))

    async def allow(self, cost: Cost = None, *, ahead: int | None = None) -> Allowed:
        """Takes a turn if one is available now. With ahead it takes up to that many, for the next calls."""
        return await self._client.run(protocol.allow(self._needs, cost, ahead))

    async def pause(self, seconds: float, reason: str | None = None) -> None:
        """Pauses the limits for the whole fleet. Of several pauses, the one that ends last counts."""
        await self._client.run(protocol.pause(self._needs, seconds, reason))

    async def resume(self) -> None:
        """Ends a pause."""
        await self._client.run(protocol.resume(self._needs))

    async def _wait(self, cost: Cost, max_wait: float | None, id: str | None, slots: bool) -> AsyncTurn:
        client = self._client
        wait = Wait(self._needs, cost, max_wait, id, client.poll, client.timeout, client.patience, client.ways)
        try:
            return AsyncTurn(client, cast(Given, await client.run(wait.steps(slots))))
        except asyncio.CancelledError:
            if wait.kept:
                client.finish(wait.leave())
            raise
