"""The client and the real server: FLEETPACE_BIN is the path of the fleetpace command, FLEETPACE_REDIS_URL a Redis."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import uuid
from pathlib import Path
from typing import Any

from fleetpace import (
    Conflict,
    Fleetpace,
    InvalidRequest,
    Later,
    Limit,
    TooLate,
    Unauthorized,
    Unavailable,
    UnknownLimit,
    protocol,
)

from .facade import Facade

BIN, REDIS = os.environ.get("FLEETPACE_BIN", ""), os.environ.get("FLEETPACE_REDIS_URL", "")

LIMITS = """
limits:
  - {name: paced, limit: 10/s burst 5}
  - {name: slow, limit: 1/s}
  - {name: crawl, limit: 1/minute}
  - {name: slots, limit: 1 at once}
  - {name: both-rate, limit: 20/s, group: g}
  - {name: both-slots, limit: 2 at once, group: g}
  - {name: tenants, limit: 2/s, key: "{tenant}"}
  - {name: two, limit: 5/s, key: "{shop}/{user}"}
  - {name: shared, limit: 10/s, flow: "{tenant}"}
  - {name: tokens, limit: 100/s burst 100, settles: true}
  - {name: hourly, limit: 1000/hour quota}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A fleetpace serve with limits of its own."""

    def __init__(self, folder: str, listen: str, prefix: str, token: str = "", poll: str = "1s") -> None:
        self.listen = listen
        self.url = listen if listen.startswith("unix:") else f"http://{listen}"
        limits = Path(folder) / "limits.yaml"
        limits.write_text(LIMITS)
        command = [BIN, "serve", "--redis", REDIS, "--limits", str(limits), "--listen", listen, "--prefix", prefix]
        command += ["--poll", poll, "--lease", "1500ms", "--grace", "2s"]
        self.process = subprocess.Popen(
            command, env=os.environ | {"FLEETPACE_TOKEN": token}, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        if "turns are at" not in first:
            self.stop()
            raise RuntimeError(f"fleetpace serve: {first}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(10)
        if self.process.stderr is not None:
            with contextlib.suppress(ValueError):
                self.process.stderr.close()


@unittest.skipUnless(
    BIN and REDIS, "FLEETPACE_BIN and FLEETPACE_REDIS_URL are not set: there is no server to test with"
)
class Served(unittest.TestCase):
    """Both clients, over both kinds of address."""

    folder: tempfile.TemporaryDirectory[str]

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="fleetpace-")
        self.addCleanup(self.folder.cleanup)
        self.prefix = f"fleetpace-py-{uuid.uuid4().hex[:12]}"
        self.servers: list[Server] = []
        self.opened: list[Any] = []
        self.addCleanup(self.stop)

    def stop(self) -> None:
        for client in self.opened:
            client.close()
        for server in self.servers:
            server.stop()

    def serve(self, listen: str = "", token: str = "", poll: str = "1s") -> Server:
        self.servers.append(Server(self.folder.name, listen or f"127.0.0.1:{free_port()}", self.prefix, token, poll))
        return self.servers[-1]

    def open(self, kind: Any, url: str, **options: Any) -> Any:
        self.opened.append(kind(url, **options))
        return self.opened[-1]

    def clients(self) -> list[Any]:
        """A client of each kind at each address; the limits are the same."""
        tcp, unix = self.serve(), self.serve(f"unix:{self.folder.name}/s.sock")
        return [self.open(kind, server.url) for kind in (Fleetpace, Facade) for server in (tcp, unix)]

    def test_turns_come_in_the_order_of_their_requests(self) -> None:
        clients = self.clients()
        order: list[int] = []
        clients[0].limiter("slow").wait()

        def call(i: int) -> None:
            clients[i % 4].limiter("slow").wait()
            order.append(i)

        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
            time.sleep(0.3)  # also on a busy machine the requests arrive in this order
        for thread in threads:
            thread.join(20)
        self.assertEqual(order, [0, 1, 2, 3])
        self.assertTrue(3.5 < time.monotonic() - began < 6, time.monotonic() - began)

    def test_the_limit_holds_for_all_clients_together(self) -> None:
        clients = self.clients()
        times: list[float] = []

        def call(client: Any) -> None:
            for _ in range(5):
                client.limiter("paced").wait()
                times.append(time.monotonic())

        threads = [threading.Thread(target=call, args=(client,)) for client in clients for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(times), 40)
        times.sort()
        self.assertGreater(times[-1] - times[0], (40 - 5 - 1) / 10)
        self.assertLess(times[-1] - times[0], 6)

    def test_too_late(self) -> None:
        for client in self.clients():
            limiter = client.limiter("crawl")
            with contextlib.suppress(TooLate):  # the first client has the only permit
                limiter.wait(max_wait=1)
            began = time.monotonic()
            with self.assertRaisesRegex(TooLate, "turn would come in") as caught:
                limiter.wait(max_wait=5)
            self.assertTrue(50 < caught.exception.retry_after <= 61, caught.exception.retry_after)
            self.assertLess(time.monotonic() - began, 1)
            for _ in range(20):  # the server leaves its place just after the response
                if not client.state("crawl").waiting:
                    break
                time.sleep(0.05)
            self.assertEqual(client.state("crawl").waiting, 0)

    def test_max_wait_of_nothing_takes_what_is_there(self) -> None:
        for client in self.clients():
            client.limiter("tenants", key=uuid.uuid4().hex).wait(max_wait=0)

    def test_a_wait_of_several_polls(self) -> None:
        for client in self.clients():
            limiter = client.limiter("tenants", key=uuid.uuid4().hex)
            limiter.wait()
            limiter.pause(3, "test")
            began = time.monotonic()
            limiter.wait(max_wait=8)
            self.assertTrue(2.9 < time.monotonic() - began < 5, time.monotonic() - began)

    def test_a_booking_far_away_is_given_up(self) -> None:
        for client in self.clients():
            limiter = client.limiter("crawl")
            with contextlib.suppress(TooLate):
                limiter.wait(max_wait=1)
        [*_, last] = self.opened

        async def cancelled() -> None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(last.client.limiter("crawl").wait(), 0.5)
            await asyncio.gather(*last.client._finishing)

        last.loop.do(cancelled())
        state = last.state("crawl")
        self.assertEqual((state.waiting, state.booked), (0, 0))

    def test_a_booked_call_has_its_turn_at_any_server(self) -> None:
        limiters = [client.limiter("slow") for client in self.clients()]
        self.assertTrue(limiters[0].ask("job-1", poll=5))
        booked = [limiter.ask("job-2") for limiter in limiters]  # each asks for the same place
        self.assertEqual([type(later) for later in booked], [Later] * 4)
        self.assertTrue(all(0 < later.retry_after <= later.forecast for later in booked), booked)
        self.assertTrue(limiters[1].ask("job-2", poll=5))
        limiters[2].ask("job-3")
        limiters[3].leave("job-3")
        self.assertEqual(self.opened[0].state("slow").booked, 0)

    def test_a_caller_that_hangs_up_gives_its_place_to_the_next(self) -> None:
        client = self.open(Facade, self.serve().url)
        limiter = client.limiter("slow")
        limiter.wait()

        async def hang_up() -> float:
            first = asyncio.create_task(client.client.limiter("slow").wait())
            await asyncio.sleep(0.1)
            second = asyncio.create_task(client.client.limiter("slow").wait())
            await asyncio.sleep(0.1)
            first.cancel()
            began = time.monotonic()
            await second
            return time.monotonic() - began

        self.assertLess(client.loop.do(hang_up()), 1.3)

    def test_slots_are_held_as_long_as_the_block_runs(self) -> None:
        one, other, *_ = self.clients()
        with one.limiter("slots").turn() as turn:
            with self.assertRaises(TooLate):
                other.limiter("slots").wait(max_wait=0.2)
            time.sleep(3)  # two leases
            self.assertFalse(turn.lost.is_set())
            [holder] = one.state("slots").holders
            self.assertEqual(holder.slots, 1)
        began = time.monotonic()
        with other.limiter("slots").turn():
            self.assertLess(time.monotonic() - began, 2)

    def test_slots_of_all_clients(self) -> None:
        for client in self.clients():
            for _ in range(3):
                with client.limiter("slots").turn(max_wait=10):
                    pass

    def test_slots_that_somebody_else_released_are_lost(self) -> None:
        server = self.serve()
        for kind in (Fleetpace, Facade):
            client = self.open(kind, server.url)
            with client.limiter("slots").turn() as turn:
                other = self.open(Fleetpace, server.url)
                other.run(protocol.release(turn.id))
                self.assertTrue(turn.lost.wait(3))

    def test_slots_are_lost_with_the_server(self) -> None:
        for kind in (Fleetpace, Facade):
            server = self.serve()
            client = self.open(kind, server.url)
            with client.limiter("slots").turn() as turn:
                while client.state("slots").processes < 1:  # its heartbeat, so that others notice that it is gone
                    time.sleep(0.05)
                server.stop(signal.SIGKILL)
                self.assertTrue(turn.lost.wait(3))

    def test_a_rate_and_slots_at_once(self) -> None:
        for client in self.clients():
            limiter = client.limiter("both-rate", "both-slots")
            with limiter.turn(), limiter.turn(), self.assertRaises(TooLate):
                limiter.wait(max_wait=0.3)

    def test_wait_is_not_for_slots(self) -> None:
        for client in self.clients():
            with self.assertRaisesRegex(InvalidRequest, r"turn\(\)"):
                client.limiter("slots").wait()
            with client.limiter("slots").turn(max_wait=1):
                pass

    def test_allow(self) -> None:
        for client in self.clients():
            limiter = client.limiter("tenants", key=uuid.uuid4().hex)
            self.assertTrue(limiter.allow())
            refused = limiter.allow()
            self.assertFalse(refused)
            self.assertTrue(0 < refused.retry_after <= 0.5, refused)
            self.assertEqual(refused.limit, "2/s")

    def test_allow_ahead(self) -> None:
        for client in self.clients():
            ahead = client.limiter("tokens").allow(ahead=20)
            self.assertEqual((ahead.allowed, ahead.taken), (True, 20))
            self.assertTrue(ahead.valid is not None and ahead.valid > 0, ahead)
            quota = client.limiter("hourly").allow(ahead=100)
            self.assertEqual(quota.taken, 100)
            with self.assertRaises(InvalidRequest) as caught:
                client.limiter("both-rate", "both-slots").allow(ahead=2)
            self.assertEqual(caught.exception.field, "ahead")

    def test_pause_and_resume(self) -> None:
        clients = self.clients()
        clients[0].limiter("paced").pause(60, "the API said so")
        for client in clients:
            state = client.state("paced")
            self.assertTrue(50 < state.paused <= 60)
            self.assertEqual(state.pause_reason, "the API said so")
            with self.assertRaises(TooLate) as caught:
                client.limiter("paced").wait(max_wait=1)
            self.assertGreater(caught.exception.retry_after, 50)
            self.assertFalse(client.limiter("paced").allow())
        for client in clients:
            client.limiter("paced").resume()
            client.limiter("paced").wait(max_wait=1)

    def test_a_resume_ends_the_wait_of_who_waits(self) -> None:
        server = self.serve(poll="25s")
        for kind in (Fleetpace, Facade):
            limiter = self.open(kind, server.url).limiter("paced")
            limiter.pause(20)
            timer = threading.Timer(0.5, limiter.resume)
            timer.start()
            self.assertLess(limiter.wait().waited, 3)
            timer.join()

    def test_a_limit_with_shares(self) -> None:
        for client in self.clients():
            limiter = client.limiter("shared", flow="acme")
            limiter.wait(id="job-17")
            with self.subTest("pause"):
                limiter.pause(0.2, "test")
                limiter.resume()
            with self.subTest("leave"):
                client.run(protocol.ask("/v1/leave", {"limits": [{"name": "shared"}], "id": "job-18"}))

    def test_keys(self) -> None:
        for client in self.clients():
            client.limiter(Limit("two", key={"shop": "a/b", "user": "ü"})).wait()
            with self.assertRaises(InvalidRequest) as caught:
                client.limiter("two", key="a").wait()
            self.assertEqual(caught.exception.field, "limits[0].key")
            client.limiter("tenants", key="a b&c").wait()
            self.assertIn("tenants", client.state("tenants", key="a b&c").name)

    def test_what_settles(self) -> None:
        for client in self.clients():
            with client.limiter("tokens", cost=50).turn() as turn:
                turn.settle(5)
                turn.settle(5)  # counts once

    def test_limits_and_errors(self) -> None:
        for client in self.clients():
            listed = {about.name: about for about in client.limits()}
            self.assertEqual((listed["two"].limit, listed["two"].key), ("5/s", "{shop}/{user}"))
            with self.assertRaisesRegex(UnknownLimit, "opnai"):
                client.limiter("opnai").wait()
            with self.assertRaises(UnknownLimit):
                client.state("opnai")
            with self.assertRaises(InvalidRequest) as caught:
                client.limiter("paced", cost=6).wait()
            self.assertEqual((caught.exception.field, caught.exception.value), ("limits[0].cost", 6))
            with self.assertRaises(InvalidRequest):
                client.limiter("paced", flow="x" * 70_000).wait()

    def test_ids(self) -> None:
        for client in self.clients():
            limiter, id = client.limiter("tenants", key=uuid.uuid4().hex), uuid.uuid4().hex
            limiter.wait(id=uuid.uuid4().hex)
            errors: list[BaseException] = []

            def first(limiter: Any = limiter, id: str = id, errors: list[BaseException] = errors) -> None:
                try:
                    limiter.wait(id=id)
                except Conflict as error:
                    errors.append(error)

            limiter.pause(1)
            thread = threading.Thread(target=first)
            thread.start()
            time.sleep(0.3)
            limiter.wait(id=id)
            thread.join(10)
            self.assertEqual(len(errors), 1)

    def test_a_token(self) -> None:
        server = self.serve(token="s3cret")
        for kind in (Fleetpace, Facade):
            with self.assertRaises(Unauthorized):
                self.open(kind, server.url).limits()
            self.open(kind, server.url, token="s3cret").limits()

    def test_a_server_that_is_replaced_while_calls_wait(self) -> None:
        for kind in (Fleetpace, Facade):
            for how in (signal.SIGTERM, signal.SIGKILL):
                with self.subTest(kind.__name__, how=how):
                    server = self.serve()
                    client = self.open(kind, server.url)
                    limiter = client.limiter("tenants", key=uuid.uuid4().hex)
                    limiter.wait()
                    limiter.pause(2.5)
                    errors: list[BaseException] = []

                    def call(limiter: Any = limiter, errors: list[BaseException] = errors) -> None:
                        try:
                            limiter.wait(id=uuid.uuid4().hex)
                            limiter.wait()
                        except BaseException as error:
                            errors.append(error)

                    thread = threading.Thread(target=call)
                    thread.start()
                    time.sleep(0.5)
                    server.stop(how)
                    with self.assertRaises(Unavailable):
                        client.limits()
                    time.sleep(0.3)
                    self.serve(server.listen)
                    thread.join(20)
                    self.assertFalse(thread.is_alive())
                    self.assertEqual(errors, [])


if __name__ == "__main__":
    unittest.main()
