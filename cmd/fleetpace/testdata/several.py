"""Calls an API in its turns of all limits: several.py SERVER API CALLERS BEGIN SECONDS. Prints how often it lost slots."""

import http.client
import sys
import threading
import time
import urllib.parse

from fleetpace import Fleetpace

server, api, callers = sys.argv[1], urllib.parse.urlsplit(sys.argv[2]), int(sys.argv[3])
begin, seconds = float(sys.argv[4]), float(sys.argv[5])
lost: "list[int]" = []


def work(limits: str) -> None:
    limiter, connection = client.limiter(*limits.split("+")), http.client.HTTPConnection(api.netloc)
    time.sleep(max(0.0, begin - time.time()))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with limiter.turn() as turn:
            connection.request("GET", "/" + limits)
            connection.getresponse().read()
            if turn.lost.is_set():
                lost.append(1)


with Fleetpace(server) as client:
    names = ("paced", "quota", "rolling", "warm", "slots", "rate+some")
    threads = [threading.Thread(target=work, args=(name,)) for name in names for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(lost))
