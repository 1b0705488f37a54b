"""The client for threads."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from . import protocol
from .answers import Allowed, Given, Later, LimitInfo, State
from .errors import FleetpaceError
from .needs import Cost, Key, Limit, Needs, needs_of
from .protocol import Request, Steps, T, Wait
from .sync_http import SyncHTTP


class Fleetpace(SyncHTTP):
    """A server that grants turns. Safe for threads, and after a fork. Close it at the end."""

    def limiter(
        self, *limits: str | Limit, key: Key = None, cost: int = 1,
        flow: str | None = None, weight: float | None = None, urgent: bool = False, share: str | None = None,
    ) -> "Limiter":  # fmt: skip
        """One limit, or several at once. Key and cost apply to limits given by name; a Limit has its own.

        share is the earlier name of flow. It is deprecated, and goes with v0.4.
        """
        return Limiter(self, needs_of(limits, key, cost, flow, weight, urgent, share))

    def limits(self) -> list[LimitInfo]:
        """The limits of the server's file."""
        return self.run(protocol.limits())

    def state(self, name: str, key: str | None = None) -> State:
        """The state of a limit."""
        return self.run(protocol.state(name, key))

    def close(self) -> None:
        """Closes idle connections at once, and the others when their requests end."""
        self._closed = True
        while (connection := self.reuse()) is not None:
            connection.close()

    def __enter__(self) -> "Fleetpace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, steps: Steps[T], sleep: Callable[[float], object] = time.sleep) -> T:
        """Carries out the steps of the protocol: requests and sleeps."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self.exchange(step) if isinstance(step, Request) else sleep(step))
        except StopIteration as done:
            return cast(T, done.value)

    def finish(self, steps: Steps[object]) -> None:
        """Sends a request that only speeds things up: without it the server does the same later."""
        try:
            self.run(steps)
        except FleetpaceError as error:
            logging.getLogger("fleetpace").info("%s", error)


class Turn:
    """A turn that came after waited seconds. lost is set if its slots are lost; then other calls may have them.
    probes: this call probes whether an API whose limit is stopped serves calls again. If it does, settle it as served.

    As a context manager, it renews its slots while the block runs, and releases them at the end.
    """

    def __init__(self, client: Fleetpace, given: Given) -> None:
        self.id, self.waited, self.lost = given.turn, given.waited, threading.Event()
        self.probes = given.probes
        self._client, self._lease, self._ended = client, given.lease, threading.Event()

    def settle(self, *used: int, served: bool = False) -> None:
        """Reports how many permits the call used of each limit; -1: unknown. With served, the API has served the call:
        if its turn probes a hard stop, the stop ends."""
        self._client.run(protocol.settle(self.id, used, served and self.probes))

    def __enter__(self) -> "Turn":
        if self._lease is not None:
            threading.Thread(target=self._renew, args=(self._lease,), name="fleetpace-renew", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._lease is not None:
            self._client.finish(protocol.release(self.id))

    def _renew(self, lease: float) -> None:
        if self._client.run(protocol.renew(self.id, lease, self._ended.is_set), sleep=self._ended.wait):
            self.lost.set()


class Limiter:
    """Takes turns of one limit, or of several at once. Safe for threads."""

    def __init__(self, client: Fleetpace, needs: Needs) -> None:
        self._client, self._needs = client, needs

    @contextmanager
    def turn(self, cost: Cost = None, *, max_wait: float | None = None, id: str | None = None) -> Iterator[Turn]:
        """Waits for a turn. It holds its slots while the block runs, and releases them at the end."""
        with self._wait(cost, max_wait, id, slots=True) as turn:
            yield turn

    def wait(self, cost: Cost = None, *, max_wait: float | None = None, id: str | None = None) -> Turn:
        """Waits for a turn. The limits must have no slots."""
        return self._wait(cost, max_wait, id, slots=False)

    def ask(self, id: str, poll: float = 0.0, cost: Cost = None) -> Turn | Later:
        """Asks for the turn of the call with this id, for poll seconds. After that the call is booked, and Later says
        when to ask again, from any process. Use the turn at once: `with turn:` if the limits have slots."""
        client = self._client
        wait = Wait(self._needs, cost, None, id, poll, client.timeout, client.patience, client.ways)
        answer = client.run(wait.steps(slots=True, once=True))
        return Turn(client, answer) if isinstance(answer, Given) else answer

    def leave(self, id: str, cost: Cost = None) -> None:
        """Gives up the place of an id: its call will not be made."""
        self._client.run(protocol.leave(self._needs, cost, id))

    def allow(self, cost: Cost = None, *, ahead: int | None = None) -> Allowed:
        """Takes a turn if one is available now. With ahead it takes up to that many, for the next calls."""
        return self._client.run(protocol.allow(self._needs, cost, ahead))

    def pause(self, seconds: float, reason: str | None = None) -> None:
        """Pauses the limits for the whole fleet. Of several pauses, the one that ends last counts."""
        self._client.run(protocol.pause(self._needs, seconds, reason))

    def resume(self) -> None:
        """Ends a pause."""
        self._client.run(protocol.resume(self._needs))

    def _wait(self, cost: Cost, max_wait: float | None, id: str | None, slots: bool) -> Turn:
        client = self._client
        wait = Wait(self._needs, cost, max_wait, id, client.poll, client.timeout, client.patience, client.ways)
        try:
            return Turn(client, cast(Given, client.run(wait.steps(slots))))
        except Exception:
            raise
        except BaseException:  # Ctrl-C, for example
            if wait.kept:
                client.finish(wait.leave())
            raise
