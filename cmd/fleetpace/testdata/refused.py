"""Makes one call over httpx, and repeats it as the SDKs of Anthropic and OpenAI do: refused.py SERVER API. Prints the last status."""

import sys
import time

import httpx
from fleetpace import Fleetpace
from fleetpace.httpx import PacedTransport

server, api = sys.argv[1:]
with Fleetpace(server) as fleet, httpx.Client(transport=PacedTransport(fleet.limiter("api"), api="anthropic")) as client:
    for _ in range(3):
        response = client.post(api + "/v1/messages", json={})
        if response.is_success or response.headers.get("x-should-retry") == "false":
            break
        time.sleep(float(response.headers.get("retry-after-ms", 500)) / 1000)
    print(response.status_code)
