"""A caller that goes away: what becomes of its connection, its place and its slots."""

import asyncio
import multiprocessing
import threading
import time
import unittest
from typing import Any
from unittest import mock

from fleetpace import AsyncFleetpace, Fleetpace, TooLate

from .fake import FakeServer, Hang, Reply

LATER = Reply(202, {"id": "place-1", "forecast_ms": 60000, "retry_after_ms": 60000})


def heard(server: FakeServer, path: str) -> list[dict[str, Any]]:
    """What the server hears at a path, within 10 seconds."""
    end = time.monotonic() + 10
    while not server.bodies(path) and time.monotonic() < end:
        time.sleep(0.01)
    return server.bodies(path)


async def booked(client: AsyncFleetpace) -> None:
    """Waits until the client has read a response, and sleeps before it asks again."""
    end = time.monotonic() + 10
    while not client._idle:
        assert time.monotonic() < end, "no response in 10 s"
        await asyncio.sleep(0.01)
    for _ in range(10):
        await asyncio.sleep(0)


class Cancelled(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = FakeServer()
        self.client = AsyncFleetpace(self.server.url)
        self.limiter = self.client.limiter("openai")

    async def asyncTearDown(self) -> None:
        await self.client.aclose()
        await asyncio.to_thread(self.server.stop)
        self.assertEqual(self.server.violations, [])

    async def test_a_cancelled_wait_hangs_up(self) -> None:
        hang = Hang()
        self.server.script["/v1/wait"].append(hang)
        task = asyncio.create_task(self.limiter.wait())
        await asyncio.to_thread(hang.began.wait, 5)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(await asyncio.to_thread(hang.hung_up.wait, 2))
        self.assertEqual(self.server.bodies("/v1/leave"), [])
        await self.limiter.wait()

    async def test_a_timeout_hangs_up(self) -> None:
        hang = Hang()
        self.server.script["/v1/wait"].append(hang)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.limiter.wait(), 0.2)
        self.assertTrue(await asyncio.to_thread(hang.hung_up.wait, 2))

    async def test_a_cancelled_wait_gives_up_the_place_that_the_server_keeps(self) -> None:
        hang = Hang()
        polls: list[list[Reply | Hang]] = [[LATER], [Reply(202, LATER.body | {"retry_after_ms": 0}), hang]]
        for answers in polls:
            self.server.script["/v1/wait"].extend(answers)
            task = asyncio.create_task(self.limiter.wait())
            await (booked(self.client) if answers == [LATER] else asyncio.to_thread(hang.began.wait, 10))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            left = await asyncio.to_thread(heard, self.server, "/v1/leave")
            self.assertEqual(left[-1], {"limits": [{"name": "openai", "cost": 1}], "id": "place-1"})
            self.server.seen.clear()

    async def test_a_cancelled_wait_with_an_id_keeps_its_place(self) -> None:
        self.server.script["/v1/wait"].append(Reply(202, LATER.body | {"id": "job-17"}))
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.limiter.wait(id="job-17"), 0.2)
        await asyncio.sleep(0.1)
        self.assertEqual(self.server.bodies("/v1/leave"), [])

    async def test_closing_waits_for_a_place_to_be_given_up(self) -> None:
        self.server.script["/v1/wait"].append(LATER)
        task = asyncio.create_task(self.limiter.wait())
        await booked(self.client)
        task.cancel()
        await asyncio.sleep(0)
        await self.client.aclose()
        self.assertEqual(len(self.server.bodies("/v1/leave")), 1)

    async def test_a_cancelled_block_releases_its_slots(self) -> None:
        self.server.lease_ms = 5000
        began = asyncio.Event()

        async def call() -> None:
            async with self.limiter.turn():
                began.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(call())
        await began.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(self.server.bodies("/v1/release"), [{"turn": "turn-1"}])

    async def test_slots_are_released_although_the_release_is_cancelled(self) -> None:
        self.server.lease_ms = 5000

        releasing = threading.Event()

        def slowly(_: object) -> Reply:
            releasing.set()
            time.sleep(0.3)
            return Reply(204)

        self.server.script["/v1/release"].append(slowly)

        async def call() -> None:
            async with self.limiter.turn():
                pass

        task = asyncio.create_task(call())
        await asyncio.to_thread(releasing.wait, 10)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.client.aclose()
        self.assertEqual(self.server.bodies("/v1/release"), [{"turn": "turn-1"}])

    async def test_many_wait_at_a_time(self) -> None:
        turns = await asyncio.gather(*[self.limiter.wait() for _ in range(100)])
        self.assertEqual(len({turn.id for turn in turns}), 100)

    async def test_nothing_is_left_running(self) -> None:
        self.server.lease_ms = 100
        async with self.limiter.turn():
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.05)
        self.assertEqual(len(asyncio.all_tasks()), 1)


class Loops(unittest.TestCase):
    def test_a_client_is_of_use_in_a_second_loop(self) -> None:
        server = FakeServer()
        client = AsyncFleetpace(server.url)

        async def call() -> None:
            await client.limiter("openai").wait()
            for stream in client._idle:  # so that nothing is left open in a loop that ends
                stream[1].close()

        asyncio.run(call())
        asyncio.run(call())
        self.assertEqual(server.connections, 2)
        server.stop()


class Interrupted(unittest.TestCase):
    def setUp(self) -> None:
        self.server = FakeServer()
        self.client = Fleetpace(self.server.url)
        self.addCleanup(self.server.stop)
        self.addCleanup(self.client.close)

    def test_ctrl_c_gives_up_the_place_that_the_server_keeps(self) -> None:
        self.server.script["/v1/wait"].append(LATER)
        with mock.patch("time.sleep", side_effect=KeyboardInterrupt):
            client = Fleetpace(self.server.url)
            run = mock.patch.object(client, "run", lambda steps: Fleetpace.run(client, steps, time.sleep))
            with run, self.assertRaises(KeyboardInterrupt):
                client.limiter("openai").wait()
            client.close()
        self.assertEqual([body["id"] for body in self.server.bodies("/v1/leave")], ["place-1"])

    def test_ctrl_c_hangs_up(self) -> None:
        hang = Hang()
        self.server.script["/v1/wait"].append(hang)
        interrupt = mock.patch("http.client.HTTPConnection.getresponse", side_effect=KeyboardInterrupt)
        with interrupt, self.assertRaises(KeyboardInterrupt):
            self.client.limiter("openai").wait()
        self.assertTrue(hang.hung_up.wait(1))

    def test_ctrl_c_in_a_block_releases_its_slots(self) -> None:
        self.server.lease_ms = 5000
        with self.assertRaises(KeyboardInterrupt), self.client.limiter("slots").turn():
            raise KeyboardInterrupt
        self.assertEqual(len(self.server.bodies("/v1/release")), 1)
        time.sleep(0.05)
        self.assertNotIn("fleetpace-renew", [thread.name for thread in threading.enumerate()])

    def test_a_forked_process_has_connections_of_its_own(self) -> None:
        self.client.limiter("openai").wait()
        child = multiprocessing.get_context("fork").Process(target=self.client.limiter("openai").wait)
        child.start()
        child.join(10)
        self.client.limiter("openai").wait()
        self.assertEqual((child.exitcode, self.server.connections), (0, 2))

    def test_too_late_is_no_interrupt(self) -> None:
        self.server.script["/v1/wait"].append(Reply(429, {"detail": "x"}, {"Content-Type": "application/problem+json"}))
        with self.assertRaises(TooLate):
            self.client.limiter("openai").wait()
        self.assertEqual(self.server.bodies("/v1/leave"), [])


if __name__ == "__main__":
    unittest.main()
