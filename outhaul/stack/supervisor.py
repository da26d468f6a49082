"""Runs the whole stack on one machine: starts it in order, keeps it up, stops it without leaving anything behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from outhaul.errors import OuthaulError, Unavailable
from outhaul.stack import processes
from outhaul.stack.child import LOOK_SECONDS, Child, answers
from outhaul.stack.components import API, HOST, MARK, WORKERS, api_url, components, environment, worker_name
from outhaul.stack.postgres import EmbeddedPostgres
from outhaul.stack.state import Standing, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import FrameType

    from outhaul.stack.child import OnEvent

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DETACH_SECONDS = 300
DOWN_SECONDS = 60
ORPHAN_SECONDS = 15


class Stack:
    """The stack of one home folder.

    ``env`` is the environment its processes get; ``prefect_api_url``, ``database_url`` and ``source_url`` name what
    runs outside and is then not started here.
    """

    def __init__(
        self,
        home: Path,
        env: Mapping[str, str],
        prefect_port: int = 4200,
        *,
        api_port: int = 8000,
        prefect_api_url: str | None = None,
        database_url: str | None = None,
        source_url: str | None = None,
    ) -> None:
        self.home = home.expanduser().resolve()
        self.logs = self.home / "logs"
        self._env = env
        self._port = prefect_port
        self._api_port = api_port
        self._prefect_api_url = prefect_api_url
        self._database_url = database_url
        self._source_url = source_url
        self._postgres = EmbeddedPostgres(self.home)
        self._needs_postgres = database_url is None or source_url is None
        self._state = State(self.home)
        self._children: list[Child] = []
        self._standings: dict[str, Standing] = {}
        self._handlers: dict[signal.Signals, Any] = {}

    def up(self, on_event: OnEvent) -> bool:
        """Start everything and wait until all of it answers.

        Returns False, having done nothing, when the stack is up already. Otherwise this process is its supervisor
        and must call ``wait``.

        Raises:
            Unavailable: a component cannot be started; what had been started is stopped again.
        """
        if not self._state.take():
            return False
        self._handlers = {name: signal.signal(name, _interrupt) for name in STOP_SIGNALS}
        try:
            self._clear_orphans()
            self._start(on_event)
        except BaseException:
            self._stop(on_event)
            raise
        return True

    def wait(self, on_event: OnEvent) -> None:
        """Keep the stack up until SIGINT or SIGTERM, then stop it."""
        try:
            while True:
                time.sleep(LOOK_SECONDS)
                self._mend(on_event)
        except KeyboardInterrupt:
            pass
        finally:
            self._stop(on_event)

    def detach(self, on_event: OnEvent) -> bool:
        """Start the stack under a supervisor of its own that outlives this process; False when it is up already.

        Raises:
            Unavailable: with the supervisor's own words, when it gives up.
        """
        if self._state.ready():
            return False
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / "stack.log"
        with log.open("wb") as output:
            supervisor = subprocess.Popen(
                [sys.executable, "-m", "outhaul", "up"],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + DETACH_SECONDS
        seen: dict[str, Standing] = {}
        while not self._state.ready():
            seen = self._report_changes(seen, on_event)
            if supervisor.poll():
                words = log.read_text().strip().splitlines() or ["the stack did not start"]
                raise Unavailable(words[-1].removeprefix("outhaul: "), detail="\n".join(words))
            if time.monotonic() > deadline:
                raise Unavailable(f"the stack does not get ready; see {self.logs}")
            time.sleep(processes.POLL_SECONDS)
        supervisor.returncode = 0  # it lives on: nobody is to wait for it here
        self._report_changes(seen, on_event)
        return True

    def down(self, on_event: OnEvent) -> bool:
        """Stop the stack, whoever runs it; False when it was not up."""
        supervisor = self._state.supervisor()
        if supervisor:
            on_event("stack", "stopping")
            processes.end([supervisor], DOWN_SECONDS)
        orphans = self._clear_orphans()
        self._postgres.stop()
        return supervisor is not None or orphans

    def status(self) -> list[Standing]:
        """How each component stands, whoever runs the stack."""
        recorded = self._state.components()
        found = [self._postgres_standing(), self._prefect_standing(recorded)]
        return [*found, *(_standing(name, recorded) for name in (*map(worker_name, WORKERS), API))]

    def _start(self, on_event: OnEvent) -> None:
        self.logs.mkdir(exist_ok=True)
        self._standings = {}
        self._state.write([], ready=False)
        if self._prefect_api_url is None:
            _require_free(self._port, "OUTHAUL_PREFECT_PORT")
        _require_free(self._api_port, "OUTHAUL_API_PORT")
        if self._needs_postgres:
            self._note(on_event, "postgres", "starting")
            url = self._postgres.start()
            self._note(on_event, "postgres", "running", self._postgres.pid(), url)
        env = environment(
            self._env,
            self.home,
            prefect_api_url=self._prefect_api_url or api_url(self._port),
            database_url=self._database_url or self._postgres.url("outhaul"),
            source_url=self._source_url or self._postgres.url("demo"),
        )
        stages = components(port=self._port, api_port=self._api_port, embedded_prefect=self._prefect_api_url is None)
        for stage in stages:
            started = [Child(component, env, self.logs) for component in stage]
            for child in started:
                self._children.append(child)
                self._note(on_event, child.component.name, "starting")
                child.start()
            for child in started:
                child.await_ready()
                state = "done" if child.component.step else "running"
                self._note(on_event, child.component.name, state, child.pid, child.component.address)
            self._children = [child for child in self._children if not child.component.step]
        self._state.write([*self._standings.values()], ready=True)

    def _note(self, on_event: OnEvent, name: str, state: str, pid: int | None = None, address: str = "") -> None:
        """Tell of a change, here and in the record."""
        self._standings[name] = Standing(name, state, pid, address)
        self._state.write([*self._standings.values()], ready=False)
        on_event(name, _described(self._standings[name]))

    def _report_changes(self, seen: dict[str, Standing], on_event: OnEvent) -> dict[str, Standing]:
        """Tell of what has changed in the record of another process; returns what it holds now."""
        now = self._state.components()
        for name, standing in now.items():
            if seen.get(name) != standing:
                on_event(name, _described(standing))
        return now

    def _mend(self, on_event: OnEvent) -> None:
        if self._needs_postgres and not self._postgres.is_running():
            on_event("postgres", "died; starting again")
            with suppress(OuthaulError):
                self._postgres.start()
        for child in self._children:
            before = child.pid
            child.mend(on_event)
            if child.pid != before:
                name = child.component.name
                self._standings[name] = Standing(name, "running", child.pid, child.component.address)
                self._state.write([*self._standings.values()], ready=True)

    def _stop(self, on_event: OnEvent) -> None:
        _ignore_signals()
        for child in reversed(self._children):
            on_event(child.component.name, "stopping")
            child.stop()
        self._children = []
        self._clear_orphans()
        self._postgres.stop()
        self._state.release()
        on_event("stack", "stopped")
        for name, handler in self._handlers.items():
            signal.signal(name, handler)

    def _clear_orphans(self) -> bool:
        """End what an earlier supervisor or one of our own components has left behind."""
        orphans = processes.marked(MARK, str(self.home))
        processes.end(orphans, ORPHAN_SECONDS)
        return bool(orphans)

    def _postgres_standing(self) -> Standing:
        if self._database_url is not None:
            return Standing("postgres", "outside", None, "OUTHAUL_DATABASE_URL")
        pid = self._postgres.pid()
        return Standing("postgres", "running" if pid else "stopped", pid, self._postgres.url() if pid else "")

    def _prefect_standing(self, recorded: dict[str, Standing]) -> Standing:
        if self._prefect_api_url is None:
            return _standing("prefect", recorded)
        state = "outside" if answers(f"{self._prefect_api_url}/health") else "unreachable"
        return Standing("prefect", state, None, self._prefect_api_url)


def _standing(name: str, recorded: dict[str, Standing]) -> Standing:
    standing = recorded.get(name)
    if standing is None or standing.pid is None or not psutil.pid_exists(standing.pid):
        return Standing(name, "stopped", None, "")
    return standing


def _described(standing: Standing) -> str:
    return f"{standing.state} at {standing.address}" if standing.address else standing.state


def _require_free(port: int, setting: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise Unavailable(f"port {port} is in use by another program: set {setting}") from None


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    _ignore_signals()  # often a signal comes twice, and the second must not break off the clean stop
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for name in STOP_SIGNALS:
        signal.signal(name, signal.SIG_IGN)
