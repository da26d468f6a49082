"""The HTTP API under a steady load, on a stack of its own that is made for it and thrown away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psutil
from cyclopts import App, Parameter
from pydantic import SecretStr

from bench import api_load
from bench.command import run
from bench.data_path import say
from outhaul import console
from outhaul.demo.load import airlines, load
from outhaul.errors import InvalidRequest, Unavailable
from outhaul.settings import Settings
from outhaul.stack.postgres import EmbeddedPostgres
from outhaul.stack.state import State
from outhaul.wiring import outhaul

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTOR = "bench"
UNLIMITED = 1_000_000

app = App(name="python -m bench.api", help="Measure the HTTP API on a stack of its own.")


@app.default
def bench(
    *,
    gets: Annotated[float, Parameter(help="Looks at an export in a second.")] = 200,
    posts: Annotated[float, Parameter(help="Requests for an export in a second.")] = 50,
    seconds: Annotated[float, Parameter(help="For how long.")] = 60,
    paused: Annotated[
        bool, Parameter(negative="", help="Pause the queue first: the API alone is measured, no worker beside it.")
    ] = False,
) -> None:
    """Start a stack, keep up both rates for a while, print how long the answers took, and stop it."""
    for name, value in (("gets", gets), ("posts", posts), ("seconds", seconds)):
        if value * seconds < 2:
            raise InvalidRequest(name, "too little to tell anything of")
    with tempfile.TemporaryDirectory(prefix="outhaul-bench-") as folder, stack(Path(folder)) as port:
        keys = prepare(Path(folder), paused=paused)
        server = psutil.Process(State(Path(folder)).components()["api"].pid)
        say(f"{gets:g} looks and {posts:g} requests a second for {seconds:g} s")
        before = server.cpu_times()
        found = api_load.run(port, keys, gets=gets, posts=posts, seconds=seconds)
        cpu = sum(server.cpu_times()[:2]) - sum(before[:2])
    show(found, cpu)


@contextmanager
def stack(home: Path) -> Iterator[int]:
    """A whole stack in this folder; yields the API's port. Raises Unavailable when it does not start."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OUTHAUL_", "PREFECT_"))}
    prefect, api = free_port(), free_port()
    env |= {
        "OUTHAUL_HOME": str(home),
        "OUTHAUL_PREFECT_PORT": str(prefect),
        "OUTHAUL_API_PORT": str(api),
        "OUTHAUL_REQUESTS_PER_MINUTE": str(UNLIMITED),
        "OUTHAUL_MAX_WAITING_JOBS": str(UNLIMITED),
    }
    outhaul_ = [sys.executable, "-m", "outhaul"]
    try:
        say("the stack starts")
        up = subprocess.run([*outhaul_, "up", "--detach"], env=env, capture_output=True, text=True, check=False)
        if up.returncode:
            raise Unavailable("the stack does not start", detail=up.stderr)
        yield api
    finally:
        subprocess.run([*outhaul_, "down"], env=env, capture_output=True, check=False)


def prepare(home: Path, *, paused: bool) -> list[str]:
    """Load the demo's data, make a key for each airline, and return the keys."""
    server = EmbeddedPostgres(home)
    load(server.url("demo"))
    with outhaul(Settings(home=home, database_url=SecretStr(server.url("outhaul")))) as oh:
        if paused:
            oh.pausing.pause("queue", "", actor=ACTOR)
        codes = [code for code, _ in airlines()]
        for code in codes:
            oh.tenants.add(code, "free", 2)
        return [oh.access.create(code, ACTOR, ["read", "write"], actor=ACTOR)[1] for code in codes]


def show(found: api_load.Load, cpu: float) -> None:
    """Print the tables."""
    right = ["a second", "answered", "p50 ms", "p95 ms", "p99 ms", "max ms"]
    console.table(
        ["request", *right, "errors"],
        [
            (
                kind.name,
                f"{kind.rate:g}",
                f"{len(kind.seconds):,}",
                *(f"{ms:,.1f}" for ms in kind.percentiles),
                ", ".join(f"{times} x {error}" for error, times in kind.errors.items()) or "none",
            )
            for kind in found.kinds
        ],
        right=right,
    )
    answered = sum(len(kind.seconds) for kind in found.kinds)
    console.out.print(
        f"\n{found.per_second:.0f} a second over {found.seconds:.1f} s; the server took {1000 * cpu / answered:.1f} ms "
        f"of processor time for each; the client sent {found.late:,} later than 5 ms after they were due"
    )


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    run(app)
