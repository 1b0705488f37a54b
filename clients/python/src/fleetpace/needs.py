"""What a call needs: permits of one limit, or of several at once."""

import math
import warnings
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
    """What the calls of a limiter need, and their flow."""

    limits: tuple[Limit, ...]
    flow: str | None
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
        """The flow, weight and urgency, for requests that take turns."""
        return present(flow=self.flow, weight=self.weight, urgent=self.urgent or None)


def needs_of(
    limits: tuple[str | Limit, ...], key: Key, cost: int,
    flow: str | None, weight: float | None, urgent: bool, share: str | None,
) -> Needs:  # fmt: skip
    """Key and cost apply to limits given by name; a Limit has its own. share is the earlier name of flow."""
    if share is not None:
        if flow is not None:
            raise invalid("share", share, "is the earlier name of flow: give one of them")
        warnings.warn("share is deprecated, and goes with v0.4: use flow", DeprecationWarning, stacklevel=3)
    limits_of = tuple(Limit(x, key, cost) if isinstance(x, str) else x for x in limits)
    return Needs(limits_of, share if flow is None else flow, weight, urgent)


def present(**fields: object) -> Document:
    """The fields of a request that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def duration(field: str, seconds: float | None) -> str | None:
    """Seconds in the format of the server."""
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        raise invalid(field, seconds, "must be seconds, 0 or above")
    return None if seconds is None else f"{seconds:.3f}s"
