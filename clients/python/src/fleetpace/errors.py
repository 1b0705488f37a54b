"""Errors. Each one says what to do."""

import ssl
from asyncio import LimitOverrunError
from contextlib import suppress
from datetime import datetime
from http.client import HTTPException, IncompleteRead


class FleetpaceError(Exception):
    """Any error. An error of none of the classes below means that the response is not from a fleetpace server."""

    retry_after: float = 0.0
    field: str | None = None
    value: object = None


class Unauthorized(FleetpaceError):
    """401: the server requires its token. 403: the token lacks the right."""


class UnknownLimit(FleetpaceError):
    """404: the server's file of limits has no such limit."""


class UnknownTurn(FleetpaceError):
    """404: the turn was released, its lease has ended, or its limits have no slots and do not settle."""


class Conflict(FleetpaceError):
    """409: another request with the same id has taken the place."""


class InvalidRequest(FleetpaceError):
    """400: field is wrong, with this value. Asking again does not help."""


class TooLate(FleetpaceError):
    """429: the turn would come after max_wait, in about retry_after seconds. No permit was used."""


class Exhausted(TooLate):
    """429: the limit scope is stopped, for a reason such as a used-up account. until is its end; None: nobody knows it."""

    scope: str = ""
    reason: str = ""
    until: datetime | None = None


class Unavailable(FleetpaceError):
    """503, or no response: ask again after retry_after seconds; 0: unknown."""


_KINDS = {
    400: InvalidRequest, 404: UnknownLimit, 409: Conflict, 413: InvalidRequest, 415: InvalidRequest, 429: TooLate,
}  # fmt: skip


def invalid(field: str, value: object, detail: str) -> InvalidRequest:
    was = "" if value is None else f" (it was {value!r:.200})"
    error = InvalidRequest((detail if field in detail else f"{field}: {detail}") + was)
    error.field, error.value = field, value
    return error


def moment_of(text: object) -> datetime | None:
    """A time in RFC 3339; None: it is none."""
    with suppress(ValueError):  # Python 3.10 knows no Z
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return None


def error_of(path: str, status: int, problem: object, retry_after: float) -> FleetpaceError:
    """The error of a response. A response without a problem document comes from a proxy or another server."""
    known = problem if isinstance(problem, dict) else {}
    detail = str(known.get("detail", f"{path} was answered with {status}, without a reason"))
    kind = _KINDS.get(status, FleetpaceError) if known else FleetpaceError
    if kind is UnknownLimit and path in ("/v1/settle", "/v1/release", "/v1/renew"):
        kind = UnknownTurn
    if status in (401, 403):
        kind = Unauthorized
    elif status in (502, 503, 504) or (status == 429 and not known):
        kind = Unavailable
    if kind is InvalidRequest:
        return invalid(str(known.get("field", "body")), known.get("value"), detail)
    error = kind(detail)
    if kind is TooLate and "scope" in known:
        error = stopped = Exhausted(detail)
        stopped.scope, stopped.reason = str(known["scope"]), str(known.get("reason", ""))
        stopped.until = moment_of(known.get("until"))
    error.retry_after = retry_after
    return error


FAILURES = (OSError, EOFError, HTTPException, ValueError, LimitOverrunError, FleetpaceError)  # of an exchange


def failure_of(error: Exception, url: str) -> FleetpaceError:
    """The error of a failed exchange: the server is unreachable, or it is not a fleetpace server."""
    if isinstance(error, FleetpaceError):
        return error
    distrusted = isinstance(error, ssl.SSLError) and not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    away = isinstance(error, (OSError, EOFError, IncompleteRead)) and not distrusted
    failure = (Unavailable if away else FleetpaceError)(f"{url}: {error or type(error).__name__}")
    failure.__cause__ = error
    return failure
