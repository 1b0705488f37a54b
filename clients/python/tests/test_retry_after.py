"""What Retry-After says."""

import unittest
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

from fleetpace.retry_after import LONGEST, retry_after


class RetryAfter(unittest.TestCase):
    def test_seconds(self) -> None:
        for text, seconds in {"0": 0, "120": 120, " 7 ": 7, "1.5": 1.5, "9" * 400: LONGEST}.items():
            self.assertEqual(retry_after(text), seconds, text)

    def test_what_says_nothing(self) -> None:
        for text in (None, "", "-5", "soon", "1e3", "inf", "nan", "٣", ".", "Fri, 99 Foo 2025 00:00:00 GMT"):
            self.assertEqual(retry_after(text), 0, text)

    def test_a_date_counts_from_the_date_of_the_answer(self) -> None:
        self.assertEqual(retry_after("Wed, 21 Oct 2015 07:28:30 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"), 30)
        self.assertEqual(retry_after("Wed, 21 Oct 2015 07:27:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"), 0)

    def test_a_date_without_one_counts_from_now(self) -> None:
        text = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=60), usegmt=True)
        self.assertTrue(58 < retry_after(text) <= 60)
        self.assertTrue(58 < retry_after(text, "yesterday") <= 60)


if __name__ == "__main__":
    unittest.main()
