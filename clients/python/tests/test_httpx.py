"""The transports for httpx, where it is here."""

import asyncio
import contextlib
import importlib.util
import time
import unittest
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from fleetpace import AsyncFleetpace, Fleetpace, TooLate
from fleetpace.usage import Usage, UsageReader

from .fake import FakeServer, Reply, problem

if importlib.util.find_spec("httpx"):
    import httpx

    from fleetpace.httpx import AsyncPacedTransport, PacedTransport

    Handler = Callable[[httpx.Request], httpx.Response]

    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        """A body that is read part by part."""

        def __init__(self, body: bytes = b"hello", size: int = 5) -> None:
            self.parts = [body[at : at + size] for at in range(0, len(body), size)]

        def __iter__(self) -> Iterator[bytes]:
            yield from self.parts

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in self.parts:
                yield part


FAILURES = [
    ("text/event-stream", b'event: error\ndata: {"message":"no"}\n\n'),
    ("text/event-stream", b'data: {"type":"error","error":{"type":"overloaded_error"}}\n\n'),
    ("text/event-stream", b'data: {"id":"c","choices":[],"error":{"code":429}}\n\n'),
    ("text/event-stream", b'data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}\n\n'),
    ("application/json", b'{"error":{"code":"rate_limit_exceeded"}}'),
]


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

    EVENTS = (
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":20,"cache_read_input_tokens":600,"output_tokens":1}}}\n\n'
        + 'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Zwölf Zeichen \\"usage\\": {"}}\n\n'.encode()
        + b'data: {"type":"message_delta","usage":{"output_tokens":9}}\n\ndata: {"type":"message_stop"}\n\n'
    )
    CHAT = (
        b'data: {"choices":[{"delta":{"content":"hello"}}],"usage":null}\r\n\r\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":5}}}\n\ndata: [DONE]\n\n'
    )
    SSE = "text/event-stream; charset=utf-8"
    USED: list[tuple[str, str, int, bytes, list[int] | None]] = [
        ("a stream of Anthropic", SSE, 200, EVENTS, [1, 20, 0, 600, 9]),
        ("one that is cut", SSE, 200, EVENTS[: EVENTS.index(b'data: {"type":"message_delta')], [1, 20, 0, 600, 7]),
        ("one that is cut in its first event", SSE, 200, EVENTS[:90], None),
        ("a stream of OpenAI", SSE, 200, CHAT, [1, 15, 5, 30, 7]),
        ("one without usage", SSE, 200, CHAT[:60], None),
        ("a document", "application/json", 200, b'{"usage":{"input_tokens":20,"output_tokens":9,"cache_creation_input_tokens":4}}', [1, 20, 4, 0, 9]),
        ("a document of Responses", "application/json", 200, b'{"usage":{"input_tokens":20,"output_tokens":9,"input_tokens_details":{"cached_tokens":8}}}', [1, 12, 0, 8, 9]),
        ("no JSON", "application/json", 200, b"hello", None),
        ("a failure", "application/json", 500, b'{"error":{}}', [1, 0, 0, 0, 0]),
    ]  # fmt: skip

    def test_a_response_settles_what_it_states(self) -> None:
        options: dict[str, Any] = {
            "cost": lambda e: [0, e.input, e.most],
            "used": lambda u: [1, u.input, u.cache_write, u.cache_read, u.output],
        }

        async def post_async(answer: "httpx.Response", request: bytes) -> bytes:
            async with AsyncFleetpace(self.server.url) as fleet:
                transport = AsyncPacedTransport(fleet.limiter("a", "b", "c"), httpx.MockTransport(lambda _: answer), **options)
                async with httpx.AsyncClient(transport=transport) as client:
                    return (await client.post("https://api.example/", content=request)).content

        def post(answer: "httpx.Response", request: bytes) -> bytes:
            with Fleetpace(self.server.url) as fleet:
                transport = PacedTransport(fleet.limiter("a", "b", "c"), httpx.MockTransport(lambda _: answer), **options)
                with httpx.Client(transport=transport) as client:
                    return client.post("https://api.example/", content=request).content

        request = '{"max_tokens":700,"text":"été"}'.encode()
        for name, kind, status, body, settled in self.USED:
            for size, encoding in ((1, None), (7, "gzip"), (1000, None), (1000, "other")):
                for way in (post, lambda *args: asyncio.run(post_async(*args))):
                    with self.subTest(name, size=size, encoding=encoding):
                        self.server.seen.clear()
                        headers = {"content-type": kind} | ({"content-encoding": encoding} if encoding else {})
                        zipped = zlib.compressobj(wbits=31)
                        raw = zipped.compress(body) + zipped.flush() if encoding == "gzip" else body
                        answer = httpx.Response(status, headers=headers, stream=Body(raw, size))
                        self.assertEqual(way(answer, request), body)
                        [wait] = self.server.bodies("/v1/wait")
                        self.assertEqual([limit["cost"] for limit in wait["limits"]], [1, 9, 700])
                        known = settled if encoding != "other" or status >= 400 else None
                        self.assertEqual([s["used"] for s in self.server.bodies("/v1/settle")], [known] if known else [])

    def test_a_probe_that_is_served_ends_a_hard_stop(self) -> None:
        async def get_async(answer: "httpx.Response", used: Any) -> None:
            async with AsyncFleetpace(self.server.url) as fleet:
                transport = AsyncPacedTransport(fleet.limiter("a", "b"), httpx.MockTransport(lambda _: answer), used=used)
                async with httpx.AsyncClient(transport=transport) as client:
                    await client.get("https://api.example/")

        def get(answer: "httpx.Response", used: Any) -> None:
            with Fleetpace(self.server.url) as fleet:
                transport = PacedTransport(fleet.limiter("a", "b"), httpx.MockTransport(lambda _: answer), used=used)
                httpx.Client(transport=transport).get("https://api.example/")

        probe = Reply(200, {"turn": "t", "waited_ms": 0, "probes": True})
        for way in (get, lambda *args: asyncio.run(get_async(*args))):
            self.server.seen.clear()
            self.server.script["/v1/wait"].extend([probe] * 4)
            calm = b'data: {"text":"\\"error\\":","error":null}\n\n'
            way(httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(calm)), None)
            way(httpx.Response(200, content=b"whole"), None)
            way(httpx.Response(200, stream=Body(b'{"usage":{"input_tokens":20}}')), lambda u: [1, u.input])
            way(httpx.Response(429, stream=Body()), None)
            for kind, failure in FAILURES:
                self.server.script["/v1/wait"].append(probe)
                way(httpx.Response(200, headers={"content-type": kind}, stream=Body(failure)), None)
            way(httpx.Response(200, stream=Body()), None)  # no probe
            settled = [{"turn": "t", "used": used, "served": True} for used in ([-1, -1], [-1, -1], [1, 20])]
            self.assertEqual(self.server.bodies("/v1/settle"), settled)
        self.assertEqual(self.server.violations, [])

    def test_the_server_judges_refusals(self) -> None:
        async def get_async(answer: "httpx.Response") -> "httpx.Response":
            async with AsyncFleetpace(self.server.url) as fleet:
                transport = AsyncPacedTransport(fleet.limiter("a"), httpx.MockTransport(lambda _: answer), api="anthropic")
                async with httpx.AsyncClient(transport=transport) as client:
                    return await client.get("https://api.example/")

        def get(answer: "httpx.Response") -> "httpx.Response":
            with Fleetpace(self.server.url) as fleet:
                transport = PacedTransport(fleet.limiter("a"), httpx.MockTransport(lambda _: answer), api="anthropic")
                return httpx.Client(transport=transport).get("https://api.example/")

        zipped = zlib.compressobj(wbits=31)
        failure = b'{"type":"error","error":{"type":"billing_error"}}'
        raw = zipped.compress(failure) + zipped.flush()
        large = b"x" * (200 << 10)
        text = failure.decode()
        head = {"Retry-After": "7", "Request-Id": "r"}
        for way in (get, lambda *args: asyncio.run(get_async(*args))):
            for answer, body, sent, advice, name, value in [
                (httpx.Response(402, headers=head, stream=Body(failure)), failure, text, {"retry": False}, "X-Should-Retry", "false"),
                (httpx.Response(429, headers=head, content=failure), failure, text, {"retry_after_ms": 1}, "Retry-After-Ms", "1"),
                (httpx.Response(529, headers=head | {"Content-Encoding": "gzip"}, stream=Body(raw)), failure, text, {}, "Retry-After-Ms", None),
                (httpx.Response(500, headers=head, stream=Body(large, 1000)), large, "", {}, "X-Should-Retry", None),
                (httpx.Response(400, headers=head, stream=Body(failure)), failure, text, None, "X-Should-Retry", None),
                (httpx.Response(200, headers=head, stream=Body(failure)), failure, text, {}, "X-Should-Retry", None),
                (httpx.Response(200, headers={"Content-Type": self.SSE}, stream=Body(b"data: " + failure + b"\n\n")), None, text, {}, "", None),
            ]:  # fmt: skip
                self.server.seen.clear()
                self.server.script["/v1/refused"].append(problem(503, "away") if advice is None else Reply(200, advice))
                with contextlib.suppress(AssertionError), self.assertLogs("fleetpace"):  # one is not passed on
                    response = way(answer)
                self.assertEqual(response.headers.get(name), value)
                self.assertEqual(response.content, body or response.content)
                [told] = self.server.bodies("/v1/refused")
                self.assertRegex(told.pop("ago"), r"^0\.\d+s$")
                kept = {k.lower(): v for k, v in response.headers.items() if k.lower() == "retry-after"}
                about = {"api": "anthropic", "status": response.status_code, "headers": kept, "host": "api.example", "body": sent}
                self.assertEqual(told, {"limits": [{"name": "a", "cost": 1}], **about})
            self.server.seen.clear()
            way(httpx.Response(200, stream=Body(b'{"usage":{}}')))
            self.assertEqual(self.server.bodies("/v1/refused") + self.server.bodies("/v1/pause"), [])
        self.assertEqual(self.server.violations, [])

    def test_a_long_line_takes_time_that_grows_with_its_length(self) -> None:
        for size in (1 << 20, 16 << 20):
            reader = UsageReader({"content-type": "text/event-stream"})
            reader.read(self.EVENTS[:150])
            began = time.process_time()
            reader.read(b'data: {"delta":{"text":"' + rb"ab\"" * (size // 4) + b'"}}\n')
            self.assertLess(time.process_time() - began, 0.5)
            self.assertEqual(reader.end(), Usage(20, 600, 0, size // 4))

    def test_a_cost_that_is_not_settled_is_logged(self) -> None:
        self.server.script["/v1/settle"].append(problem(503, "Redis is away"))
        with Fleetpace(self.server.url) as fleet, self.assertLogs("fleetpace", "WARNING"):
            transport = PacedTransport(fleet.limiter("a"), httpx.MockTransport(api(500)), used=lambda _: [0])
            httpx.Client(transport=transport).get("https://api.example/")


if __name__ == "__main__":
    unittest.main()
