"""The server's responses. All durations are in seconds."""

import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, get_args, get_origin, get_type_hints

from .errors import FleetpaceError, moment_of

T = TypeVar("T")


@dataclass(frozen=True)
class Allowed:
    """Whether a call may be made now; true if it may. Turns that were taken ahead expire evenly over valid seconds.

    If the limit scope is stopped, it has the reason and the end, as Exhausted has them.
    """

    allowed: bool
    taken: int
    limit: str
    retry_after: float = 0.0
    valid: float | None = None
    remaining: int | None = None
    scope: str | None = None
    reason: str | None = None
    until: datetime | None = None

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True)
class LimitInfo:
    """A limit of the server's file; key and flow are templates. share is the earlier name of flow."""

    name: str
    limit: str
    key: str | None = None
    flow: str | None = None
    share: str | None = None


@dataclass(frozen=True)
class Holder:
    """A call that holds slots; since is a time in RFC 3339."""

    process: str | None = None
    doing: str | None = None
    slots: int | None = None
    since: str | None = None


@dataclass(frozen=True)
class State:
    """The state of a limit.

    A call of one permit would wait for wait seconds; None: nobody knows it, as all slots are in use. A pause lasts for
    paused seconds more.
    """

    name: str
    limit: str
    set: bool
    stored: float
    waiting: int
    booked: int
    processes: int
    paused: float
    wait: float | None = None
    set_for: float | None = None
    pause_reason: str | None = None
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Listed:
    limits: tuple[LimitInfo, ...]


@dataclass(frozen=True)
class Given:
    turn: str
    waited: float
    lease: float | None = None
    id: str | None = None
    held: float | None = None  # None: an older server, which does not say
    due: float = 0.0
    usable: float = 0.0
    probes: bool = False


@dataclass(frozen=True)
class Later:
    """The turn comes in about forecast seconds: ask again with the id after retry_after seconds. It is false.

    If the limit scope is stopped, it has the reason and the end, as Exhausted has them.
    """

    id: str
    forecast: float
    retry_after: float
    held_by: str | None = None
    held: float | None = None
    scope: str | None = None
    reason: str | None = None
    until: datetime | None = None

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True)
class Lease:
    lease: float


@dataclass(frozen=True)
class Advice:
    retry: bool = True
    retry_after_ms: float | None = None


def decode(kind: type[T], document: object) -> T:
    """A response as a dataclass. Unknown fields are ignored; a missing field, or one of another type, is an error."""
    values: dict[str, object] = {}
    given = document if isinstance(document, dict) else {}
    for name, hint in get_type_hints(kind).items():
        millis = name not in given and f"{name}_ms" in given
        value, kinds = given.get(f"{name}_ms" if millis else name), get_args(hint) or (hint,)
        if datetime in kinds:
            value = moment_of(value)
        if value is None and hasattr(kind, name):
            continue
        if float in kinds and type(value) is int and abs(value) < 1 << 63:
            value = float(value)
        if get_origin(hint) is tuple and isinstance(value, list):
            value = tuple(decode(kinds[0], item) for item in value)
        elif type(value) not in kinds or (isinstance(value, float) and not math.isfinite(value)):
            raise FleetpaceError(f"the answer has no valid {name}: {document!r:.200}")
        values[name] = value / 1000 if millis and isinstance(value, float) else value
    return kind(**values)


def parse(body: bytes) -> object:
    """The JSON of a response."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FleetpaceError(f"the answer is no JSON: {error}: {body[:100]!r}") from error
