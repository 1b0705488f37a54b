"""Calls an API in its turns: worker.py SERVER API CALLERS SECONDS. Prints how many calls it made."""

import http.client
import sys
import threading
import time
import urllib.parse

from fleetpace import Fleetpace

server, api, callers, seconds = sys.argv[1], urllib.parse.urlsplit(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
end = time.monotonic() + seconds
calls: "list[int]" = []


def work() -> None:
    connection = http.client.HTTPConnection(api.netloc)
    while time.monotonic() < end:
        limiter.wait()
        if time.monotonic() < end:
            connection.request("GET", "/")
            connection.getresponse().read()
            calls.append(1)


with Fleetpace(server) as client:
    limiter = client.limiter("api")
    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(calls))
