"""What both clients do, over TCP and a Unix socket: each test runs four times."""

import math
import os
import threading
import time
import unittest
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from fleetpace import (
    Allowed,
    Conflict,
    Exhausted,
    Fleetpace,
    FleetpaceError,
    Holder,
    InvalidRequest,
    Later,
    Limit,
    LimitInfo,
    TooLate,
    Unauthorized,
    Unavailable,
    UnknownLimit,
    UnknownTurn,
)
from fleetpace.protocol import Request

from .facade import Facade
from .fake import DROP, FakeServer, Hang, Reply, Seen, problem

if TYPE_CHECKING:
    Case = unittest.TestCase
else:
    Case = object  # no test by itself


def later(seconds: float = 0.0, forecast: float = 0.0, id: str = "place-1") -> Reply:
    body = {"id": id, "forecast_ms": forecast * 1000, "retry_after_ms": seconds * 1000, "held_by": "tokens"}
    return Reply(202, body, {"Retry-After": str(math.ceil(seconds))})


class Contract(Case):
    """The tests; the classes below say of what."""

    client_type: Any
    unix = False

    def setUp(self) -> None:
        self.server = FakeServer(unix=self.unix)
        self.client = self.client_type(self.server.url, timeout=5, patience=5)
        self.violations = 0

    def tearDown(self) -> None:
        self.client.close()
        self.server.stop()
        self.assertEqual(len(self.server.violations), self.violations, self.server.violations)

    def script(self, path: str, *answers: Any) -> None:
        self.server.script[path].extend(answers)

    def waits(self) -> list[dict[str, Any]]:
        return self.server.bodies("/v1/wait")

    # Turns that come too late

    def given(self, turn: str, usable: float, after: float = 0.0, due: float = 0.0, id: str | None = "place-1") -> Any:
        """An answer that says that the server held the request for no time."""

        def answer(_: Seen) -> Reply:
            time.sleep(after)
            times = {"waited_ms": 0, "held_ms": 0, "due_ms": due * 1000, "usable_ms": usable * 1000}
            return Reply(200, {"turn": turn, **times} | ({"id": id} if id else {}))

        return answer

    def test_a_turn_that_comes_too_late_is_handed_back(self) -> None:
        for id in (None, "job-17"):
            self.server.seen.clear()
            place = id or "place-1"
            self.script("/v1/wait", self.given("a", 0.1, after=0.3, id=place), self.given("b", 60, id=place))
            self.assertEqual(self.client.limiter("openai").wait(id=id).id, "b")
            first, second = self.waits()
            self.assertNotIn("late", first)
            self.assertEqual((second["late"], second["turn"], second["id"]), (True, "a", place))
            self.assertNotIn("way", second)

    def test_a_way_that_is_too_long_again_is_told(self) -> None:
        late = [self.given(turn, 0.1, after=0.3) for turn in "abc"]
        self.script("/v1/wait", *late, self.given("d", 60))
        self.client.limiter("openai").wait()
        ways = [float(body.get("way", "0s").rstrip("s")) for body in self.waits()]
        self.assertEqual(ways[:2], [0.0, 0.0])
        self.assertTrue(0.3 <= ways[2] <= ways[3] or 0.3 <= ways[3] <= ways[2], ways)

    def test_a_turn_without_an_id_that_comes_too_late_is_asked_for_anew(self) -> None:
        self.script("/v1/wait", self.given("a", 0.1, after=0.3, id=None), self.given("b", 60, id=None))
        self.assertEqual(self.client.limiter("openai").wait().id, "b")
        self.assertNotIn("late", self.waits()[1])

    def test_a_turn_that_is_due_later_is_waited_for(self) -> None:
        self.script("/v1/wait", self.given("a", 60, due=0.3))
        began = time.monotonic()
        self.client.limiter("openai").wait()
        self.assertGreaterEqual(time.monotonic() - began, 0.3)

    def test_an_answer_that_was_lost_is_as_one_that_was_late(self) -> None:
        self.script("/v1/wait", DROP, self.given("b", 60))
        self.client.limiter("openai").wait(id="job-17")
        self.assertEqual([body.get("late") for body in self.waits()], [None, True])
        self.assertNotIn("turn", self.waits()[1])

    def test_a_request_names_those_before_it_that_had_no_response(self) -> None:
        self.script("/v1/wait", DROP, problem(503, "down", {"Retry-After": "0"}), later())
        self.client.limiter("slots").wait()
        names = [seen.headers["fleetpace-attempt"].split(" ") for seen in self.server.seen]
        self.assertEqual([some[1:] for some in names], [[], names[0], names[1], []])
        self.assertEqual(len({some[0] for some in names}), 4)

    # Booking

    def test_a_call_that_is_booked_asks_again_when_the_answer_says(self) -> None:
        limiter = self.client.limiter("openai", cost=2)
        self.script("/v1/wait", later(30, forecast=40, id="job-17"))
        booked = limiter.ask("job-17")
        self.assertFalse(booked)
        self.assertEqual((type(booked), booked.retry_after, booked.forecast, booked.held_by), (Later, 30, 40, "tokens"))
        turn = limiter.ask("job-17", poll=2)
        self.assertTrue(turn)
        self.assertEqual([(body["id"], body["poll"]) for body in self.waits()], [("job-17", "0.000s"), ("job-17", "2.000s")])
        limiter.leave("job-17")
        left = {"limits": [{"name": "openai", "cost": 2}], "id": "job-17"}
        self.assertEqual(self.server.bodies("/v1/leave"), [left])

    def test_a_turn_that_was_asked_for_and_comes_too_late_is_handed_back(self) -> None:
        self.script("/v1/wait", self.given("a", 0.1, after=0.3, id="job-17"), later(5, id="job-17"))
        self.assertEqual(self.client.limiter("openai").ask("job-17").retry_after, 5)
        second = self.waits()[1]
        self.assertEqual((second["late"], second["turn"], second["id"], second["poll"]), (True, "a", "job-17", "0.000s"))

    def test_a_turn_that_was_asked_for_renews_and_releases_its_slots(self) -> None:
        self.server.lease_ms = 3000
        with self.client.limiter("slots").ask("job-17") as turn:
            while not self.server.bodies("/v1/renew"):  # after a third of the lease
                time.sleep(0.02)
            self.assertFalse(turn.lost.is_set())
        self.assertEqual(self.server.bodies("/v1/renew")[:1], [{"turn": turn.id}])
        self.assertEqual(self.server.bodies("/v1/release"), [{"turn": turn.id}])

    # Waiting

    def test_a_turn_of_one_limit(self) -> None:
        with self.client.limiter("openai").turn() as turn:
            self.assertEqual((turn.id, turn.lost.is_set()), ("turn-1", False))
        self.assertEqual(self.waits(), [{"limits": [{"name": "openai", "cost": 1}], "poll": "25.000s"}])
        self.assertEqual([seen.path for seen in self.server.seen], ["/v1/wait"])  # there is nothing to release

    def test_the_caller_names_its_host_and_process(self) -> None:
        self.client.limiter("api").wait()
        caller = self.server.seen[-1].headers["fleetpace-caller"]
        self.assertRegex(caller, rf"^[!-~]+/{os.getpid()}$")

    def test_a_turn_of_several_limits_with_all_options(self) -> None:
        limiter = self.client.limiter(
            Limit("requests"), Limit("tokens", key={"org": "a", "model": "b"}, cost=1200), "day",
            key="acme", cost=2, flow="acme", weight=2.5, urgent=True,
        )  # fmt: skip
        limiter.wait((1, 900, 3), max_wait=30, id="job-17")
        body = self.waits()[0]
        self.assertEqual(
            body["limits"],
            [
                {"name": "requests", "cost": 1},
                {"name": "tokens", "key": {"org": "a", "model": "b"}, "cost": 900},
                {"name": "day", "key": "acme", "cost": 3},
            ],
        )
        del body["limits"], body["poll"]
        options = {"flow": "acme", "weight": 2.5, "urgent": True, "max_wait": "30.000s", "id": "job-17"}
        self.assertEqual(body, options)

    def test_share_is_the_earlier_name_of_flow(self) -> None:
        with self.assertWarnsRegex(DeprecationWarning, "use flow"):
            self.client.limiter("api", share="acme").wait()
        self.assertEqual(self.waits()[0]["flow"], "acme")
        with self.assertRaisesRegex(FleetpaceError, "earlier name of flow"):
            self.client.limiter("api", flow="acme", share="acme")

    def test_a_cost_for_the_only_limit(self) -> None:
        self.client.limiter("tokens", cost=5).wait(7)
        self.client.limiter("tokens", cost=5).wait()
        self.assertEqual([body["limits"][0]["cost"] for body in self.waits()], [7, 5])

    def test_it_asks_again_with_the_id_after_the_time_that_the_answer_says(self) -> None:
        self.script("/v1/wait", later(0.2), later(0.0))
        began = time.monotonic()
        turn = self.client.limiter("openai", flow="acme").wait()
        self.assertTrue(0.2 < turn.waited <= time.monotonic() - began)
        first, second, third = self.waits()
        self.assertNotIn("id", first)
        self.assertEqual(second, first | {"id": "place-1"})
        self.assertEqual(third, second)

    def test_it_keeps_the_id_of_the_caller(self) -> None:
        self.script("/v1/wait", later(id="job-17"))
        self.client.limiter("openai").wait(id="job-17")
        self.assertEqual([body["id"] for body in self.waits()], ["job-17", "job-17"])

    def test_max_wait_is_the_same_under_an_id_and_the_poll_ends_with_it(self) -> None:
        self.script("/v1/wait", later(0.3))
        self.client.limiter("openai").wait(max_wait=2)
        first, second = self.waits()
        self.assertEqual(second["max_wait"], "2.000s")
        self.assertLessEqual(float(second["poll"][:-1]), 1.7)
        self.assertLessEqual(float(first["poll"][:-1]), 2)

    def test_too_late(self) -> None:
        self.script("/v1/wait", problem(429, "The turn would come in 48s.", {"Retry-After": "48"}))
        with self.assertRaisesRegex(TooLate, "48s") as caught, self.client.limiter("openai").turn(max_wait=10):
            self.fail("there was a turn")
        self.assertEqual(caught.exception.retry_after, 48)

    def test_a_hard_stop(self) -> None:
        ends = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
        for until, end in (("2030-01-02T03:04:05Z", ends), (None, None), ("soon", None)):
            about = {"scope": "llm/openai", "reason": "no credit"} | ({"until": until} if until else {})
            stop = problem(429, "the limit is stopped", {"Retry-After": "300"}, **about)
            self.script("/v1/wait", later(0.01), stop)
            with self.assertRaisesRegex(Exhausted, "the limit is stopped") as caught:
                self.client.limiter("openai").wait(max_wait=10)
            error = caught.exception
            self.assertEqual((error.scope, error.reason, error.until), ("llm/openai", "no credit", end))
            self.assertEqual(error.retry_after, 300)
            self.assertIsInstance(error, TooLate)

    def test_a_caller_that_does_not_wait_learns_of_a_stop(self) -> None:
        ends = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
        for until, end in (("2030-01-02T03:04:05Z", ends), (None, None)):
            about = {"scope": "llm/openai", "reason": "no credit"} | ({"until": until} if until else {})
            refused = {"allowed": False, "taken": 0, "limit": "10/s", "retry_after": 300.0, **about}
            self.script("/v1/allow", Reply(429, refused))
            self.script("/v1/wait", Reply(202, {"id": "i", "forecast_ms": 1.0, "retry_after_ms": 1.0, **about}))
            limiter = self.client.limiter("openai")
            for told in (limiter.allow(), limiter.ask("i")):
                assert isinstance(told, (Allowed, Later))
                self.assertFalse(told)
                self.assertEqual((told.scope, told.reason, told.until), ("llm/openai", "no credit", end))

    def test_too_late_by_the_forecast_leaves(self) -> None:
        self.script("/v1/wait", later(20, forecast=40))
        began = time.monotonic()
        with self.assertRaisesRegex(TooLate, "tokens") as caught:
            self.client.limiter("openai", cost=2).wait(max_wait=10)
        self.assertEqual(caught.exception.retry_after, 40)
        self.assertLess(time.monotonic() - began, 5)
        left = {"limits": [{"name": "openai", "cost": 2}], "id": "place-1"}
        self.assertEqual(self.server.bodies("/v1/leave"), [left])

    def test_too_late_after_the_last_poll_leaves(self) -> None:
        def slowly(seen: Seen) -> Reply:
            time.sleep(float(seen.body["poll"][:-1]))
            return later(id="job-17")

        self.script("/v1/wait", slowly)
        with self.assertRaises(TooLate):
            self.client.limiter("openai").wait(max_wait=0.2, id="job-17")
        self.assertEqual(self.server.bodies("/v1/leave")[0]["id"], "job-17")

    def test_a_conflict(self) -> None:
        self.script("/v1/wait", problem(409, "Another request waits under the same id now."))
        with self.assertRaisesRegex(Conflict, "same id"):
            self.client.limiter("openai").wait(id="job-17")

    def test_an_unknown_limit(self) -> None:
        self.script("/v1/wait", problem(404, 'no limit is named "opnai"', field="limits[0].name"))
        with self.assertRaisesRegex(UnknownLimit, "opnai"):
            self.client.limiter("opnai").wait()

    def test_an_invalid_request_names_the_field_and_the_value(self) -> None:
        self.script("/v1/wait", problem(400, "must be at most 5, got 7", field="limits[0].cost", value=7))
        with self.assertRaisesRegex(InvalidRequest, r"limits\[0\].cost: must be at most 5, got 7 \(it was 7\)") as it:
            self.client.limiter("openai").wait(7)
        self.assertEqual((it.exception.field, it.exception.value), ("limits[0].cost", 7))

    def test_what_can_not_be_sent(self) -> None:
        limiter = self.client.limiter("requests", "tokens")
        cases: list[tuple[str, object, Any]] = [
            ("cost", 5, lambda: limiter.wait(5)),
            ("cost", (1, 2, 3), lambda: limiter.wait((1, 2, 3))),
            ("max_wait", -1, lambda: limiter.wait(max_wait=-1)),
            ("max_wait", math.inf, lambda: limiter.wait(max_wait=math.inf)),
            ("seconds", -3, lambda: limiter.pause(-3)),
            ("body", None, lambda: self.client.limiter("openai", weight=math.nan).wait()),
            ("body", None, lambda: self.client.limiter("openai", flow=object()).wait()),
        ]
        for field, value, call in cases:
            with self.subTest(field), self.assertRaises(InvalidRequest) as caught:
                call()
            self.assertEqual(caught.exception.field, field)
            self.assertIn(field, str(caught.exception))
            if value is not None:
                self.assertEqual(caught.exception.value, value)
        self.assertEqual(self.server.seen, [])

    def test_what_is_too_large_or_of_another_type(self) -> None:
        for status in (413, 415):
            self.script("/v1/wait", problem(status, "The body is wrong."))
            with self.assertRaisesRegex(InvalidRequest, "The body is wrong"):
                self.client.limiter("openai").wait()

    def test_a_token(self) -> None:
        self.server.token = "s3cret"
        with self.assertRaisesRegex(Unauthorized, "token"):
            self.client.limiter("openai").wait()
        client = self.client_type(self.server.url, token="s3cret")
        client.limiter("openai").wait()
        client.close()

    def test_a_token_that_is_none_and_a_url_that_is_none(self) -> None:
        for token in ("", "a b", "a\r\nX: y", "ä"):
            with self.subTest(token), self.assertRaisesRegex(InvalidRequest, "token"):
                Fleetpace(token=token)
        for url in ("localhost:9467", "ftp://x", "unix:", "http://", "http://a:b@host", "http://host/?x=1"):
            with self.subTest(url), self.assertRaisesRegex(InvalidRequest, "url"):
                Fleetpace(url)

    # A server that is away

    def test_it_waits_for_a_server_that_is_busy(self) -> None:
        busy = problem(503, "Too many requests wait at this server.", {"Retry-After": "1"})
        self.script("/v1/wait", busy)
        began = time.monotonic()
        self.client.limiter("openai").wait()
        self.assertGreater(time.monotonic() - began, 1)
        self.assertEqual(len(self.waits()), 2)

    def test_it_waits_for_a_server_behind_a_proxy(self) -> None:
        self.script(
            "/v1/wait", Reply(502, b"<html>", {"Content-Type": "text/html"}), Reply(429, b"", {"Content-Type": "x/y"})
        )
        self.client.limiter("openai").wait()
        self.assertEqual(len(self.waits()), 3)

    def test_it_asks_again_after_a_connection_that_was_lost_with_the_id_it_has(self) -> None:
        self.script("/v1/wait", later(), DROP, DROP)
        self.client.limiter("openai").wait()
        self.assertEqual([body.get("id") for body in self.waits()], [None, "place-1", "place-1", "place-1"])

    def test_without_an_id_it_is_a_new_request_with_what_is_left_of_max_wait(self) -> None:
        self.script("/v1/wait", DROP)
        self.client.limiter("openai").wait(max_wait=3)
        first, second = self.waits()
        self.assertNotIn("id", second)
        self.assertLess(float(second["max_wait"][:-1]), float(first["max_wait"][:-1]))

    def test_it_does_not_wait_for_a_server_longer_than_max_wait(self) -> None:
        self.script("/v1/wait", *[DROP] * 100)
        began = time.monotonic()
        with self.assertRaises(Unavailable):
            self.client.limiter("openai").wait(max_wait=0.6)
        self.assertTrue(0.5 < time.monotonic() - began < 2.5, time.monotonic() - began)
        self.assertGreater(len(self.waits()), 1)

    def test_it_does_not_wait_for_a_server_longer_than_its_patience(self) -> None:
        client = self.client_type(self.server.url, patience=0.5)
        self.script("/v1/wait", later(), *[DROP] * 100)
        began = time.monotonic()
        with self.assertRaises(Unavailable):
            client.limiter("openai").wait()
        self.assertTrue(0.4 < time.monotonic() - began < 2.5, time.monotonic() - began)
        client.close()

    def test_it_gives_up_at_once_where_the_server_comes_back_too_late(self) -> None:
        self.script("/v1/wait", problem(503, "Redis is away", {"Retry-After": "30"}))
        began = time.monotonic()
        with self.assertRaisesRegex(Unavailable, "Redis is away") as caught:
            self.client.limiter("openai").wait(max_wait=10)
        self.assertEqual(caught.exception.retry_after, 30)
        self.assertLess(time.monotonic() - began, 2)

    def test_other_calls_do_not_wait_for_a_server(self) -> None:
        self.script("/v1/allow", problem(503, "Redis is away", {"Retry-After": "1"}))
        with self.assertRaises(Unavailable):
            self.client.limiter("openai").allow()
        self.assertEqual(len(self.server.seen), 1)

    def test_no_answer_in_time(self) -> None:
        client, hang = self.client_type(self.server.url, timeout=0.2), Hang()
        self.script("/v1/limits", hang)
        with self.assertRaisesRegex(Unavailable, "time|within"):
            client.limits()
        self.assertTrue(hang.hung_up.wait(2))
        client.close()

    # Connections

    def test_connections_are_used_again(self) -> None:
        for _ in range(5):
            self.client.limiter("openai").wait()
        self.assertEqual(self.server.connections, 1)

    def test_a_connection_that_the_server_closed_is_replaced_at_once(self) -> None:
        limiter = self.client.limiter("openai")
        limiter.allow()
        self.server.close_connections()
        time.sleep(0.05)
        limiter.allow()  # allow does not wait for a server that is away
        self.assertEqual(self.server.connections, 2)

    def test_a_connection_that_is_closed_while_it_is_asked_is_replaced_once(self) -> None:
        limiter = self.client.limiter("openai")
        limiter.allow()
        self.script("/v1/allow", DROP)
        limiter.allow()
        self.script("/v1/allow", DROP, DROP)
        with self.assertRaises(Unavailable):
            limiter.allow()
        self.assertEqual(len(self.server.bodies("/v1/allow")), 5)

    def test_a_connection_that_the_server_is_about_to_close_is_not_used_again(self) -> None:
        body = {"allowed": True, "taken": 1, "limit": "1/s", "retry_after": 0}
        self.script("/v1/allow", Reply(200, body, {"Connection": "close"}))
        limiter = self.client.limiter("openai")
        limiter.allow()
        limiter.allow()
        self.assertEqual(self.server.connections, 2)

    def test_each_request_has_a_connection_of_its_own(self) -> None:
        barrier = threading.Barrier(5)

        def together(_: Seen) -> Reply:
            barrier.wait(10)  # all five are here at the same time
            return Reply(200, {"turn": "t", "waited_ms": 0})

        self.script("/v1/wait", *[together] * 5)
        threads = [threading.Thread(target=self.client.limiter("openai").wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        self.assertEqual(self.server.connections, 5)

    # Slots

    def test_slots_are_renewed_and_released(self) -> None:
        self.server.lease_ms = 1500
        began = time.monotonic()
        with self.client.limiter("slots").turn() as turn:
            while len(self.server.bodies("/v1/renew")) < 3 and time.monotonic() < began + 3:  # a third of the lease each
                time.sleep(0.01)
            self.assertFalse(turn.lost.is_set())
        renewed = len(self.server.bodies("/v1/renew"))
        self.assertGreaterEqual(renewed, 3)
        self.assertEqual(self.server.bodies("/v1/release"), [{"turn": "turn-1"}])
        time.sleep(2.1)  # four intervals
        self.assertEqual(len(self.server.bodies("/v1/renew")), renewed)

    def test_slots_are_released_where_the_block_fails(self) -> None:
        self.server.lease_ms = 5000
        with self.assertRaisesRegex(KeyError, "x"), self.client.limiter("slots").turn():
            raise KeyError("x")
        self.assertEqual(self.server.bodies("/v1/release"), [{"turn": "turn-1"}])

    def test_a_lease_that_the_server_ended_is_lost(self) -> None:
        self.server.lease_ms = 1500
        self.script("/v1/renew", problem(404, "no such turn", field="turn"))
        self.script("/v1/release", problem(404, "no such turn", field="turn"))
        with self.client.limiter("slots").turn() as turn:
            self.assertTrue(turn.lost.wait(10))
        self.assertEqual(len(self.server.bodies("/v1/renew")), 1)

    def test_a_lease_that_can_not_be_renewed_is_lost_when_it_is_over(self) -> None:
        self.server.lease_ms = 400
        self.script("/v1/renew", *[DROP] * 1000)
        self.script("/v1/release", DROP, DROP)
        began = time.monotonic()
        with self.client.limiter("slots").turn() as turn:
            self.assertTrue(turn.lost.wait(3))
        self.assertGreater(time.monotonic() - began, 0.39)

    def test_a_lease_outlives_a_server_that_is_away_for_a_moment(self) -> None:
        self.server.lease_ms = 2000
        self.script("/v1/renew", DROP, DROP, problem(503, "busy"))
        with self.client.limiter("slots").turn() as turn:
            while len(self.server.bodies("/v1/renew")) < 5 and not turn.lost.is_set():
                time.sleep(0.01)
            self.assertFalse(turn.lost.is_set())

    def test_slots_are_not_for_wait(self) -> None:
        self.server.lease_ms = 5000
        with self.assertRaisesRegex(InvalidRequest, r"turn\(\)"):
            self.client.limiter("slots").wait()
        self.assertEqual(self.server.bodies("/v1/release"), [{"turn": "turn-1"}])

    # Other verbs

    def test_settle(self) -> None:
        with self.client.limiter("requests", "tokens").turn((1, 1500)) as turn:
            turn.settle(-1, 900)
        self.client.limiter("tokens").wait().settle(3)
        bodies = [{"turn": "turn-1", "used": [-1, 900]}, {"turn": "turn-2", "used": [3]}]
        self.assertEqual(self.server.bodies("/v1/settle"), bodies)

    def test_settle_twice(self) -> None:
        self.script("/v1/settle", problem(404, "This server knows nothing more of the turn"))
        with self.assertRaisesRegex(UnknownTurn, "nothing more"):
            self.client.limiter("tokens").wait().settle(3)

    def test_allow(self) -> None:
        body = {
            "allowed": True,
            "taken": 7,
            "valid_ms": 1500,
            "remaining": 3,
            "limit": "10/s",
            "retry_after": 0,
            "new": 1,
        }
        self.script("/v1/allow", Reply(200, body))
        allowed = self.client.limiter("openai", flow="acme").allow(ahead=10)
        self.assertEqual(allowed, Allowed(True, 7, "10/s", 0, 1.5, 3))
        self.assertTrue(allowed)
        sent = {"limits": [{"name": "openai", "cost": 1}], "flow": "acme", "ahead": 10}
        self.assertEqual(self.server.bodies("/v1/allow"), [sent])

    def test_allow_says_no(self) -> None:
        body = {"allowed": False, "taken": 0, "remaining": 0, "limit": "10/s", "retry_after": 0.25}
        self.script("/v1/allow", Reply(429, body, {"Retry-After": "1"}))
        allowed = self.client.limiter("openai").allow()
        self.assertFalse(allowed)
        self.assertEqual(allowed.retry_after, 0.25)

    def test_pause_and_resume(self) -> None:
        limiter = self.client.limiter("openai", key="k")
        limiter.pause(1.5, "Retry-After")
        limiter.pause(2)
        limiter.resume()
        limits = [{"name": "openai", "key": "k", "cost": 1}]
        pauses = [
            {"limits": limits, "for": "1.500s", "reason": "Retry-After"},
            {"limits": limits, "for": "2.000s"},
        ]
        self.assertEqual(self.server.bodies("/v1/pause"), pauses)
        self.assertEqual(self.server.bodies("/v1/resume"), [{"limits": limits}])

    def test_limits(self) -> None:
        listed = [{"name": "a", "limit": "1/s"}, {"name": "b", "limit": "2/s", "key": "{k}", "flow": "{t}"}]
        self.script("/v1/limits", Reply(200, {"limits": listed}))
        self.assertEqual(self.client.limits(), [LimitInfo("a", "1/s"), LimitInfo("b", "2/s", "{k}", "{t}")])

    def test_state(self) -> None:
        body = {
            "name": "a/b c", "limit": "5 at once", "set": True, "set_for_ms": 2500, "stored": 3.5, "wait_ms": 10,
            "waiting": 2, "booked": 1, "processes": 4, "paused_ms": 0, "pause_reason": "why",
            "holders": [{"process": "p", "doing": "job", "slots": 1, "since": "2025-01-01T00:00:00Z"}],
        }  # fmt: skip
        self.script("/v1/limits/a/b c", Reply(200, body))
        state = self.client.state("a/b c", key="k&v")
        self.assertEqual((state.set_for, state.stored, state.wait, state.paused), (2.5, 3.5, 0.01, 0))
        self.assertEqual(state.holders, (Holder("p", "job", 1, "2025-01-01T00:00:00Z"),))
        self.assertEqual(self.server.seen[0].body, {"key": "k&v"})

    def test_state_of_slots_that_are_all_in_use(self) -> None:
        body = {
            "name": "s", "limit": "5 at once", "set": False, "stored": 0, "waiting": 2, "booked": 1, "processes": 4, "paused_ms": 0,
        }  # fmt: skip
        self.script("/v1/limits/s", Reply(200, body))
        self.assertIsNone(self.client.state("s").wait)

    def test_state_of_an_unknown_limit(self) -> None:
        self.script("/v1/limits/x", problem(404, "no limit x"))
        with self.assertRaises(UnknownLimit):
            self.client.state("x")

    def test_all_errors_are_of_one_class(self) -> None:
        for kind in (Unauthorized, UnknownLimit, UnknownTurn, Conflict, InvalidRequest, TooLate, Unavailable):
            self.assertTrue(issubclass(kind, FleetpaceError))


class SyncTCP(Contract, unittest.TestCase):
    client_type = Fleetpace


class SyncUnix(Contract, unittest.TestCase):
    client_type = Fleetpace
    unix = True


class AsyncTCP(Contract, unittest.TestCase):
    client_type = Facade


class AsyncUnix(Contract, unittest.TestCase):
    client_type = Facade
    unix = True


class Names(unittest.TestCase):
    def test_the_newest_four_names_of_requests_are_kept(self) -> None:
        client, names = Fleetpace(), list[str]()
        sent = [client.encode(Request("/v1/wait", attempts=names))[3]["Fleetpace-Attempt"] for _ in range(6)]
        self.assertEqual([len(header.split(" ")) for header in sent], [1, 2, 3, 4, 4, 4])
        self.assertEqual(" ".join(names), sent[-1])


class AbsentServer(unittest.TestCase):
    """A server that comes up while its callers wait."""

    def test_it_waits_for_a_server_that_comes(self) -> None:
        for kind in (Fleetpace, Facade):
            with self.subTest(kind.__name__):
                first = FakeServer()
                port = first.server_address[1]
                first.stop()
                started: list[FakeServer] = []
                timer = threading.Timer(0.5, lambda port=port, to=started: to.append(FakeServer(port=port)))
                client: Any = kind(first.url)
                with self.assertRaises(Unavailable):
                    client.limits()
                timer.start()
                self.assertEqual(client.limiter("openai").wait().id, "turn-1")
                client.close()
                started[0].stop()

    def test_no_socket_is_a_server_that_is_away(self) -> None:
        for kind in (Fleetpace, Facade):
            client: Any = kind("unix:/nowhere/fleetpace.sock", patience=0.2)
            with self.assertRaisesRegex(Unavailable, "/nowhere/fleetpace.sock"):
                client.limiter("openai").wait()
            client.close()


if __name__ == "__main__":
    unittest.main()
