"""A server that follows server/openapi.yaml, gives turns at once, and answers something else when a test says so."""

import contextlib
import json
import os
import re
import socket
import ssl
import tempfile
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

DURATION = re.compile(r"(\d+(\.\d*)?(ns|us|ms|s|m|h))+")
LIMITS = {"name": str, "key": (str, dict), "cost": int}
TURN = {"flow": str, "share": str, "weight": (int, float), "urgent": bool}
REFUSED = {"limits": list, "api": str, "status": int, "headers": dict, "body": str, "host": str, "ago": DURATION}
FIELDS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "/v1/wait": ({"limits": list, **TURN, "max_wait": DURATION, "poll": DURATION, "id": str, "late": bool, "turn": str, "way": DURATION}, {"limits"}),
    "/v1/leave": ({"limits": list, "id": str}, {"limits", "id"}),
    "/v1/allow": ({"limits": list, **TURN, "ahead": int}, {"limits"}),
    "/v1/settle": ({"turn": str, "used": list, "served": bool}, {"turn", "used"}),
    "/v1/release": ({"turn": str}, {"turn"}),
    "/v1/renew": ({"turn": str}, {"turn"}),
    "/v1/pause": ({"limits": list, "for": DURATION, "until": str, "reason": str}, {"limits"}),
    "/v1/resume": ({"limits": list}, {"limits"}),
    "/v1/refused": (REFUSED, {"limits", "api", "status"}),
}


@dataclass
class Reply:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def problem(status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    kind = {"Content-Type": "application/problem+json"}
    body = {"type": "about:blank", "title": "T", "status": status, "detail": detail, **more}
    return Reply(status, body, kind | (headers or {}))


@dataclass
class Raw:
    """Bytes in place of an answer; then the connection is closed, or left open."""

    data: bytes
    close: bool = True


DROP = Raw(b"")


class Hang:
    """No answer: waits until the caller hangs up, and says so."""

    def __init__(self) -> None:
        self.began, self.hung_up = threading.Event(), threading.Event()


@dataclass
class Seen:
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    connection: int


Answer = Reply | Raw | Hang
Script = Answer | Callable[[Seen], Answer]


def wrong(where: str, fields: dict[str, Any], required: set[str], document: object) -> str | None:
    """What is wrong with a document; None: nothing."""
    if not isinstance(document, dict):
        return f"{where}: no object"
    for name in required - set(document):
        return f"{where}: {name} is missing"
    for name, value in document.items():
        kind = fields.get(name)
        if kind is None:
            return f"{where}: {name} is not known"
        if kind is DURATION:
            if not isinstance(value, str) or not DURATION.fullmatch(value):
                return f"{where}: {name} is no duration: {value!r}"
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            return f"{where}: {name} is of another type: {value!r}"
    for i, limit in enumerate(document.get("limits", [])):
        if error := wrong(f"limits[{i}]", LIMITS, {"name"}, limit):
            return error
    if "limits" in document and not 1 <= len(document["limits"]) <= 8:
        return f"{where}: limits are too few or too many"
    return None


class FakeServer(ThreadingMixIn, TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, unix: bool = False, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.script: dict[str, deque[Script]] = defaultdict(deque)
        self.seen: list[Seen] = []
        self.violations: list[str] = []
        self.token: str | None = None
        self.lease_ms: float | None = None
        self.turns = 0
        self.connections = 0
        self.open: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.tls = tls
        self.folder = tempfile.mkdtemp(prefix="fleetpace-") if unix else ""
        if unix:
            self.address_family = socket.AF_UNIX
            super().__init__(self.folder + "/s.sock", Handler)  # type: ignore[arg-type]
            self.url = f"unix:{self.folder}/s.sock"
        else:
            super().__init__(("127.0.0.1", port), Handler)
            self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls:
            request.settimeout(5)
            request = self.tls.wrap_socket(request, server_side=True)
        with self.lock:
            self.open.add(request)
        try:
            super().finish_request(request, client_address)
        finally:
            with self.lock:
                self.open.discard(request)
            if self.tls:
                request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hung up

    def close_connections(self) -> None:
        """Closes all connections, as a server does with idle ones."""
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self.close_connections()
        if self.folder:
            os.unlink(self.folder + "/s.sock")
            os.rmdir(self.folder)

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [seen.body for seen in self.seen if seen.path == path]

    def answer(self, seen: Seen) -> Answer:
        with self.lock:
            scripted = self.script[seen.path].popleft() if self.script[seen.path] else None
        if scripted is not None:
            return scripted(seen) if callable(scripted) else scripted
        if seen.path == "/v1/wait":
            with self.lock:
                self.turns += 1
                given: dict[str, Any] = {"turn": f"turn-{self.turns}", "waited_ms": 12.5}
            return Reply(200, given | ({"lease_ms": self.lease_ms} if self.lease_ms else {}))
        if seen.path == "/v1/allow":
            return Reply(200, {"allowed": True, "taken": seen.body.get("ahead", 1), "limit": "10/s", "retry_after": 0})
        if seen.path == "/v1/renew":
            return Reply(200, {"lease_ms": self.lease_ms})
        return Reply(204)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = False
    server: FakeServer

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1
            self.number = self.server.connections

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "client"

    def do_GET(self) -> None:
        self.reply({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        error = None
        document = json.loads(body)
        if self.headers.get_content_type() != "application/json":
            error = "no application/json"
        elif path in FIELDS:
            error = wrong(path, *FIELDS[path], document)
        else:
            error = f"{path} is not known"
        if error:
            self.server.violations.append(error)
            self.send(problem(400, error, field=error.split(": ", 1)[0]))
        else:
            self.reply(document)

    def reply(self, document: dict[str, Any]) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        seen = Seen(
            unquote(parts.path), document or query, {k.lower(): v for k, v in self.headers.items()}, self.number
        )
        with self.server.lock:
            self.server.seen.append(seen)
        token = self.server.token
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self.send(problem(401, "Send the server's token"))
        else:
            self.send(self.server.answer(seen))

    def send(self, answer: Answer) -> None:
        if isinstance(answer, Hang):
            answer.began.set()
            self.connection.settimeout(20)
            with contextlib.suppress(OSError):
                if self.connection.recv(1) == b"":
                    answer.hung_up.set()
            self.close_connection = True
        elif isinstance(answer, Raw):
            self.wfile.write(answer.data)
            self.close_connection = answer.close
        else:
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            headers = answer.headers if answer.status == 204 else {"Content-Type": "application/json"} | answer.headers
            for name, value in headers.items():
                self.send_header(name, value)
            if answer.status == 204:
                body = b""
            else:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
