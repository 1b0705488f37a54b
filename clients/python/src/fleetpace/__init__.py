"""Workers take turns at a rate-limited API: the client of `fleetpace serve`.

Fleetpace is for threads, AsyncFleetpace for asyncio. All durations are seconds.
"""

# fmt: off
# ruff: noqa: I001
from .aio import AsyncFleetpace, AsyncLimiter, AsyncTurn
from .answers import Allowed, Holder, Later, LimitInfo, State
from .errors import Conflict, Exhausted, FleetpaceError, InvalidRequest, TooLate
from .errors import Unauthorized, Unavailable, UnknownLimit, UnknownTurn
from .needs import Limit
from .sync import Fleetpace, Limiter, Turn

__all__ = [
    "Allowed", "AsyncFleetpace", "AsyncLimiter", "AsyncTurn", "Conflict", "Exhausted", "Fleetpace", "FleetpaceError",
    "Holder", "InvalidRequest", "Later", "Limit", "LimitInfo", "Limiter", "State", "TooLate", "Turn", "Unauthorized", "Unavailable",
    "UnknownLimit", "UnknownTurn",
]
