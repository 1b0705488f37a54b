"""Requests over http.client, for threads: each has a connection of its own while it runs."""

import contextlib
import http.client
import socket

from .client import LARGEST_ANSWER, Client
from .errors import FAILURES, FleetpaceError, failure_of
from .protocol import Answer, Request


class _UnixConnection(http.client.HTTPConnection):
    path = ""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class SyncHTTP(Client[http.client.HTTPConnection]):
    def exchange(self, request: Request) -> Answer | FleetpaceError:
        """Sends a request. If the server has closed the idle connection, it sends it again at once."""
        try:
            if (old := self.reuse()) is not None:
                with contextlib.suppress(ConnectionError):
                    return self._exchange(old, request)
            return self._exchange(self._connection(), request)
        except FAILURES as error:
            return failure_of(error, self.url)

    def _connection(self) -> http.client.HTTPConnection:
        if self.socket:
            connection = _UnixConnection("localhost")
            connection.path = self.socket
            return connection
        if self.ssl is not None:
            return http.client.HTTPSConnection(self.host, self.port, context=self.ssl)
        return http.client.HTTPConnection(self.host, self.port)

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> Answer:
        kept = False
        try:
            connection.timeout = self.timeout if request.timeout is None else request.timeout
            if connection.sock is not None:
                connection.sock.settimeout(connection.timeout)
            connection.request(*self.encode(request))
            response = connection.getresponse()
            body = response.read(LARGEST_ANSWER + 1)
            if len(body) > LARGEST_ANSWER:
                raise FleetpaceError(f"{self.url}: the answer is larger than {LARGEST_ANSWER} bytes")
            if response.length or not (response.chunked or response.length == 0):  # cut off, or of unknown length
                raise http.client.IncompleteRead(body, response.length)
            kept = not response.will_close and self.keep(connection)
            return Answer(response.status, response.headers, body)
        finally:
            if not kept:
                connection.close()
