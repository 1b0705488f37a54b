"""Agents stream from a model over httpx, as the SDKs of its provider do: models.py PROVIDER SERVER API AGENTS SECONDS PROMPT.
Prints how many calls were served and how many failed."""

import asyncio
import sys

import httpx
from fleetpace import AsyncFleetpace
from fleetpace.httpx import AsyncPacedTransport

provider, server, api, agents, seconds, prompt = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
served = failed = 0


async def agent(client: httpx.AsyncClient) -> None:
    global served, failed
    path = "/v1/messages" if provider == "anthropic" else "/v1/chat/completions"
    body = {"model": "m", "max_tokens": 1000, "stream": True, "messages": [{"role": "user", "content": "x" * prompt}]}
    while True:
        async with client.stream("POST", api + path, json=body) as response:
            async for _ in response.aiter_lines():
                pass
        if response.status_code == 200:
            served += 1
        else:
            failed += 1


async def main() -> None:
    async with AsyncFleetpace(server) as fleet:
        if provider == "anthropic":
            transport = AsyncPacedTransport(
                fleet.limiter("requests", "input", "output"),
                cost=lambda e: [1, e.input, e.most],
                used=lambda u: [1, u.input + u.cache_write, u.output],
                api="anthropic",
            )
        else:
            transport = AsyncPacedTransport(fleet.limiter("requests", "tokens"), cost=lambda e: [1, max(e.input, e.most)], api="openai")
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            try:
                await asyncio.wait_for(asyncio.gather(*[agent(client) for _ in range(agents)]), seconds)
            except asyncio.TimeoutError:
                print(served, failed)


asyncio.run(main())
