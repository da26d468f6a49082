"""Sets up a Prefect server for Outhaul: ``python -m deployments.bootstrap``; safe to repeat, also by several at once.

The server is the one that ``PREFECT_API_URL`` names. Pools are made here, for ``prefect work-pool create`` fails the
second time and with ``--overwrite`` forgets the limit; the deployments are those of ``prefect.yaml``.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectAlreadyExists, PrefectException
from prefect.settings import get_current_settings
from prefect.workers.process import ProcessWorker

from outhaul.errors import OuthaulError, Unavailable

ROOT = Path(__file__).resolve().parent.parent
# Runs at once in each pool; workers get the same number as --limit, for the pool's own is only advisory under load.
POOLS = {"exports": 4, "maintenance": 2}


def bootstrap() -> None:
    """Make or update the pools and deployments.

    Raises:
        Unavailable: when no server is named, or it does not answer or refuses; ``detail`` has Prefect's words.
    """
    if not get_current_settings().api.url:  # Prefect would start a server for the occasion and set up that one
        raise Unavailable("PREFECT_API_URL is not set: it names the Prefect server to set up")
    try:
        with get_client(sync_client=True) as client:
            for name, limit in POOLS.items():
                _set_up_pool(client, name, limit)
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise Unavailable("Prefect's API does not answer: check PREFECT_API_URL", detail=str(error)) from error
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Unavailable("Prefect refused the deployments of prefect.yaml", detail=done.stdout + done.stderr)


def _set_up_pool(client: SyncPrefectClient, name: str, limit: int) -> None:
    template = ProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template, concurrency_limit=limit)
    with suppress(ObjectAlreadyExists):
        client.create_work_pool(pool)
    client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=limit))


if __name__ == "__main__":
    try:
        bootstrap()
    except OuthaulError as error:
        sys.exit(f"outhaul: {error.message}\n{error.detail}".rstrip())
