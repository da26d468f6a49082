"""An HTTP proxy for one server: records each request and can answer for the server, or break the connection."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

RESET = "reset"  # break off when half of the body has come
LOST = "lost"  # let the server do its work, then break off instead of answering


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    length: int
    conditional: bool

    @property
    def part(self) -> int | None:
        return int(self.query["partNumber"][0]) if "partNumber" in self.query else None

    @property
    def completes(self) -> bool:
        return self.method == "POST" and "uploadId" in self.query


class FaultProxy:
    """``seen`` lists requests as they come, ``served`` those that the server has done, in that order.

    ``fault`` looks at a request and returns an HTTP status, ``RESET``, ``LOST`` or None for no fault; ``answering`` is
    called when the server has done its work and before the answer goes back. Both may take their time.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.seen: list[Request] = []
        self.served: list[Request] = []
        self.fault: Callable[[Request], int | str | None] = lambda request: None
        self.answering: Callable[[Request], None] = lambda request: None
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultProxy

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        query = parse_qs(url.query, keep_blank_values=True)
        request = Request(self.command, url.path, query, length, "If-None-Match" in self.headers)
        self.owner.seen.append(request)
        fault = self.owner.fault(request)
        if fault == RESET:
            self.rfile.read(length // 2)
            self._break()
            return
        body = self.rfile.read(length)
        if isinstance(fault, int):
            self._answer(fault, [], b"")
            return
        upstream = HTTPConnection("127.0.0.1", self.owner.upstream, timeout=60)
        skipped = {"expect", "connection"}
        upstream.request(
            self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() not in skipped}
        )
        response = upstream.getresponse()
        content = response.read()
        upstream.close()
        self.owner.served.append(request)
        self.owner.answering(request)
        if fault == LOST:
            self._break()
        else:
            self._answer(response.status, response.getheaders(), content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        dropped = {"connection", "transfer-encoding"} | (set() if self.command == "HEAD" else {"content-length"})
        for name, value in headers:
            if name.lower() not in dropped:
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _break(self) -> None:
        self.close_connection = True
        # Lingering for zero seconds makes the close a reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815
