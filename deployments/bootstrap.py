"""Sets up a Prefect server for Outhaul: ``python -m deployments.bootstrap``; safe to repeat.

The server is the one that ``PREFECT_API_URL`` names. Pools are made here, for ``prefect work-pool create`` fails the
second time and with ``--overwrite`` forgets the limit; the deployments are those of ``prefect.yaml``.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectException
from prefect.settings import get_current_settings
from prefect.workers.process import ProcessWorker

from outhaul.errors import OuthaulError, Unavailable
from outhaul.orchestrator import FLOWS
from outhaul.wiring import outhaul

ROOT = Path(__file__).resolve().parent.parent
# Runs at once in each pool; workers get such a number as --limit, too, for the pool's own is only advisory under load.
# A pool counts runs whose process died unseen, so maintenance, which looks for these, must not be held up by a limit.
POOLS = {"exports": 4, "maintenance": None}
SILENT_SECONDS = 100  # three beats of PREFECT_FLOWS_HEARTBEAT_FREQUENCY as `outhaul up` sets it, and some


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
            _set_up(client, _silence())
            with outhaul() as oh:
                if block := oh.settings.alert_block:
                    _set_up(client, _idle_pools(client, block))
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise Unavailable("Prefect's API does not answer: check PREFECT_API_URL", detail=str(error)) from error
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Unavailable("Prefect refused the deployments of prefect.yaml", detail=done.stdout + done.stderr)


def _set_up_pool(client: SyncPrefectClient, name: str, limit: int | None) -> None:
    template = ProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template, concurrency_limit=limit)
    with suppress(ObjectAlreadyExists):
        client.create_work_pool(pool)
    client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=limit))


def _silence() -> AutomationCore:
    """A second net beside the sweep: runs that stop beating without an end are crashed, in whatever pool."""
    ends = {f"prefect.flow-run.{name}" for name in ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")}
    silence = EventTrigger(
        match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
        match_related=ResourceSpecification({"prefect.resource.role": "flow", "prefect.resource.name": [*FLOWS]}),
        for_each={"prefect.resource.id"},
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", *ends},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=SILENT_SECONDS),
    )
    crash = ChangeFlowRunState(state=StateType.CRASHED, message=f"No sign of life for {SILENT_SECONDS} s.")
    return AutomationCore(name="outhaul: runs that fell silent", trigger=silence, actions=[crash])


def _idle_pools(client: SyncPrefectClient, block: str) -> AutomationCore:
    """Tells the operators when a pool of ours has lost its last worker, which the queue's own alerts tell of later."""
    slug, _, name = block.partition("/")
    try:
        told = client.read_block_document_by_name(name, slug).id
    except ObjectNotFound:
        raise Unavailable(f"OUTHAUL_ALERT_BLOCK: Prefect has no block {block!r}") from None
    idle = EventTrigger(
        match=ResourceSpecification({"prefect.resource.id": "prefect.work-pool.*", "prefect.resource.name": [*POOLS]}),
        expect={"prefect.work-pool.not-ready"},
        posture=Posture.Reactive,
        threshold=1,
    )
    tell = SendNotification(
        block_document_id=told,
        subject="Outhaul",
        body="No worker takes runs from the pool {{ work_pool.name }}: start one with `outhaul worker`.",
    )
    return AutomationCore(name="outhaul: pools without a worker", trigger=idle, actions=[tell])


def _set_up(client: SyncPrefectClient, automation: AutomationCore) -> None:
    standing = client.read_automations_by_name(automation.name)
    if standing:
        client.update_automation(standing[0].id, automation)
    else:
        client.create_automation(automation)


if __name__ == "__main__":
    try:
        bootstrap()
    except OuthaulError as error:
        sys.exit(f"outhaul: {error.message}\n{error.detail}".rstrip())
