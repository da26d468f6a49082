"""A whole stack, as a user starts it, for the tests of this folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Stack:
    """Runs the ``outhaul`` command against a home of its own."""

    home: Path
    port: int = field(default_factory=free_port)
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command and hold it to its exit status."""
        own = ("OUTHAUL_", "PREFECT_", "AWS_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        base = {"OUTHAUL_HOME": str(self.home), "OUTHAUL_PREFECT_PORT": str(self.port), **self.env, **env}
        done = subprocess.run(
            [sys.executable, "-m", "outhaul", *words],
            env={**clean, **base},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

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

    def path(self, key: str) -> Path:
        return self.home / "files" / key

    def prefect(self, path: str, **body: Any) -> Any:
        """Ask Prefect's API; with a body, by POST."""
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        answer = httpx.post(url, json=body) if body else httpx.get(url)
        return answer.raise_for_status().json()


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
