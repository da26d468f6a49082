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

from outhaul.errors import InvalidRequest, Unavailable, unknown
from outhaul.stack.components import WORKERS
from outhaul.stack.processes import terminate
from outhaul.stack.spare import Spare

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from prefect.workers.process import ProcessWorker

HAND_BACK_SECONDS = 20.0  # for runs to hand their jobs back once they are told to
LOOK_SECONDS = 0.1
# What a pool's runs come to import. A sweep has the time to do so itself, and a process on standby takes memory.
PRELOAD = {"exports": ("prefect.flow_engine", "flows.export", "outhaul.service.preload")}
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
        Unavailable: Prefect does not answer.
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
    asyncio.run(_serve(worker, _spare(PRELOAD.get(pool, ())), grace.total_seconds()))


def _spare(preload: tuple[str, ...]) -> Spare:
    """What every run of this process gets its own process from."""
    from prefect.settings import get_current_settings
    from prefect.utilities import processutils

    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    spare = Spare(processutils.open_process, preload, {**os.environ, **settings})
    processutils.open_process = spare.open_process  # Prefect has no other place for it
    return spare


def _draining_worker() -> type[Any]:
    from prefect.workers.process import ProcessWorker

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Type 'DrainingWorker'")  # is of the type of its base, as it should be

        class DrainingWorker(ProcessWorker):
            """Takes no new runs once ``draining`` is set, and leaves alone what a hook has arranged."""

            draining = False

            async def _submit_scheduled_flow_runs(self, flow_run_response: list[Any]) -> list[Any]:
                # Here and not before Prefect is asked: its answer may have been under way when the signal came.
                return [] if self.draining else await super()._submit_scheduled_flow_runs(flow_run_response)

            async def _propose_crashed_state(self, flow_run: Any, message: str, client: Any = None) -> None:
                state = (await self.client.read_flow_run(flow_run.id)).state
                if state is None or not (state.is_final() or state.is_scheduled()):
                    await super()._propose_crashed_state(flow_run, message, client)

    return DrainingWorker


async def _serve(worker: Any, spare: Spare, grace: float) -> None:
    told: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # Also where the shell has set SIGINT to be ignored, as for what it starts by `&`.
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, told.put_nowait, None)
    await _require_prefect()
    spare.prepare()
    serving = asyncio.create_task(worker.start())
    stop = asyncio.create_task(told.get())
    await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
    await spare.close()
    if not serving.done():
        await _drain(worker, grace, told)
        serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def _require_prefect() -> None:
    from prefect.client.orchestration import get_client

    async with get_client() as client:
        error = await client.api_healthcheck()
    if error:
        raise Unavailable(f"Prefect does not answer at {client.api_url}: check PREFECT_API_URL", detail=repr(error))


async def _drain(worker: ProcessWorker, grace: float, told: asyncio.Queue[None]) -> None:
    worker.draining = True  # type: ignore[attr-defined]
    _say(f"draining: {worker.limiter.borrowed_tokens} runs under way, {grace:.0f} s of grace")
    await _until_idle(worker, grace, told.empty)
    asked: set[psutil.Process] = set()

    def ask() -> bool:
        # Each once, and also one that was only about to start: a second signal would cut short what the first began.
        runs = set(psutil.Process().children(recursive=True))
        terminate(runs - asked)
        asked.update(runs)
        return True

    await _until_idle(worker, HAND_BACK_SECONDS, ask)
    _say(f"drained: {worker.limiter.borrowed_tokens} runs left")


async def _until_idle(worker: ProcessWorker, seconds: float, patient: Callable[[], bool]) -> None:
    """Wait until no run is under way, so many seconds have passed, or patience is at an end."""
    end = asyncio.get_running_loop().time() + seconds
    while worker.limiter.borrowed_tokens and asyncio.get_running_loop().time() < end and patient():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)  # Prefect's count of runs tells nobody of its changes


def _say(line: str) -> None:
    sys.stderr.write(f"outhaul: {line}\n")
