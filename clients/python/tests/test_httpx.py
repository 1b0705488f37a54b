"""The transports for httpx, where it is here."""

import asyncio
import importlib.util
import unittest
from collections.abc import AsyncIterator, Callable, Iterator

from fleetpace import AsyncFleetpace, Fleetpace, TooLate

from .fake import FakeServer, problem

if importlib.util.find_spec("httpx"):
    import httpx

    from fleetpace.httpx import AsyncPacedTransport, PacedTransport

    Handler = Callable[[httpx.Request], httpx.Response]

    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        """A body that is read part by part."""

        def __iter__(self) -> Iterator[bytes]:
            yield b"hello"

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"hello"


def api(status: int, headers: dict[str, str] | None = None) -> "Handler":
    return lambda _: httpx.Response(status, headers=headers, stream=Body())


@unittest.skipUnless(importlib.util.find_spec("httpx"), "httpx is not installed")
class Transports(unittest.TestCase):
    def setUp(self) -> None:
        self.server = FakeServer()
        self.addCleanup(self.server.stop)

    def get(self, handler: "Handler", max_wait: float | None = None) -> "httpx.Response":
        with Fleetpace(self.server.url) as fleet:
            transport = PacedTransport(fleet.limiter("api"), httpx.MockTransport(handler), max_wait=max_wait)
            with httpx.Client(transport=transport) as client:
                return client.get("https://api.example/x")

    def get_async(self, handler: "Handler", max_wait: float | None = None) -> "httpx.Response":
        async def call() -> httpx.Response:
            async with AsyncFleetpace(self.server.url) as fleet:
                transport = AsyncPacedTransport(fleet.limiter("api"), httpx.MockTransport(handler), max_wait=max_wait)
                async with httpx.AsyncClient(transport=transport) as client:
                    return await client.get("https://api.example/x")

        return asyncio.run(call())

    def test_each_request_takes_a_turn(self) -> None:
        for get in (self.get, self.get_async):
            self.server.seen.clear()
            response = get(api(200), 5)
            self.assertEqual((response.status_code, response.text), (200, "hello"))
            self.assertEqual([seen.path for seen in self.server.seen], ["/v1/wait"])
            self.assertRegex(self.server.bodies("/v1/wait")[0]["max_wait"], r"^(5.000|4.9\d\d)s$")

    def test_an_answer_that_asks_for_it_pauses_the_fleet(self) -> None:
        date = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT"}
        cases = [(429, {"Retry-After": "7"}, "7.000s"), (503, date, "30.000s")]
        for get in (self.get, self.get_async):
            for status, headers, seconds in cases:
                self.server.seen.clear()
                self.assertEqual(get(api(status, headers)).status_code, status)
                [pause] = self.server.bodies("/v1/pause")
                self.assertEqual((pause["for"], pause["limits"]), (seconds, [{"name": "api", "cost": 1}]))
                self.assertIn(f"api.example answered {status}", pause["reason"])

    def test_other_answers_pause_nothing(self) -> None:
        for get in (self.get, self.get_async):
            get(api(429))
            get(api(500, {"Retry-After": "7"}))
            get(api(503, {"Retry-After": "0"}))
        self.assertEqual(self.server.bodies("/v1/pause"), [])

    def test_the_answer_comes_although_the_pause_fails(self) -> None:
        for get in (self.get, self.get_async):
            self.server.script["/v1/pause"].append(problem(503, "Redis is away"))
            with self.assertLogs("fleetpace", "WARNING"):
                self.assertEqual(get(api(429, {"Retry-After": "7"})).status_code, 429)

    def test_a_slot_is_held_until_the_answer_is_closed(self) -> None:
        self.server.lease_ms = 5000
        with Fleetpace(self.server.url) as fleet:
            transport = PacedTransport(fleet.limiter("api"), httpx.MockTransport(api(200)))
            with httpx.Client(transport=transport) as client:
                with client.stream("GET", "https://api.example/x") as response:
                    self.assertEqual(self.server.bodies("/v1/release"), [])
                    response.read()
                self.assertEqual(len(self.server.bodies("/v1/release")), 1)
        self.get_async(api(200))
        self.assertEqual(len(self.server.bodies("/v1/release")), 2)

    def test_a_slot_of_an_answer_that_is_whole_is_released_at_once(self) -> None:
        self.server.lease_ms = 5000
        for n, get in enumerate((self.get, self.get_async), 1):
            self.assertEqual(get(lambda _: httpx.Response(200, content=b"whole")).text, "whole")
            self.assertEqual(len(self.server.bodies("/v1/release")), n)

    def test_a_slot_is_released_where_the_request_fails(self) -> None:
        def refuse(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("refused", request=request)

        self.server.lease_ms = 5000
        for n, get in enumerate((self.get, self.get_async), 1):
            with self.assertRaises(httpx.ConnectError):
                get(refuse)
            self.assertEqual(len(self.server.bodies("/v1/release")), n)

    def test_too_late(self) -> None:
        for get in (self.get, self.get_async):
            self.server.script["/v1/wait"].append(problem(429, "The turn would come in 48s"))
            with self.assertRaises(TooLate):
                get(api(200), 1)


if __name__ == "__main__":
    unittest.main()
