"""Requests over asyncio streams: HTTP/1.1, as strict as a client of one server can be."""

import asyncio
import contextlib
import http.client
import io
import re
from collections.abc import Coroutine
from typing import Any

from .client import LARGEST_ANSWER, Client
from .errors import FAILURES, FleetpaceError, failure_of
from .protocol import Answer, Request, T

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
STATUS = re.compile(rb"HTTP/1\.1 ([2-5]\d\d)( [^\r\n]*)?\r\n")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(;[^\r\n]*)?\r\n")


class AsyncHTTP(Client[Stream]):
    async def exchange(self, request: Request) -> Answer | FleetpaceError:
        """Sends a request. If the server has closed the idle connection, it sends it again at once."""
        try:
            return await within(self.timeout if request.timeout is None else request.timeout, self._send(request))
        except FAILURES as error:
            return failure_of(error, self.url)

    async def _send(self, request: Request) -> Answer:
        if (old := self.reuse(asyncio.get_running_loop())) is not None:
            try:
                return await self._exchange(old, request)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
        if self.socket:
            return await self._exchange(await asyncio.open_unix_connection(self.socket), request)
        return await self._exchange(await asyncio.open_connection(self.host, self.port, ssl=self.ssl), request)

    async def _exchange(self, stream: Stream, request: Request) -> Answer:
        kept = False
        try:
            method, target, body, headers = self.encode(request)
            host = f"[{self.host}]" if ":" in self.host else self.host
            sent = {"Host": f"{host}:{self.port}", "Content-Length": str(len(body or b""))} | headers
            head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
            stream[1].write(f"{head}\r\n".encode("ascii") + (body or b""))
            await stream[1].drain()
            answer = await self._read(stream[0])
            kept = "close" not in answer.headers.get("Connection", "").lower() and self.keep(stream)
            return answer
        finally:
            if not kept:
                await hang_up(stream)

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        head = await reader.readuntil(b"\r\n\r\n")
        start = STATUS.match(head)
        if start is None:
            raise FleetpaceError(f"{self.url}: the answer is no HTTP/1.1: {head[:100]!r}")
        status, headers = int(start[1]), http.client.parse_headers(io.BytesIO(head[start.end() :]))
        lengths: list[str] = headers.get_all("Content-Length", [])
        coding = headers.get("Transfer-Encoding", "").lower()
        if status == 204:
            return Answer(status, headers, b"")
        if coding == "chunked" and not lengths:
            return Answer(status, headers, await self._chunks(reader))
        if coding or len(lengths) != 1 or not re.fullmatch(r"\d{1,15}", lengths[0], re.ASCII):
            raise FleetpaceError(f"{self.url}: the answer has no length: {headers.items()!r:.200}")
        return Answer(status, headers, await self._exactly(reader, int(lengths[0])))

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = b""
        while start := CHUNK.fullmatch(await reader.readuntil(b"\r\n")):
            size = int(start[1], 16)
            if size == 0:
                while await reader.readuntil(b"\r\n") != b"\r\n":
                    pass  # trailers
                return body
            body += await self._exactly(reader, size, len(body))
            if await reader.readexactly(2) != b"\r\n":
                break
        raise FleetpaceError(f"{self.url}: the answer has a chunk without a length, or an end")

    async def _exactly(self, reader: asyncio.StreamReader, size: int, before: int = 0) -> bytes:
        if before + size > LARGEST_ANSWER:
            raise FleetpaceError(f"{self.url}: the answer is larger than {LARGEST_ANSWER} bytes")
        return await reader.readexactly(size)


async def hang_up(stream: Stream) -> None:
    """Closes a connection at once, so that the server notices that the caller is gone."""
    stream[1].transport.abort()
    with contextlib.suppress(OSError):  # it is broken already
        await stream[1].wait_closed()


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Waits for work, and cancels it after a time. Before Python 3.12, wait_for may lose a cancellation."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        if not (await asyncio.wait({task}, timeout=seconds))[0]:
            raise TimeoutError(f"no answer within {seconds:.3g} s")
        return task.result()
    finally:
        task.cancel()
