"""Why a job is not running yet: the one limit that binds, its place in line, and about how long that will take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from outhaul.domain.job import Status
from outhaul.domain.pause import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from outhaul.domain.job import Job
    from outhaul.domain.pause import Pause


class Limit(StrEnum):
    """What a job can wait for."""

    PAUSE = "pause"
    SOURCE_DOWN = "source_down"
    TENANT_DISABLED = "tenant_disabled"
    RETRY = "retry"
    TENANT_CAP = "tenant_cap"
    SOURCE_CAP = "source_cap"
    QUEUE_CAP = "queue_cap"
    TURN = "turn"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database says about a waiting job's surroundings, read at one moment."""

    is_due: bool
    export_enabled: bool
    max_concurrent_jobs: int
    of_tenant: int  # jobs under way
    of_source: int
    all_jobs: int
    ahead: int  # jobs in line before this one, over all tenants
    usual: timedelta | None  # median duration of recent exports
    pauses: Sequence[Pause]  # that hold this job, the widest first
    max_active: int
    max_per_source: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job waits.

    Attributes:
        limit: what binds.
        reason: the same in words for the asker.
        position: place in line, from 1; None for a job that has left the line.
        until: when this limit ends, if that is known.
        estimate: about how long until it starts, by the median of recent exports; None if nobody can tell.
    """

    limit: Limit
    reason: str
    position: int | None = None
    until: datetime | None = None
    estimate: timedelta | None = None


def explain(job: Job, facts: Facts) -> Wait | None:
    """Say why ``job`` waits; None for one that is running or has ended."""
    match job.status:
        case Status.FAILED if not facts.is_due:
            return Wait(Limit.RETRY, f"retry {job.retry_count} is due", until=job.run_after)
        case Status.QUEUED:
            return Wait(Limit.WORKER, "it has a place and waits for a worker")
        case Status.ENQUEUED | Status.FAILED:
            return _in_line(job, facts)
        case _:
            return None


def _in_line(job: Job, facts: Facts) -> Wait:
    position = facts.ahead + 1
    if facts.pauses:
        pause = facts.pauses[0]
        down = pause.automatic and pause.scope is Scope.SOURCE
        reason = f"{pause.thing} is {'down' if down else 'paused'}" + (f": {pause.reason}" if pause.reason else "")
        return Wait(Limit.SOURCE_DOWN if down else Limit.PAUSE, reason, position, pause.until)
    if not facts.export_enabled:
        return Wait(Limit.TENANT_DISABLED, f"exports of tenant {job.tenant} are disabled", position)
    estimate = facts.usual * (1 + facts.ahead // facts.max_active) if facts.usual else None
    caps = (
        (Limit.TENANT_CAP, f"tenant {job.tenant}", facts.of_tenant, facts.max_concurrent_jobs),
        (Limit.SOURCE_CAP, f"source {job.source}", facts.of_source, facts.max_per_source),
        (Limit.QUEUE_CAP, "the queue", facts.all_jobs, facts.max_active),
    )
    for limit, owner, used, most in caps:
        if used >= most:
            return Wait(limit, f"all {most} places of {owner} are taken", position, estimate=estimate)
    return Wait(Limit.TURN, "it is admitted at the next look, within a minute", position, estimate=estimate)
