"""What the API answers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import BaseModel, Field

from outhaul.domain.job import Format, Priority, Status
from outhaul.domain.notices import Notice, Outcome
from outhaul.domain.request import Query
from outhaul.domain.waiting import Limit

if TYPE_CHECKING:
    from outhaul.domain.job import Job, StoredFile
    from outhaul.domain.notices import Delivery, Endpoint, Try
    from outhaul.domain.waiting import Wait


class NewExport(BaseModel):
    """A request for an export."""

    dataset: str = Field(description="Name of the dataset.", examples=["flights"])
    query: Query = Field(default=Query(), description="Columns, filters, sort and limit; by default everything.")
    format: Format = Field(default=Format.CSV, description="Format of the files.")
    options: dict[str, Any] = Field(
        default={}, description="Options of the format.", examples=[{"compression": "gzip"}]
    )
    recipients: str = Field(
        default="", description="E-mail addresses to tell, separated by commas.", examples=["data@example.com"]
    )
    priority: Priority = Field(default=Priority.NORMAL, description="Order among the tenant's waiting jobs.")


class WaitModel(BaseModel):
    """Why an export is not running yet."""

    limit: Limit = Field(description="What it waits for.")
    reason: str = Field(description="The same in words.")
    position: int | None = Field(description="Place in line, from 1.")
    until: datetime | None = Field(description="When this limit ends, if that is known.")
    estimate_seconds: float | None = Field(description="About how long until it starts, if that can be told.")


class Failure(BaseModel):
    """What stopped the last attempt that failed."""

    code: str = Field(description="Stable code.", examples=["contract_violation"])
    message: str = Field(description="One plain line.")


class FileModel(BaseModel):
    """One file of a completed export."""

    part: int = Field(description="Place in the set of files, from 0.")
    rows: int
    bytes: int
    sha256: str = Field(description="Of the bytes, in lower-case hexadecimal.")
    url: str = Field(description="A link that needs no key and works until `links_end_at` of the list.")
    deleted_at: datetime | None = Field(description="When it was deleted; its link answers 410 from then on.")


class Files(BaseModel):
    """The files of a completed export."""

    files: list[FileModel]
    links_end_at: datetime = Field(description="Until when the links work; ask again for new ones.")


class ExportModel(BaseModel):
    """One export."""

    id: UUID
    tenant: str
    status: Status
    dataset: str
    query: dict[str, Any]
    format: Format
    options: dict[str, Any]
    recipients: str
    priority: Priority
    requested_by: str
    attempt: int = Field(description="How often a worker has taken it up.")
    retry_count: int
    rows_done: int = Field(description="Rows read so far by the present attempt.")
    rows_expected: int | None = Field(description="About how many there will be, by the source's planner.")
    rows: int | None = Field(description="Rows in the files of a completed export.")
    bytes: int | None = Field(description="Bytes of the files of a completed export.")
    cancel_requested: bool = Field(description="Whether someone has asked to stop it.")
    error: Failure | None
    wait: WaitModel | None = Field(description="Why it is not running yet; only when one export is asked for.")
    idempotency_key: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job, wait: Wait | None = None) -> ExportModel:
        """The job, as the API tells of it."""
        return cls(
            id=job.id,
            tenant=job.tenant,
            status=job.status,
            dataset=job.dataset,
            query=job.query,
            format=job.format,
            options=job.options,
            recipients=job.recipients,
            priority=job.priority,
            requested_by=job.requested_by,
            attempt=job.attempt,
            retry_count=job.retry_count,
            rows_done=job.rows_done,
            rows_expected=job.rows_total_estimate,
            rows=job.rows_written,
            bytes=job.byte_count,
            cancel_requested=job.cancel_requested_at is not None and job.finished_at is None,
            error=Failure(code=job.error_code, message=job.error_message or "") if job.error_code else None,
            wait=wait
            and WaitModel(
                limit=wait.limit,
                reason=wait.reason,
                position=wait.position,
                until=wait.until,
                estimate_seconds=None if wait.estimate is None else wait.estimate.total_seconds(),
            ),
            idempotency_key=job.idempotency_key,
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
        )


class ExportPage(BaseModel):
    """Some exports, newest first."""

    exports: list[ExportModel]
    next_cursor: str | None = Field(description="Give it as `cursor` to get the next page; null on the last.")


class EstimateModel(BaseModel):
    """What an export would be; null where nobody can tell."""

    rows: int | None = Field(description="About how many, by the source's planner.")
    bytes: int | None = Field(description="By the newest exports of the same dataset and format.")
    seconds: float | None = Field(description="From its start to its end, by the same.")
    statement_timeout_seconds: float = Field(description="The longest that its query may run.")
    max_concurrent_jobs: int = Field(description="How many of the tenant's exports may be under way at once.")
    under_way: int = Field(description="How many are now.")
    waiting: int = Field(description="How many wait in line.")


class EventModel(BaseModel):
    """One line of an export's history."""

    at: datetime
    event: str
    attempt: int
    status: Status = Field(description="After it.")
    actor: str
    detail: dict[str, Any]


class TryModel(BaseModel):
    """One try to send a notice."""

    at: datetime
    outcome: Outcome
    answer: int | None = Field(description="Status of the HTTP or SMTP answer.")
    note: str

    @classmethod
    def of(cls, one: Try) -> TryModel:
        """The try, without what only operators may see."""
        return cls(at=one.at, outcome=one.outcome, answer=one.answer, note=one.note)


class DeliveryModel(BaseModel):
    """A notice of an export, and what became of it."""

    id: UUID
    notice: Notice
    webhook_id: UUID | None = Field(description="The webhook it goes to.")
    recipient: str | None = Field(description="Or the e-mail address.")
    status: str = Field(description="pending, delivered, or dead when given up.")
    next_try_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    tries: list[TryModel]

    @classmethod
    def of(cls, delivery: Delivery, tries: list[Try]) -> DeliveryModel:
        """The notice with its log."""
        return cls(
            id=delivery.id,
            notice=delivery.notice,
            webhook_id=delivery.endpoint_id,
            recipient=delivery.recipient,
            status=delivery.status,
            next_try_at=delivery.next_try_at,
            created_at=delivery.created_at,
            finished_at=delivery.finished_at,
            tries=[TryModel.of(one) for one in tries],
        )


class ColumnModel(BaseModel):
    """One column of a dataset."""

    name: str
    type: str
    nullable: bool
    description: str
    checks: list[str] = Field(description="What the contract promises of its values.")
    operators: list[str] = Field(description="Filter operators that fit its type.")


class DatasetModel(BaseModel):
    """What can be exported."""

    name: str
    description: str
    columns: list[ColumnModel]


class WebhookModel(BaseModel):
    """An address that is told of exports."""

    id: UUID
    url: str
    events: list[Notice]
    description: str
    enabled: bool
    disabled_reason: str | None = Field(description="Why Outhaul itself switched it off.")
    created_at: datetime
    former_secret_until: datetime | None = Field(description="Until when the secret before the present one signs, too.")

    @classmethod
    def of(cls, endpoint: Endpoint) -> WebhookModel:
        """The webhook, without its secrets."""
        return cls(
            id=endpoint.id,
            url=endpoint.url,
            events=list(endpoint.events),
            description=endpoint.description,
            enabled=endpoint.enabled,
            disabled_reason=endpoint.disabled_reason,
            created_at=endpoint.created_at,
            former_secret_until=endpoint.former_secret_until,
        )


class WebhookWithSecret(WebhookModel):
    """A webhook and the secret that signs what it gets, which is shown this once."""

    secret: str

    @classmethod
    def with_secret(cls, endpoint: Endpoint, secret: str) -> WebhookWithSecret:
        """The webhook with its new secret."""
        return cls(**WebhookModel.of(endpoint).model_dump(), secret=secret)


class NewWebhook(BaseModel, extra="forbid"):
    """A webhook to be added."""

    url: str = Field(description="https address.", examples=["https://hooks.example.com/outhaul"])
    events: list[str] | None = Field(
        default=None,
        description="What to be told of; by default all but `export.failed`.",
        examples=[["export.completed"]],
    )
    description: str = ""


class WebhookChange(BaseModel, extra="forbid"):
    """What is to change; what is not named stays."""

    url: str | None = None
    events: list[str] | None = None
    description: str | None = None
    enabled: bool | None = None


class Rotation(BaseModel, extra="forbid"):
    """How the secrets are to change over."""

    overlap_seconds: float = Field(
        default=86_400, description="How long the secret before signs as well, at most seven days.", ge=0, le=604_800
    )


class TestResult(BaseModel):
    """What became of a test message."""

    delivered: bool
    answer: int | None = Field(description="Status of the HTTP answer.")
    note: str


def file_model(file: StoredFile, url: str) -> FileModel:
    """A file with its link."""
    return FileModel(
        part=file.part,
        rows=file.row_count,
        bytes=file.byte_count,
        sha256=file.sha256,
        url=url,
        deleted_at=file.deleted_at,
    )
