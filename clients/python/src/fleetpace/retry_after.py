"""The header Retry-After."""

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

LONGEST = 366 * 86400.0


def retry_after(text: str | None, date: str | None = None) -> float:
    """The seconds that a Retry-After header asks for; 0: none. A date is relative to the Date of the response."""
    if re.fullmatch(r"\s*\d+(\.\d*)?\s*", text or "", re.ASCII):
        return min(float(text or ""), LONGEST)
    moment, now = _moment(text), _moment(date) or datetime.now(timezone.utc)
    return min(max(0.0, (moment - now).total_seconds()), LONGEST) if moment else 0.0


def _moment(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
        return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
