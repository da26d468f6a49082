"""What a job is, as every front and the store speak of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class Status(StrEnum):
    """Where a job stands; who moves it on is written beside each."""

    ENQUEUED = "enqueued"  # valid and stored; waits for its tenant's turn. Left by dispatch or a cancel
    QUEUED = "queued"  # admitted, a Prefect run exists. Left by a worker's claim, a cancel or the sweep
    PROCESSING = "processing"  # one worker holds the lease. Left by settling, a cancel or the sweep
    FAILED = "failed"  # a retry is due at run_after. Left by that retry's claim or a cancel
    COMPLETED = "completed"  # files and manifest are stored and their counts agree. Final
    CANCELLED = "cancelled"  # a person or the API stopped it. Left by a person's requeue
    DEAD = "dead"  # retries used up, or an error no retry can mend. Left by a person: requeue or discard


class Format(StrEnum):
    """File formats an export can be written in."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


class Priority(StrEnum):
    """Order among one tenant's waiting jobs, first to last."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


MAX_RETRIES = 3
DEFAULT_SOURCE = "default"  # the one that OUTHAUL_SOURCE_URL names
LAKE_SOURCE = "lake"  # files, which no database guards


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer or team: the unit of isolation and of fairness."""

    id: UUID
    name: str
    plan: str
    export_enabled: bool
    max_concurrent_jobs: int
    created_at: datetime
    last_served_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One published file of an export; ``sha256`` is in lower-case hexadecimal.

    ``deleted_at`` is when retention removed it, or None while it is there.
    """

    part: int
    s3_key: str
    row_count: int
    byte_count: int
    sha256: str
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One row of ``export_jobs``; the column comments in the database describe each field."""

    id: UUID
    tenant_id: UUID
    tenant: str
    schedule_id: UUID | None
    requested_by: str
    dataset: str
    source: str
    query: dict[str, Any]
    format: Format
    options: dict[str, Any]
    recipients: str
    priority: Priority
    status: Status
    retry_count: int
    attempt: int
    generation: int
    silent_deaths: int
    lease_expiry: datetime | None
    lease_owner: str | None
    run_after: datetime | None
    cancel_requested_at: datetime | None
    prefect_flow_run_id: UUID | None
    rows_total_estimate: int | None
    rows_done: int
    rows_written: int | None
    byte_count: int | None
    s3_key: str | None
    error_code: str | None
    error_message: str | None
    error_detail: str | None
    idempotency_key: str | None
    legal_hold: bool
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def short_id(self) -> str:
        """The first eight digits of the id: enough for a person to tell jobs apart."""
        return str(self.id)[:8]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One line of a job's history."""

    at: datetime
    attempt: int
    event: str
    from_status: Status | None
    to_status: Status
    actor: str
    detail: dict[str, Any]
