"""What a call needs: permits of one limit, or of several at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import invalid

Key = str | Mapping[str, str] | None
Cost = int | Sequence[int] | None
Document = dict[str, object]


@dataclass(frozen=True)
class Limit:
    """A limit of the server's file, with a value for its key (or for each name in it) and the cost of a call."""

    name: str
    key: Key = None
    cost: int = 1


@dataclass(frozen=True)
class Needs:
    """What the calls of a limiter need, and their share."""

    limits: tuple[Limit, ...]
    share: str | None
    weight: float | None
    urgent: bool

    def of(self, cost: Cost = None) -> Document:
        """The limits of a request. Cost is one number for each limit, or one for the only limit."""
        costs = [x.cost for x in self.limits] if cost is None else [cost] if isinstance(cost, int) else list(cost)
        if len(costs) != len(self.limits):
            raise invalid("cost", cost, f"must be one number for each of {len(self.limits)} limits")
        keys = [dict(x.key) if isinstance(x.key, Mapping) else x.key for x in self.limits]
        parts = zip(self.limits, keys, costs, strict=True)
        return {"limits": [present(name=limit.name, key=key, cost=n) for limit, key, n in parts]}

    def whose(self) -> Document:
        """The share, weight and urgency, for requests that take turns."""
        return present(share=self.share, weight=self.weight, urgent=self.urgent or None)


def needs_of(
    limits: tuple[str | Limit, ...], key: Key, cost: int, share: str | None, weight: float | None, urgent: bool
) -> Needs:
    """Key and cost apply to limits given by name; a Limit has its own."""
    return Needs(tuple(Limit(x, key, cost) if isinstance(x, str) else x for x in limits), share, weight, urgent)


def present(**fields: object) -> Document:
    """The fields of a request that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def duration(field: str, seconds: float | None) -> str | None:
    """Seconds in the format of the server."""
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        raise invalid(field, seconds, "must be seconds, 0 or above")
    return None if seconds is None else f"{seconds:.3f}s"
