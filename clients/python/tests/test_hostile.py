"""Answers that no server of ours gives. None of them hangs a client, or is taken for a turn."""

import contextlib
import json
import time
import unittest
from typing import Any

from fleetpace import Fleetpace, FleetpaceError, Unavailable

from .facade import Facade
from .fake import FakeServer, Raw, Reply

JSON = "Content-Type: application/json\r\n"
TURN = json.dumps({"turn": "t", "waited_ms": 0})

CHUNKS = f"5\r\n{TURN[:5]}\r\n{len(TURN) - 5:X};x=1\r\n{TURN[5:]}\r\n0\r\nT: 1\r\n\r\n"


def raw(headers: str, body: str, status: str = "HTTP/1.1 200 OK", close: bool = True) -> Raw:
    return Raw(f"{status}\r\n{JSON}{headers}\r\n{body}".encode("latin-1"), close)


AWAY: dict[str, Any] = {
    "nothing": Raw(b""),
    "cut in the head": Raw(b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "cut in the body": raw("Content-Length: 500\r\n", TURN),
    "cut in a chunk": raw("Transfer-Encoding: chunked\r\n", "ff\r\n" + TURN),
    "cut between chunks": raw("Transfer-Encoding: chunked\r\n", f"{len(TURN):x}\r\n{TURN}\r\n"),
    "stuck in the body": raw("Content-Length: 500\r\n", TURN, close=False),
    "a proxy's error": Reply(502, b"<html>Bad gateway", {"Content-Type": "text/html"}),
}
STRANGE: dict[str, Any] = {
    "no HTTP": Raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "no JSON": Reply(200, b"<html>Welcome!"),
    "a part of JSON": Reply(200, b'{"turn": '),
    "no UTF-8": Reply(200, b'{"turn": "\xff"}'),
    "no object": Reply(200, []),
    "an empty object": Reply(200, {}),
    "null": Reply(200, None),
    "deep JSON": Reply(200, b"[" * 200_000),
    "a turn that is no text": Reply(200, {"turn": 7, "waited_ms": 0}),
    "a lease that is no number": Reply(200, {"turn": "t", "waited_ms": 0, "lease_ms": "10s"}),
    "a lease that is true": Reply(200, {"turn": "t", "waited_ms": 0, "lease_ms": True}),
    "a wait that is no number": Reply(200, b'{"turn": "t", "waited_ms": NaN}'),
    "a wait that is infinite": Reply(200, b'{"turn": "t", "waited_ms": 1e999}'),
    "a wait that is huge": Reply(200, b'{"turn": "t", "waited_ms": 1' + b"0" * 400 + b"}"),
    "202 without an id": Reply(202, {"forecast_ms": 0, "retry_after_ms": 0}),
    "nothing, with 204": Reply(204),
    "a redirect": Reply(302, b"", {"Location": "http://127.0.0.1:1/v1/wait"}),
    "a permanent redirect": Reply(308, b"", {"Location": "/v1/wait"}),
    "404 of another server": Reply(404, b"404 page not found\n", {"Content-Type": "text/plain"}),
    "a problem that is none": Reply(404, b"oops", {"Content-Type": "application/problem+json"}),
    "a problem that is no object": Reply(409, [1], {"Content-Type": "application/problem+json"}),
    "an error that is unknown": Reply(500, {"detail": "x"}, {"Content-Type": "application/problem+json"}),
    "a huge body": Reply(200, b'"' + b"x" * (1 << 21) + b'"'),
    "a huge length": raw("Content-Length: 99999999999\r\n", "x" * (1 << 21)),
    "a huge head": Raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n"),
    "many headers": raw("".join(f"X-{i}: 1\r\n" for i in range(1000)), TURN),
    "huge chunks": raw("Transfer-Encoding: chunked\r\n", ("100000\r\n" + "x" * 0x100000 + "\r\n") * 2),
}  # fmt: skip
STRICT: dict[str, Any] = {  # which http.client takes
    "no length": raw("", TURN),
    "two lengths": raw("Content-Length: 5\r\nContent-Length: 29\r\n", TURN),
    "a length and chunks": raw(f"Transfer-Encoding: chunked\r\nContent-Length: {len(TURN)}\r\n", TURN),
    "another coding": raw(f"Transfer-Encoding: gzip\r\nContent-Length: {len(TURN)}\r\n", TURN),
    "a length that is none": raw("Content-Length: +29\r\n", TURN),
    "a chunk that is none": raw("Transfer-Encoding: chunked\r\n", f"0x1d\r\n{TURN}\r\n0\r\n\r\n"),
    "a chunk that does not end": raw("Transfer-Encoding: chunked\r\n", f"1d\r\n{TURN}xx0\r\n\r\n"),
    "an old HTTP": raw(f"Content-Length: {len(TURN)}\r\n", TURN, "HTTP/1.0 200 OK"),
    "an answer in between": Raw(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
}
GOOD: dict[str, Any] = {
    "chunks": raw("Transfer-Encoding: chunked\r\n", CHUNKS),
    "other cases": Raw(f"HTTP/1.1 200\r\ncontent-length:{len(TURN)}\r\ncontent-type:x/y\r\n\r\n{TURN}".encode()),
}  # fmt: skip


class Hostile(unittest.TestCase):
    def setUp(self) -> None:
        self.server = FakeServer()
        self.clients: list[Any] = [
            Fleetpace(self.server.url, timeout=0.5, poll=0.1, patience=0.01),
            Facade(self.server.url, timeout=0.5, poll=0.1, patience=0.01),
        ]

    def tearDown(self) -> None:
        for client in self.clients:
            client.close()
        self.server.stop()

    def check(self, client: Any, name: str, answer: Any, error: type[Exception]) -> None:
        with self.subTest(name, client=type(client).__name__):
            self.server.script["/v1/wait"].extend([answer] * 3)
            began = time.monotonic()
            with self.assertRaises(FleetpaceError) as caught:
                client.limiter("openai").wait()
            self.server.script["/v1/wait"].clear()
            self.assertIs(type(caught.exception), error, caught.exception)
            self.assertLess(len(str(caught.exception)), 600)
            self.assertLess(time.monotonic() - began, 4)

    def test_a_server_that_is_away(self) -> None:
        for client in self.clients:
            for name, answer in AWAY.items():
                self.check(client, name, answer, Unavailable)

    def test_a_server_that_is_none_of_ours(self) -> None:
        for client in self.clients:
            for name, answer in STRANGE.items():
                self.check(client, name, answer, FleetpaceError)

    def test_what_is_not_quite_http(self) -> None:
        for name, answer in STRICT.items():
            self.check(self.clients[1], name, answer, FleetpaceError)

    def test_what_is_unusual_and_right(self) -> None:
        for client in self.clients:
            for name, answer in GOOD.items():
                with self.subTest(name):
                    self.server.script["/v1/wait"].append(answer)
                    self.assertEqual(client.limiter("openai").wait().id, "t")

    def test_after_a_hostile_answer_the_next_one_is_right(self) -> None:
        for client in self.clients:
            for answer in [*STRANGE.values(), GOOD["chunks"]]:
                self.server.script["/v1/wait"].append(answer)
                with contextlib.suppress(FleetpaceError):
                    client.limiter("openai").wait()
                self.assertRegex(client.limiter("openai").wait().id, "^turn-")

    def test_a_wait_that_is_told_to_ask_at_once_for_ever_does_not_spin(self) -> None:
        for client in self.clients:
            again = Reply(202, {"id": "p", "forecast_ms": 0, "retry_after_ms": -1e300})
            self.server.script["/v1/wait"].extend([again] * 10_000)
            before = len(self.server.seen)
            with self.assertRaises(FleetpaceError):
                client.limiter("openai").wait(max_wait=0.3)
            self.assertLess(len(self.server.seen) - before, 40)
            self.server.script["/v1/wait"].clear()


if __name__ == "__main__":
    unittest.main()
