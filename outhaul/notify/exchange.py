"""One POST: guarded, bounded in time and size, and never redirected.

httpcore is used without a client on top, so that nothing follows, decodes, keeps cookies or finds a proxy.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpcore

from outhaul import __version__
from outhaul.errors import InvalidRequest, Refused
from outhaul.notify.answer import Answer, Verdict, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from outhaul.notify.guard import Guard

TOTAL_SECONDS = 15.0  # from the look-up of the name to the last byte of the answer
CONNECT_SECONDS = 5.0  # for each address
MAX_ANSWER_BYTES = 64 << 10
MAX_WAIT = timedelta(days=1)

# The first class that fits counts, so the special come before the general.
_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "the receiver did not answer in time"),
    (ssl.SSLCertVerificationError, "the receiver's certificate is not trusted"),
    (ssl.SSLError, "no secure connection to the receiver could be made"),
    (ConnectionRefusedError, "the receiver refuses connections"),
    (httpcore.ProtocolError, "the receiver hung up, or what it answered is not HTTP"),
    (httpcore.NetworkError, "the connection to the receiver broke off"),
    (OSError, "the connection to the receiver broke off"),
)
_FAILURE_KINDS = tuple(kind for kind, _ in _FAILURES)


def post(url: str, headers: Mapping[str, str], body: bytes, guard: Guard) -> Answer:
    """Send JSON to ``url`` and say what became of it. Raises nothing that the receiver, its name or URL can cause.

    A status of 2xx is delivered, even if the rest of the answer never comes. What the guard refuses is to be tried
    again like any failure, since tomorrow the name may stand for another address, or the operator allow this one.
    """
    backend = _Backend(guard, time.monotonic() + TOTAL_SECONDS)
    try:
        target = guard.check_url(url)
        own = {
            "host": target.netloc.decode("ascii"),
            "content-type": "application/json",
            "user-agent": f"outhaul/{__version__}",
            "connection": "close",
        }
        with (
            httpcore.ConnectionPool(network_backend=backend) as pool,
            pool.stream(
                "POST",
                httpcore.URL(scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path),
                headers=[*own.items(), *headers.items()],
                content=body,
            ) as response,
        ):
            return _judge(response)
    except (InvalidRequest, Refused) as error:
        return Answer(Verdict.RETRY, error.message, detail=error.detail)
    except _FAILURE_KINDS as error:
        words = next(words for kind, words in _FAILURES if isinstance(error, kind))
        return Answer(Verdict.RETRY, words, detail=shorten(f"{type(error).__name__}: {error}"))


def _judge(response: httpcore.Response) -> Answer:
    status = response.status
    note = f"the receiver answered {_named(status)}"
    detail = shorten(_beginning(response))
    if 200 <= status < 300:
        return Answer(Verdict.DELIVERED, note, status, detail=detail)
    if status == HTTPStatus.GONE:
        return Answer(Verdict.GONE, f"{note}: it wants no more messages", status, detail=detail)
    if 300 <= status < 400:
        note = f"{note}: redirects are not followed"
    return Answer(Verdict.RETRY, note, status, _retry_after(response.headers), detail)


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _beginning(response: httpcore.Response) -> bytes:
    body = bytearray()
    with suppress(*_FAILURE_KINDS):  # the status counts, however the answer ends
        for piece in response.iter_stream():
            body += piece
            if len(body) >= MAX_ANSWER_BYTES:
                break
    return bytes(body)


def _retry_after(headers: Iterable[tuple[bytes, bytes]]) -> timedelta | None:
    """RFC 9110, section 10.2.3: seconds, or a date. One that is over means at once."""
    value = next((value.decode("latin-1").strip() for name, value in headers if name.lower() == b"retry-after"), "")
    if re.fullmatch("[0-9]+", value, re.ASCII):
        return timedelta(seconds=min(int(value[:9]), MAX_WAIT.total_seconds()))
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    wait = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)
    return min(max(wait, timedelta(0)), MAX_WAIT)


class _Backend(httpcore.NetworkBackend):
    """Connects to addresses that the guard lets through, while httpcore keeps the name for TLS and the Host header."""

    def __init__(self, guard: Guard, deadline: float) -> None:
        self._guard = guard
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        del timeout, local_address, socket_options
        failure: OSError = TimeoutError("no time is left to connect")
        for address in self._guard.addresses(host, port, _left(self._deadline)):
            try:
                connection = socket.create_connection((address, port), min(CONNECT_SECONDS, _left(self._deadline)))
            except OSError as error:
                failure = error
            else:
                return _Stream(connection, self._deadline)
        raise failure


class _Stream(httpcore.NetworkStream):
    """A connection on which every step ends at one deadline, so that no trickle of bytes prolongs it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # head and body are two writes
        self._connection = connection
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        del timeout
        self._connection.settimeout(_left(self._deadline))
        return self._connection.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        del timeout
        rest = memoryview(buffer)
        while rest:
            self._connection.settimeout(_left(self._deadline))
            try:
                rest = rest[self._connection.send(rest) :]
            except TimeoutError:
                raise
            except OSError as error:
                # On this one httpcore still reads: a server may answer before it has taken all, and close.
                raise httpcore.WriteError(error) from error

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        del timeout
        try:
            self._connection.settimeout(_left(self._deadline))
            return _Stream(ssl_context.wrap_socket(self._connection, server_hostname=server_hostname), self._deadline)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time for the whole exchange is over")
    return left
