"""Processes by their id and the time they were made: an id alone may belong to a stranger by now."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

KILL_SECONDS = 5
POLL_SECONDS = 0.05


def find(pid: int, created: float) -> psutil.Process | None:
    """The live process with this id, made at this time (seconds since the epoch), or None."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if abs(process.create_time() - created) < 1 and alive(process):
            return process
    return None


def alive(process: psutil.Process) -> bool:
    """Whether the process still does something; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def gone(processes: Iterable[psutil.Process], seconds: float) -> bool:
    """Wait until all have ended. False when some are still there after ``seconds``."""
    deadline = time.monotonic() + seconds
    waiting = [process for process in processes if alive(process)]
    while waiting and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        waiting = [process for process in waiting if alive(process)]
    return not waiting


def terminate(processes: Iterable[psutil.Process]) -> None:
    """Ask processes to end."""
    for process in processes:
        with suppress(psutil.Error):
            process.terminate()


def kill(processes: Iterable[psutil.Process]) -> None:
    """End processes at once and wait until they have."""
    doomed = list(processes)
    for process in doomed:
        with suppress(psutil.Error):
            process.kill()
    gone(doomed, KILL_SECONDS)


def end(processes: Iterable[psutil.Process], seconds: float) -> None:
    """Ask processes to end, and kill those that have not after ``seconds``."""
    doomed = list(processes)
    terminate(doomed)
    if not gone(doomed, seconds):
        kill(doomed)


def marked(name: str, value: str) -> list[psutil.Process]:
    """The live processes of this user, but for this one, that have ``name=value`` in their environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and alive(process) and process.environ().get(name) == value:
                found.append(process)
    return found
