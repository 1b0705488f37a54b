"""A worker that shares a limit with processes in any language: see package lua.

    worker.py REDIS_URL NAME CALLS_PER_SECOND BURST CALLS

prints, per call, when its turn is due: micros of Redis's clock.
"""
import os
import pathlib
import sys
import time

import redis

LUA = pathlib.Path(__file__).parent / "../../lua"
TEXTS = (
    "head queue join items common",
    "meter paced quota rolling warming arguments places slots",
    "shares room bookings heads change state ask",
)
LEAD = 0.1  # seconds before its turn a call asks again


class Limit:
    def __init__(self, client, name, rate, burst, prefix="fleetpace"):
        base = f"{prefix}:{{{name}}}:"
        self.keys = [base + k for k in ("p", "p-places", "p-log", "processes", "p-booked", "p-flows")]
        texts = ["".join((LUA / f"{f}.lua").read_text() for f in files.split()) for files in TEXTS]
        text = "return (function()\n".join(texts) + "end)()\n" * 2
        self.ask = client.register_script(text)
        self.terms = ["p", repr(1e6 / rate), burst, 0, "", 0, "", "", "", 0]
        self.process, self.serial, self.way = f"py{os.getpid()}-{time.time_ns()}", 0, 1.0

    def wait(self, cost=1):
        """Returns when the call has its turn: make it now."""
        number, tag = self.serial, ""
        while True:
            turn, at, usable, tag = self.once(number, cost, tag)
            if turn:
                time.sleep(max(0, at - time.monotonic()))
                if time.monotonic() <= usable:
                    return
            else:
                time.sleep(max(0.001, at - LEAD - time.monotonic()))

    def once(self, number, cost, tag):
        self.serial += 1
        sent, way = time.monotonic(), int(min(self.way, 0.2) * 1e6)
        args = ["", way, int(LEAD * 1.2e6), 20000, 300000, "", self.process, self.serial, ""]
        reply = self.ask(self.keys, args + self.terms + [1, number, 0, 1, 1, cost, tag])
        now, self.due = time.monotonic(), reply[0] + way + int(reply[8])
        self.way = min(self.way, (now - sent) / 2)
        if problem := reply[4]:
            raise RuntimeError(problem.decode())
        status, wait, third, tag = reply[7:11]
        if status == 2:
            raise ValueError(third.decode())
        return status == 1, now + int(wait) / 1e6, now + (int(third) / 1e6 + 0.02 if status == 1 else 0), tag or ""


if __name__ == "__main__":
    url, name, rate, burst, calls = sys.argv[1:]
    limit = Limit(redis.Redis.from_url(url), name, float(rate), int(burst))
    for _ in range(int(calls)):
        limit.wait()
        print(limit.due, flush=True)
