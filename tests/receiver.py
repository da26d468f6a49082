"""A receiver of webhooks that answers as a test wants, and keeps what it got."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """``status`` is what it answers, with ``headers``; while ``hold`` is clear it does not answer at all."""

    port: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    got: list[Got] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run one on loopback."""
    made = Receiver()
    made.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.got.append(Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            made.hold.wait(30)
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
