"""A Prefect worker that drains: told to stop, it takes nothing new, lets runs finish, and then has them hand back.

Prefect's own kills its runs when it is told to stop. Their code is told nothing, and to Prefect they run for ever. It
also reports a crash twice, before and after the run's hooks: the second time undoes the retry that a hook arranged.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from outhaul.errors import InvalidRequest, unknown
from outhaul.stack.components import WORKERS
from outhaul.stack.processes import terminate

if TYPE_CHECKING:
    from datetime import timedelta

    from prefect.workers.process import ProcessWorker

HAND_BACK_SECONDS = 20.0  # for runs to hand their jobs back once they are told to
LOOK_SECONDS = 0.1
SETTINGS = {
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # the automation for silent runs counts on it
}


def work(pool: str, *, limit: int | None, grace: timedelta, name: str | None) -> None:
    """Work off a pool's runs until SIGTERM or SIGINT, then drain. A second signal ends the grace.

    Args:
        pool: one of ``WORKERS``.
        limit: runs at once; None for the pool's usual number.
        grace: how long runs may go on once the worker is told to stop.
        name: what Prefect shows; None for the pool's own.

    Raises:
        InvalidRequest: one of them cannot be.
    """
    if pool not in WORKERS:
        raise InvalidRequest("pool", unknown("pool", pool, WORKERS))
    if limit is not None and limit < 1:
        raise InvalidRequest("limit", "must be at least 1")
    if grace.total_seconds() < 0:
        raise InvalidRequest("grace", "must not be negative")
    for setting, value in SETTINGS.items():
        os.environ.setdefault(setting, value)  # Prefect reads them when it is first imported
    # The deployments say `python`, which must be the one that has Outhaul.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    worker = _draining_worker()(
        work_pool_name=pool, name=name or pool, limit=limit or WORKERS[pool], prefetch_seconds=1
    )
    asyncio.run(_serve(worker, grace.total_seconds()))


def _draining_worker() -> type[Any]:
    from prefect.workers.process import ProcessWorker

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Type 'DrainingWorker'")  # is of the type of its base, as it should be

        class DrainingWorker(ProcessWorker):
            """Takes no new runs once ``draining`` is set, and leaves alone what a hook has arranged."""

            draining = False

            async def get_and_submit_flow_runs(self) -> list[Any]:
                """Look for runs that are due, and start them."""
                return [] if self.draining else await super().get_and_submit_flow_runs()

            async def _propose_crashed_state(self, flow_run: Any, message: str, client: Any = None) -> None:
                state = (await self.client.read_flow_run(flow_run.id)).state
                if state is None or not (state.is_final() or state.is_scheduled()):
                    await super()._propose_crashed_state(flow_run, message, client)

    return DrainingWorker


async def _serve(worker: Any, grace: float) -> None:
    told: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # Also where the shell has set SIGINT to be ignored, as for what it starts by `&`.
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, told.put_nowait, None)
    serving = asyncio.create_task(worker.start())
    stop = asyncio.create_task(told.get())
    await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        await _drain(worker, grace, told)
        serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def _drain(worker: ProcessWorker, grace: float, told: asyncio.Queue[None]) -> None:
    worker.draining = True  # type: ignore[attr-defined]
    _say(f"draining: {worker.limiter.borrowed_tokens} runs under way, {grace:.0f} s of grace")
    await _until_idle(worker, grace, told)
    if worker.limiter.borrowed_tokens:
        terminate(psutil.Process().children(recursive=True))
        await _until_idle(worker, HAND_BACK_SECONDS, asyncio.Queue())
    _say(f"drained: {worker.limiter.borrowed_tokens} runs left")


async def _until_idle(worker: ProcessWorker, seconds: float, told: asyncio.Queue[None]) -> None:
    """Wait until no run is under way, so many seconds have passed, or a signal comes."""
    end = asyncio.get_running_loop().time() + seconds
    while worker.limiter.borrowed_tokens and asyncio.get_running_loop().time() < end and told.empty():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)  # Prefect's count of runs tells nobody of its changes


def _say(line: str) -> None:
    sys.stderr.write(f"outhaul: {line}\n")
