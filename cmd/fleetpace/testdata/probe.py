"""Makes one call over httpx, which probes a hard stop: probe.py SERVER API."""

import sys

import httpx
from fleetpace import Fleetpace
from fleetpace.httpx import PacedTransport

server, api = sys.argv[1:]
with Fleetpace(server) as fleet, httpx.Client(transport=PacedTransport(fleet.limiter("api"))) as client:
    client.get(api).raise_for_status()
