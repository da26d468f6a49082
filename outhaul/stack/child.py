"""One running component: start it, see whether it works, stop it with everything it has started."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from outhaul.errors import Unavailable
from outhaul.stack.processes import POLL_SECONDS, gone, kill, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from outhaul.stack.components import Component

    OnEvent = Callable[[str, str], None]  # the component's name, and what happened to it

START_SECONDS = 180
LOOK_SECONDS = 1.0
LONGEST_PAUSE = 30.0  # before a component that keeps dying is started again
PR_SET_PDEATHSIG = 1
# A proxy of the environment must not stand between us and a server on this machine.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Child:
    """A component's process, its output in ``<logs>/<name>.log``."""

    def __init__(self, component: Component, env: Mapping[str, str], logs: Path) -> None:
        self.component = component
        self.log = logs / f"{component.name.replace(' ', '-')}.log"
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._started = 0.0
        self._pause = LOOK_SECONDS
        self._due: float | None = None

    def start(self) -> None:
        """Start it, in a session of its own: the terminal's Ctrl-C is for the supervisor alone."""
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._started = time.monotonic()
            self._process = subprocess.Popen(
                self.component.command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_be_a_good_child,  # noqa: PLW1509 - the supervisor has a single thread
            )

    @property
    def pid(self) -> int | None:
        """Its process id, or None before the first start."""
        return self._process.pid if self._process else None

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def is_ready(self) -> bool:
        """Whether it does its work. Raises Unavailable when it has ended instead."""
        status = self._process.poll() if self._process else None
        if status is not None and (status or not self.component.step):
            raise Unavailable(self._last_words(), detail=f"exit status {status}; see {self.log}")
        if self.component.step:
            return status == 0
        if self.component.health:
            return answers(self.component.health)
        return self.component.says in self._output()

    def await_ready(self) -> None:
        """Wait until it works. Raises Unavailable when it ends or takes longer than ``START_SECONDS``."""
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise Unavailable(f"{self.component.name} does not get ready; see {self.log}")
            time.sleep(POLL_SECONDS)

    def mend(self, on_event: OnEvent) -> None:
        """Start it again when it has died, each time after a longer pause."""
        now = time.monotonic()
        if self.is_running():
            if now - self._started > LONGEST_PAUSE:
                self._pause = LOOK_SECONDS
        elif self._due is None:
            self._due = now + self._pause
            on_event(self.component.name, f"died; starting again in {self._pause:.0f} s; see {self.log}")
        elif now >= self._due:
            self._due = None
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self.start()
            on_event(self.component.name, "started again")

    def stop(self) -> None:
        """End it and all that it has started: first asked, then forced."""
        if not self.is_running():
            return
        process = psutil.Process(self.pid)
        family = [process, *process.children(recursive=True)]
        terminate([process])
        gone([process], self.component.stop_seconds)
        kill(family)
        if self._process:
            self._process.wait()

    def _output(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _last_words(self) -> str:
        lines = [line for line in self._output().splitlines() if line.strip()]
        ours = [line.removeprefix("outhaul: ") for line in lines if line.startswith("outhaul: ")]
        return ours[-1] if ours else f"{self.component.name} ended while starting; see {self.log}"


def answers(url: str) -> bool:
    """Whether an HTTP GET of ``url`` succeeds."""
    with suppress(OSError), _direct.open(url, timeout=2) as response:
        return bool(response.status == 200)
    return False


def _be_a_good_child() -> None:
    # Started by `&` in a script, SIGINT is ignored and stays so in all descendants; Prefect stops workers by it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Should the supervisor be killed, its children end with it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
