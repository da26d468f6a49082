"""Keeps one process on standby, so that a run starts at once instead of after seconds of imports.

It is started like any other, never forked, so it inherits no thread and no connection. A run whose environment or
command is not the one that it was started with gets a process of its own, and so do runs that find none.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from outhaul.stack.standby import ENGINE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import Process

    Open = Callable[..., AbstractAsyncContextManager[Process]]

PER_RUN = "PREFECT__"  # what Prefect tells a single run; none of it is read while importing
# How a run stands beside its worker, which it may outlive. A session of its own: a terminal's Ctrl-C is for the worker,
# which gives its runs some time. And the worker's own output, not the pipes that Prefect asks for: they break when the
# worker is killed, and at the next line of the log Rich ends the program.
APART: dict[str, Any] = {"start_new_session": True, "stdout": None, "stderr": None}
REST_SECONDS = 2.0  # before the next is prepared: the run that has just begun has the processors first


class Spare:
    """The process on standby.

    ``open_process`` is how a run gets its process otherwise, ``preload`` what to import, ``env`` the environment that
    the first run is expected to have.
    """

    def __init__(self, open_process: Open, preload: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._open = open_process
        self._preload = preload
        self._env = _common(env)
        self._process: Process | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._closed = False

    def prepare(self, *, rest: float = 0.0) -> None:
        """See to it, in a while, that there is a process on standby."""
        if self._preload and not self._closed and (self._preparing is None or self._preparing.done()):
            self._preparing = asyncio.create_task(self._prepare(rest))

    async def close(self) -> None:
        """End the process on standby; there will be no other."""
        self._closed = True
        if self._preparing:
            self._preparing.cancel()
        await self._discard()

    @asynccontextmanager
    async def open_process(self, command: list[str], **options: Any) -> AsyncIterator[Process]:
        """The process of one run, its own from now on."""
        process = await self._take(command, options)
        try:
            if process is None:
                async with self._open(command, **{**options, **APART}) as process:
                    yield process
            else:
                async with process:
                    yield process
        finally:
            self.prepare()

    async def _take(self, command: list[str], options: Mapping[str, Any]) -> Process | None:
        """The process on standby, told to be this run; None if there is none that could be."""
        if command[1:] != ["-m", ENGINE] or command[0] not in {"python", sys.executable}:
            return None
        if _common(options["env"]) != self._env:
            self._env = _common(options["env"])
            await self._discard()
            return None
        process, self._process = self._process, None
        self.prepare(rest=REST_SECONDS)
        if process is None or process.stdin is None:
            return None
        order = {"env": options["env"], "cwd": os.fspath(options["cwd"] or Path.cwd())}
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(json.dumps(order).encode())
            await process.stdin.aclose()
            if process.returncode is None:
                return process
        await process.aclose()
        return None

    async def _prepare(self, rest: float) -> None:
        await asyncio.sleep(rest)
        if self._process is None or self._process.returncode is not None:
            await self._discard()
            self._process = await anyio.open_process(
                [sys.executable, "-P", "-m", "outhaul.stack.standby", *self._preload], env=self._env, **APART
            )

    async def _discard(self) -> None:
        process, self._process = self._process, None
        if process:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.aclose()


def _common(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(PER_RUN)}
