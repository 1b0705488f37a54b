#!/usr/bin/env python3
"""A worker: calls a URL again and again, each time in its turn.

fleetpace serve --limits limits.yaml
python3 example.py -limit openai -url http://localhost:8080/ -calls 100 -threads 4
"""

import argparse
import sys
import threading
import time
import urllib.error
import urllib.request

from fleetpace import Fleetpace, FleetpaceError, Limiter, TooLate
from fleetpace.retry_after import retry_after


def call(limiter: Limiter, url: str) -> str:
    """Makes one call. If the API asks for it, the whole fleet pauses."""
    if not url:
        return "its turn"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return f"{answer.status}, {len(answer.read())} bytes"
    except urllib.error.HTTPError as error:
        seconds = retry_after(error.headers.get("Retry-After"), error.headers.get("Date"))
        if error.code in (429, 503) and seconds:
            limiter.pause(seconds, f"{url} answered {error.code} with Retry-After")
        return str(error.code)
    except OSError as error:
        return str(error)


def work(limiter: Limiter, url: str, jobs: "list[int]", max_wait: "float | None") -> None:
    while True:
        try:
            job = jobs.pop(0)
        except IndexError:
            return
        try:
            with limiter.turn(max_wait=max_wait) as turn:
                print(f"{time.strftime('%H:%M:%S')} call {job} waited {turn.waited:.2f} s: {call(limiter, url)}")
        except TooLate as error:
            print(f"call {job} is left out: {error}")
        except FleetpaceError as error:
            print(f"call {job} is not made: {error}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-server", default="http://localhost:9467", help="where fleetpace serve is, or unix:/path")
    parser.add_argument("-token", help="its token, if it wants one")
    parser.add_argument("-limit", required=True, help="the name of a limit of its file")
    parser.add_argument("-key", help="for a limit with a key: which one")
    parser.add_argument("-url", default="", help="what to call; default: nothing, and say when")
    parser.add_argument("-calls", type=int, default=10, help="how many calls to make")
    parser.add_argument("-threads", type=int, default=2, help="how many threads make them")
    parser.add_argument("-max-wait", type=float, help="leave out calls that would wait longer, in seconds")
    flags = parser.parse_args()
    jobs = list(range(1, flags.calls + 1))
    with Fleetpace(flags.server, flags.token) as client:
        limiter = client.limiter(flags.limit, key=flags.key)
        arguments = (limiter, flags.url, jobs, flags.max_wait)
        threads = [threading.Thread(target=work, args=arguments, daemon=True) for _ in range(flags.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
