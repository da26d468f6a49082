"""The table of what the stack runs: each component with its command, its environment and how it shows that it works."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "OUTHAUL_STACK"  # in the environment of every process of a stack, with its home as the value
HOST = "127.0.0.1"
API = "api"  # what the HTTP API is called in logs and in the status
WORKERS = {"exports": 4, "maintenance": 2}  # runs at once; the pools are those of deployments.bootstrap.POOLS


@dataclass(frozen=True, slots=True)
class Component:
    """One process of the stack.

    It is ready when ``health`` answers, or when its log holds ``says``; with neither it is a step that is ready once
    it has ended well. Told to stop, it is given ``stop_seconds`` before it is killed.
    """

    name: str
    command: tuple[str, ...]
    address: str = ""
    health: str = ""
    says: str = ""
    stop_seconds: float = 10.0

    @property
    def step(self) -> bool:
        """Whether it does its work and ends."""
        return not self.health and not self.says


def components(*, port: int, api_port: int, embedded_prefect: bool) -> list[list[Component]]:
    """What to start, in stages: those of one stage start side by side, the next stage when all of them are ready."""
    prefect = (sys.executable, "-m", "prefect")
    server = Component(
        "prefect",
        (*prefect, "server", "start", "--host", HOST, "--port", str(port)),
        address=f"http://{HOST}:{port}",
        health=f"{api_url(port)}/health",
    )
    schema = Component("schema", (sys.executable, "-m", "outhaul", "migrate", "up"))
    deployments = Component("deployments", (sys.executable, "-m", "deployments.bootstrap"))
    workers = [
        Component(
            worker_name(pool),
            (sys.executable, "-m", "outhaul", "worker", pool, "--grace", "0"),
            says=f"Worker '{pool}' started!",
            stop_seconds=30.0,  # its runs hand back their jobs
        )
        for pool in WORKERS
    ]
    # Clients that hang up before the server does never find a connection closed that they were about to use.
    options = ("--host", HOST, "--port", str(api_port), "--no-access-log", "--timeout-keep-alive", "75")
    api = Component(
        API,
        (sys.executable, "-m", "uvicorn", "api.app:app", *options),
        address=f"http://{HOST}:{api_port}",
        health=f"http://{HOST}:{api_port}/readyz",
    )
    return [[schema, server] if embedded_prefect else [schema], [deployments, *workers, api]]


def environment(
    base: Mapping[str, str], home: Path, *, prefect_api_url: str, database_url: str, source_url: str
) -> dict[str, str]:
    """The environment of every component, and through the workers of every flow run."""
    return {
        **base,
        MARK: str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), base.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "OUTHAUL_HOME": str(home),
        "OUTHAUL_DATABASE_URL": database_url,
        "OUTHAUL_SOURCE_URL": source_url,
        "PREFECT_API_URL": prefect_api_url,
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        # In memory, leases would be lost with the server, and their holders crashed.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    }


def worker_name(pool: str) -> str:
    """What the worker of a pool is called in logs and in the status."""
    return f"worker {pool}"


def api_url(port: int) -> str:
    """The API of the embedded Prefect server."""
    return f"http://{HOST}:{port}/api"
