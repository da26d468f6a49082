"""A whole stack, as a user starts it, for the tests of this folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any, TypeVar

import httpx
import psutil
import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

T = TypeVar("T")
LOG_LINES = 80
ENDED = {"completed", "dead", "cancelled"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the stack was doing to the report of a failed test: its folder is gone afterwards."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, Stack):
        report.sections.extend(stack.describe())
    return report


def until(what: Callable[[], T], seconds: float = 120) -> T:
    """Ask again and again until the answer is true, and return it. A database may be away for a moment."""
    end = monotonic() + seconds
    while True:
        away = None
        try:
            if answer := what():
                return answer
        except psycopg.OperationalError as error:
            away = error
        if monotonic() > end:
            raise AssertionError("it did not happen") from away
        sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Stack:
    """Runs the ``outhaul`` command against a home of its own."""

    home: Path
    port: int = field(default_factory=free_port)
    api_port: int = field(default_factory=free_port)
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command and hold it to its exit status."""
        done = subprocess.run(
            [sys.executable, "-m", "outhaul", *words],
            env=self._environment(env),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words: str, log: IO[bytes], **env: str) -> subprocess.Popen[bytes]:
        """Start a command that stays."""
        command = [sys.executable, "-m", "outhaul", *words]
        return subprocess.Popen(command, env=self._environment(env), stdout=log, stderr=log)

    def _environment(self, env: dict[str, str]) -> dict[str, str]:
        own = ("OUTHAUL_", "PREFECT_", "AWS_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        ports = {"OUTHAUL_PREFECT_PORT": str(self.port), "OUTHAUL_API_PORT": str(self.api_port)}
        return {**clean, "OUTHAUL_HOME": str(self.home), **ports, **self.env, **env}

    def json(self, *words: str, code: int = 0, **env: str) -> Any:
        return json.loads(self.run(*words, "--json", code=code, **env).stdout)

    def up(self, **env: str) -> None:
        self.env.update(env)
        self.run("up", "--detach")

    def down(self) -> None:
        self.run("down")

    @cached_property
    def url(self) -> str:
        """The queue's database."""
        return self._component("postgres")["address"]

    @property
    def source(self) -> str:
        """The database with the demo's data."""
        return self.url.replace("/outhaul?", "/demo?")

    def _component(self, name: str) -> dict[str, Any]:
        (found,) = [part for part in self.json("status")["components"] if part["component"] == name]
        return found

    def process_of(self, component: str) -> psutil.Process | None:
        """The process of a part of the stack; None while there is none."""
        pid = self._component(component)["pid"]
        return psutil.Process(pid) if pid else None

    def job(self, job_id: Any) -> dict[str, Any]:
        """The job's row."""
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute("SELECT * FROM export_jobs WHERE id = %s", [job_id])
            return dict(zip([column.name for column in cursor.description], cursor.fetchone(), strict=True))

    def ended(self, job_id: Any, seconds: float = 120) -> dict[str, Any]:
        """The job's row once it has ended."""
        return until(lambda: (job := self.job(job_id))["status"] in ENDED and job, seconds)

    def describe(self) -> Iterator[tuple[str, str]]:
        """The history of each job and the end of each log, as titled texts."""
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=5) as connection:
            history = connection.execute("SELECT job_id, at, event, actor, detail FROM job_events ORDER BY id")
            yield "jobs", "\n".join(" ".join(map(str, row)) for row in history)
        for log in sorted((self.home / "logs").glob("*.log")):
            yield log.name, "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    @property
    def api_url(self) -> str:
        """The HTTP API."""
        return f"http://127.0.0.1:{self.api_port}"

    def path(self, key: str) -> Path:
        return self.home / "files" / key

    def prefect(self, path: str, method: str = "", **body: Any) -> Any:
        """Ask Prefect's API; with a body, by POST."""
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        for _ in range(20):
            answer = httpx.request(method or ("POST" if body else "GET"), url, json=body or None)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:  # what it says while its database is locked
                break
            sleep(0.5)
        return answer.raise_for_status().json() if answer.content else None

    def pages(self, run_id: Any, key: str) -> list[str]:
        """What a run has left under a key, newest first; waits for it, since it comes a moment after the job's end."""
        wanted = {"flow_run_id": {"any_": [str(run_id)]}, "key": {"any_": [key]}}
        for _ in range(50):
            if found := self.prefect("artifacts/filter", artifacts=wanted, sort="CREATED_DESC"):
                return [artifact["data"] for artifact in found]
            sleep(0.2)
        return []

    def process_of_run(self, run_id: Any) -> psutil.Process | None:
        """The process that carries out a run; None until its worker has told Prefect, which the run may be ahead of."""
        pid = self.prefect(f"flow_runs/{run_id}")["infrastructure_pid"]
        return psutil.Process(int(pid)) if pid else None


@pytest.fixture(scope="module")
def stack_env() -> dict[str, str]:
    """A module's own settings."""
    return {}


@pytest.fixture(scope="module")
def stack(stack_env: dict[str, str]) -> Iterator[Stack]:
    """A running stack for one module with the demo's data and tenants; retries come after a second."""
    with tempfile.TemporaryDirectory(prefix="outhaul-stack-") as folder:
        stack = Stack(Path(folder))
        stack.up(OUTHAUL_RETRY_DELAYS="1,1,1", OUTHAUL_HEARTBEAT_SECONDS="1", OUTHAUL_LEASE_SECONDS="15", **stack_env)
        try:
            prepare(stack)
            yield stack
        finally:
            stack.down()


def prepare(stack: Stack) -> None:
    from outhaul.demo.load import load

    load(stack.source)
    for tenant in ("UA", "DL", "AA"):
        stack.run("tenants", "add", tenant)
