"""Receivers on loopback that record what comes, and misbehave as a test wants."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """``answers`` are given one after the other, the last for ever; ``seen`` is what came."""

    port: int
    answers: list[tuple[int, dict[str, str], bytes]]
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def answer(self, status: int, **headers: str) -> None:
        """Answer so from now on."""
        self.answers[:] = [(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"")]


@contextmanager
def receiver(
    *answers: tuple[int, dict[str, str], bytes], tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[Receiver]:
    """An HTTP server, at a free port unless one is given; by default it answers 200."""
    box: list[Receiver] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            here = box[0]
            status, headers, answer = here.answers.pop(0) if len(here.answers) > 1 else here.answers[0]
            here.seen.append(Seen(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.handle_error = lambda *args: None  # clients that hang up are what is tested
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    box.append(Receiver(server.server_address[1], list(answers) or [(200, {}, b"ok")]))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield box[0]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def raw(behave: Callable[[socket.socket], None]) -> Iterator[Receiver]:
    """A TCP server that does ``behave`` with each connection, then closes it; ``seen`` has an entry for each."""
    listener = socket.create_server(("127.0.0.1", 0))
    here = Receiver(listener.getsockname()[1], [])
    threads = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client has had enough
            behave(connection)

    last = socket.socket()
    last.bind(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            connection, peer = listener.accept()
            if peer == last.getsockname():  # all that came before has been counted
                connection.close()
                return
            here.seen.append(Seen("", {}, b""))
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield here
    finally:
        with last, listener:
            last.connect(listener.getsockname())
            for thread in [acceptor, *threads]:
                thread.join()


def take_request(connection: socket.socket) -> None:
    """Read a whole request."""
    head, body = b"", b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(1 << 16)
    head, body = head.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 16)
