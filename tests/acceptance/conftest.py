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
from typing import IO, TYPE_CHECKING, Any

import httpx
import psutil
import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

LOG_LINES = 80


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the stack was doing to the report of a failed test: its folder is gone afterwards."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, Stack):
        report.sections.extend(stack.describe())
    return report


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
        (postgres,) = [part for part in self.json("status")["components"] if part["component"] == "postgres"]
        return postgres["address"]

    def describe(self) -> Iterator[tuple[str, str]]:
        """The history of each job and the end of each log, as titled texts."""
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=5) as connection:
            history = connection.execute("SELECT job_id, at, event, actor, detail FROM job_events ORDER BY id")
            yield "jobs", "\n".join(" ".join(map(str, row)) for row in history)
        for log in sorted((self.home / "logs").glob("*.log")):
            yield log.name, "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def path(self, key: str) -> Path:
        return self.home / "files" / key

    def prefect(self, path: str, **body: Any) -> Any:
        """Ask Prefect's API; with a body, by POST."""
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        answer = httpx.post(url, json=body) if body else httpx.get(url)
        return answer.raise_for_status().json()

    def process_of_run(self, run_id: Any) -> psutil.Process | None:
        """The process that carries out a run; None until its worker has told Prefect, which the run may be ahead of."""
        pid = self.prefect(f"flow_runs/{run_id}")["infrastructure_pid"]
        return psutil.Process(int(pid)) if pid else None


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A running stack for one module with the demo's data and tenants; retries come after a second."""
    with tempfile.TemporaryDirectory(prefix="outhaul-stack-") as folder:
        stack = Stack(Path(folder))
        stack.up(OUTHAUL_RETRY_DELAYS="1,1,1", OUTHAUL_HEARTBEAT_SECONDS="1", OUTHAUL_LEASE_SECONDS="15")
        try:
            prepare(stack)
            yield stack
        finally:
            stack.down()


def prepare(stack: Stack) -> None:
    from outhaul.demo.load import load

    load(stack.url.replace("/outhaul?", "/demo?"))
    for tenant in ("UA", "DL", "AA"):
        stack.run("tenants", "add", tenant)
