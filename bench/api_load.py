"""Requests that are sent when they are due, whether or not the ones before have been answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from statistics import quantiles
from typing import TYPE_CHECKING

from outhaul.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from typing import Any

    Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

CONNECTIONS = 100
TIMEOUT_S = 30.0
LATE_S = 0.005  # of the client itself: more of it, and it measures its own machine
HOST = "127.0.0.1"
# Small, so that workers who carry them out leave the machine to the API as far as may be.
BODY = json.dumps({"dataset": "weather", "query": {"limit": 10}}).encode()
ASK, LOOK = "POST /v1/exports", "GET /v1/exports/ID"


@dataclass(slots=True)
class Kind:
    """What became of the requests of one kind. Seconds run from when a request was due, not from when it left."""

    name: str
    rate: float
    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def percentiles(self) -> tuple[float, float, float, float]:
        """Milliseconds: median, 95th and 99th percentile, and the longest."""
        cuts = quantiles(self.seconds, n=100, method="inclusive")
        return 1000 * cuts[49], 1000 * cuts[94], 1000 * cuts[98], 1000 * max(self.seconds)


@dataclass(slots=True)
class Load:
    """One run. ``late`` is how many requests the client itself sent later than it should have."""

    kinds: list[Kind]
    seconds: float
    late: int = 0

    @property
    def per_second(self) -> float:
        """Requests that were answered as they should be."""
        return sum(len(kind.seconds) for kind in self.kinds) / self.seconds


class Client:
    """Sends requests with the keys in turn, and remembers the exports it has asked for.

    It speaks just enough HTTP by itself: a client library takes as much of the machine as the server that is measured.
    """

    def __init__(self, port: int, keys: Sequence[str]) -> None:
        self._port = port
        self._keys = keys
        self._turn = count()
        self._asked: list[tuple[str, str]] = []  # key and id
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[Connection] = []

    async def ask(self) -> str | None:
        """Ask for an export; returns what went wrong."""
        key = self._keys[next(self._turn) % len(self._keys)]
        status, body = await self._send("POST /v1/exports", key, BODY)
        if status != "202":
            return status
        self._asked.append((key, json.loads(body)["id"]))
        return None

    async def look(self) -> str | None:
        """Look at one of the exports asked for; returns what went wrong."""
        key, job_id = random.choice(self._asked)
        status, _ = await self._send(f"GET /v1/exports/{job_id}", key)
        return None if status == "200" else status

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._idle:
            writer.close()

    async def _send(self, what: str, key: str, body: bytes = b"") -> tuple[str, bytes]:
        head = f"{what} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n"
        async with self._room, asyncio.timeout(TIMEOUT_S):
            reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection(HOST, self._port)
            try:
                writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
                length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
                answer = await reader.readexactly(length)
            except BaseException:
                writer.close()
                raise
            self._idle.append((reader, writer))
        return first.split()[1], answer


def run(port: int, keys: Sequence[str], *, gets: float, posts: float, seconds: float) -> Load:
    """Keep up the rates for so long.

    Raises:
        Unavailable: the API does not answer at all.
    """
    return asyncio.run(_run(port, keys, gets, posts, seconds))


async def _run(port: int, keys: Sequence[str], gets: float, posts: float, seconds: float) -> Load:
    client = Client(port, keys)
    load = Load([Kind(LOOK, gets), Kind(ASK, posts)], seconds)
    send = {LOOK: client.look, ASK: client.ask}
    try:
        for _ in range(4 * len(keys)):  # imports, pools, and something to look at
            if wrong := await client.ask():
                raise Unavailable(f"the API answers {wrong} to a request for an export")
        start, sent = time.perf_counter(), []
        for due, kind in _schedule(load.kinds, seconds):
            await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
            load.late += time.perf_counter() - start - due > LATE_S
            sent.append(asyncio.create_task(_timed(kind, send[kind.name](), start + due)))
        await asyncio.gather(*sent)
        load.seconds = time.perf_counter() - start
    except OSError as error:
        raise Unavailable(f"the API does not answer: {error}") from error
    finally:
        client.close()
    return load


def _schedule(kinds: Sequence[Kind], seconds: float) -> Iterator[tuple[float, Kind]]:
    """When each request is due, in seconds from the start."""
    due = [(n / kind.rate, kind) for kind in kinds for n in range(int(kind.rate * seconds))]
    return iter(sorted(due, key=lambda one: one[0]))


async def _timed(kind: Kind, request: Coroutine[Any, Any, str | None], due: float) -> None:
    try:
        wrong = await request
    except (OSError, EOFError) as error:  # a timeout is an OSError, an answer cut short an EOFError
        wrong = type(error).__name__
    if wrong:
        kind.errors[wrong] += 1
    else:
        kind.seconds.append(time.perf_counter() - due)
