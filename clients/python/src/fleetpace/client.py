"""What both clients share: the server's address, timeouts, and connections for reuse."""

import asyncio
import json
import os
import re
import secrets
import socket
import ssl
from collections import deque
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from .errors import invalid
from .protocol import Request, Ways

C = TypeVar("C")  # a connection
LARGEST_ANSWER = 1 << 20
MOST_IDLE = 16
HOST = re.sub(r"[^!-~]", "_", socket.gethostname())[:50]  # operators see which process holds a slot


class Client(Generic[C]):
    """url is http://…, https://… or unix:/path; ssl_context, for https, holds client certificates, too.

    A response may take up to timeout seconds, and up to poll seconds more for a call that waits. While the server is
    unreachable, such a call asks again for up to patience seconds; math.inf: without a bound.
    """

    def __init__(
        self, url: str = "http://localhost:9467", token: str | None = None, *,
        ssl_context: ssl.SSLContext | None = None, timeout: float = 10.0, poll: float = 25.0, patience: float = 60.0,
    ) -> None:  # fmt: skip
        to = urlsplit(url)
        self.socket = to.path if to.scheme == "unix" else ""
        if not (self.socket or (to.scheme in ("http", "https") and to.hostname)) or to.username or to.query:
            raise invalid("url", url, "must be http://host:port, https://host:port or unix:/path")
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            raise invalid("token", "…", "must be printable ASCII without spaces")
        self.host, self.port = to.hostname or "localhost", to.port or (443 if to.scheme == "https" else 80)
        self.prefix = "" if self.socket else to.path.rstrip("/")
        self.ssl = (ssl_context or ssl.create_default_context()) if to.scheme == "https" else None
        self.headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self.url, self.timeout, self.poll, self.patience = url, timeout, poll, patience
        self.ways = Ways()
        self._idle: deque[C] = deque()
        self._owner: object = None
        self._closed = False
        self._finishing: set[asyncio.Task[None]] = set()

    def encode(self, request: Request) -> tuple[str, str, bytes | None, dict[str, str]]:
        """The method, the target, the body and the headers of a request."""
        target = self.prefix + request.path
        headers = self.headers | {"Fleetpace-Caller": f"{HOST}/{os.getpid()}"}
        if request.attempts is not None:  # a lost response may have granted slots, which the server then frees
            request.attempts[:] = [secrets.token_hex(16), *request.attempts[:3]]  # the newest four
            headers["Fleetpace-Attempt"] = " ".join(request.attempts)
        if request.body is None:
            return "GET", target, None, headers
        try:
            body = json.dumps(request.body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise invalid("body", request.body, str(error)) from error
        return "POST", target, body, headers | {"Content-Type": "application/json"}

    def reuse(self, loop: object = None) -> C | None:
        """An idle connection. It does not use connections of another process or another event loop."""
        if self._owner != (os.getpid(), loop):
            self._owner, self._idle = (os.getpid(), loop), deque()
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def keep(self, connection: C) -> bool:
        """Keeps a connection for the next request, if there are not many."""
        kept = not self._closed and len(self._idle) < MOST_IDLE
        if kept:
            self._idle.append(connection)
        return kept
