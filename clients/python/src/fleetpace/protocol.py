"""The protocol, without I/O: steps are requests to send and seconds to sleep."""

import math
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from email.message import Message
from time import monotonic
from typing import TypeVar
from urllib.parse import quote, urlencode

from .answers import Advice, Allowed, Given, Later, Lease, LimitInfo, Listed, State, decode, parse
from .errors import FleetpaceError, TooLate, Unavailable, UnknownTurn, error_of, invalid
from .needs import Cost, Document, Needs, duration, present
from .retry_after import retry_after

T = TypeVar("T")
LEAVE_TIMEOUT = 2.0
RELEASE_PATIENCE = 2.0
LONGEST_SLEEP = 600.0


@dataclass(frozen=True)
class Request:
    path: str
    body: Document | None = None  # None: a GET
    timeout: float | None = None  # None: the client's timeout
    attempts: list[str] | None = None  # random names of this request and of those before it that had no response


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: bytes


Steps = Generator[Request | float, object, T]  # a request results in an Answer or a FleetpaceError


def ask(path: str, body: Document | None = None, timeout: float | None = None, attempts: list[str] | None = None) -> Steps[object]:
    """Sends one request. It returns the document of the response, or raises an error."""
    answer = yield Request(path, body, timeout, attempts)
    if not isinstance(answer, Answer):
        raise answer if isinstance(answer, FleetpaceError) else TypeError(f"no answer: {answer!r}")
    content = answer.headers.get_content_type()
    if answer.status == 204:
        return None
    if answer.status in (200, 202) or (answer.status == 429 and content == "application/json"):
        return parse(answer.body)
    problem = parse(answer.body) if content == "application/problem+json" else None
    raise error_of(path, answer.status, problem, retry_after(answer.headers.get("Retry-After")))


def allow(needs: Needs, cost: Cost, ahead: int | None) -> Steps[Allowed]:
    return decode(Allowed, (yield from ask("/v1/allow", needs.of(cost) | needs.whose() | present(ahead=ahead))))


def pause(needs: Needs, seconds: float, reason: str | None) -> Steps[None]:
    terms: Document = {"for": duration("seconds", seconds)}
    yield from ask("/v1/pause", needs.of() | terms | present(reason=reason))


def refused(needs: Needs, about: Document, sent: float) -> Steps[dict[str, str]]:
    """Tells the server of a refusal. It returns headers that tell an SDK what to do."""
    ago = duration("ago", monotonic() - sent)
    advice = decode(Advice, (yield from ask("/v1/refused", needs.of() | about | {"ago": ago})))
    if not advice.retry:
        return {"X-Should-Retry": "false"}
    after = advice.retry_after_ms
    return {} if after is None else {"Retry-After-Ms": f"{after:.0f}"}


def resume(needs: Needs) -> Steps[None]:
    yield from ask("/v1/resume", needs.of())


def leave(needs: Needs, cost: Cost, id: str | None, timeout: float | None = None) -> Steps[object]:
    return ask("/v1/leave", needs.of(cost) | {"id": id}, timeout)


def settle(turn: str, used: tuple[int, ...], served: bool) -> Steps[None]:
    yield from ask("/v1/settle", {"turn": turn, "used": used} | ({"served": True} if served else {}))


def release(turn: str) -> Steps[None]:
    """Releases the slots; it asks again for some seconds, as another server may answer."""
    until = monotonic() + RELEASE_PATIENCE
    while True:
        try:
            yield from ask("/v1/release", {"turn": turn})
            return
        except Unavailable:
            if monotonic() >= until:
                raise
            yield random.uniform(0.05, 0.2)


def limits() -> Steps[list[LimitInfo]]:
    return list(decode(Listed, (yield from ask("/v1/limits"))).limits)


def state(name: str, key: str | None) -> Steps[State]:
    query = "" if key is None else "?" + urlencode({"key": key})
    return decode(State, (yield from ask(f"/v1/limits/{quote(name, safe='')}{query}")))


class Ways:
    """The round-trip times of the latest requests."""

    def __init__(self) -> None:
        self._both: deque[float] = deque(maxlen=20)

    def least(self) -> float:
        """The shortest known time that a response takes to arrive."""
        both = list(self._both)
        return min(both) / 2 if len(both) >= 5 else 0.0

    def heard(self, both: float) -> float:
        self._both.append(both)
        return both


@dataclass
class Wait:
    """A call that waits. Its id is the caller's, or the server's after a response that the turn comes later."""

    needs: Needs
    cost: Cost
    max_wait: float | None
    id: str | None
    poll: float
    timeout: float
    patience: float
    ways: Ways
    late: Document = field(default_factory=dict)  # says that the last turn was not used
    way: float = 0.0  # how long a response takes to arrive, as sent to the server
    attempts: list[str] = field(default_factory=list)  # names of requests without a response
    kept: bool = False  # the server keeps a place that the caller does not know of

    def steps(self, slots: bool, once: bool = False) -> Steps[Given | Later]:
        """Asks until the turn comes; with once, until it comes or is booked. The caller must release its slots."""
        duration("max_wait", self.max_wait)
        began = heard = monotonic()
        deadline = math.inf if self.max_wait is None else began + self.max_wait
        failures, slow = 0, 0.0
        while True:
            sent = monotonic()
            try:
                document = yield from self._ask(max(0.0, deadline - monotonic()))
            except Unavailable as error:
                left = min(deadline, heard + self.patience) - monotonic()
                if left <= 0 or error.retry_after > left:
                    raise
                failures = min(failures + 1, 6)
                if self.id is not None:  # if the lost response had a turn, it was not used
                    self.late = {"late": True}
                yield min(left, error.retry_after + random.uniform(0.02, 0.1 * 2**failures))
                continue
            heard, failures = monotonic(), 0
            self.attempts.clear()
            if isinstance(document, dict) and "turn" in document:
                given = replace(decode(Given, document), waited=heard - began)  # over all its requests
                if given.lease is not None and not slots:
                    yield from release(given.turn)
                    names = [limit.name for limit in self.needs.limits]
                    raise invalid("limits", names, "has slots: use turn(), which releases them")
                if given.held is None:
                    return given
                both, least = self.ways.heard(heard - sent - given.held), self.ways.least()
                if given.due > 0:
                    yield max(0.0, heard + given.due - least - monotonic())
                if monotonic() <= sent + given.held + given.usable + least:
                    return given
                # It came too late. That may happen once; from the second time on the next request sends way.
                self.way, slow = (min(slow, both),) * 2 if slow else (0.0, both)
                self.id = self.id or given.id
                self.late = {"late": True, "turn": given.turn} if self.id else {}
                continue
            later, self.late = decode(Later, document), {}
            if later.held is not None:
                self.ways.heard(heard - sent - later.held)
            if once:
                return later
            self.id, self.kept = later.id, self.kept or self.id is None
            if heard + later.forecast > deadline:
                yield from self.leave()
                late = TooLate(f"the turn would come in {later.forecast:.1f} s, held back by {later.held_by}")
                late.retry_after = later.forecast
                raise late
            yield min(max(later.retry_after, 0.01), LONGEST_SLEEP)

    def leave(self) -> Steps[object]:
        return leave(self.needs, self.cost, self.id, LEAVE_TIMEOUT)

    def _ask(self, left: float) -> Steps[object]:
        # With an id the server counts max_wait from the first request of the call.
        most = self.max_wait if self.id is not None or self.max_wait is None else left
        poll = min(self.poll, left)
        way = max(self.way, self.ways.least())
        terms = present(id=self.id, poll=duration("poll", poll), max_wait=duration("max_wait", most))
        terms |= self.late | ({"way": duration("way", way)} if way >= 0.001 else {})
        return ask("/v1/wait", self.needs.of(self.cost) | self.needs.whose() | terms, poll + self.timeout, self.attempts)


def renew(turn: str, lease: float, ended: Callable[[], bool]) -> Steps[bool]:
    """Renews a lease until the turn ends (returns False) or its slots are lost (returns True)."""
    end = monotonic() + lease
    while True:
        third = min(max((end - monotonic()) / 3, 0.02), LONGEST_SLEEP)
        yield third
        asked = monotonic()
        try:
            if not ended():
                end = asked + decode(Lease, (yield from ask("/v1/renew", {"turn": turn}, third))).lease
        except FleetpaceError as error:
            if isinstance(error, UnknownTurn) or monotonic() >= end:
                return not ended()
        if ended():
            return False
