"""Ask for exports, look at them, stop them, start them anew."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Header, Query, Response

from api.access import Outhaul, Reader, Writer
from api.models import DeliveryModel, EstimateModel, EventModel, ExportModel, ExportPage
from api.problems import documented
from outhaul.domain.job import Status
from outhaul.errors import InvalidRequest

if TYPE_CHECKING:
    from outhaul.domain.job import Job

router = APIRouter(tags=["exports"])
# The body is read by the same code as every other front's, which says better what is wrong; see `openapi.py`.
NewBody = Annotated[dict[str, Any], Body(openapi_examples={
    "everything": {"value": {"dataset": "flights"}},
    "some": {"value": {
        "dataset": "flights", "format": "parquet",
        "query": {
            "columns": ["flight", "dep_delay"],
            "filters": {"column": "dep_delay", "op": ">", "value": 60},
            "sort": [{"column": "dep_delay", "descending": True}],
            "limit": 100,
        },
    }},
})]  # fmt: skip


@router.post("/exports", status_code=HTTPStatus.ACCEPTED, responses={
    202: {"links": {
        name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}}
        for name in (
            "get_export", "list_events", "list_deliveries", "list_files", "cancel_export", "retry_export",
        )
    }},
    200: {"model": ExportModel, "description": "This idempotency key was used before, for the same request."},
    **documented(409, 400, 413),
})  # fmt: skip
def request_export(
    app: Outhaul,
    caller: Writer,
    response: Response,
    body: NewBody,
    idempotency_key: Annotated[
        str | None,
        Header(description="The same key and body make no second export; another body is refused.", max_length=255),
    ] = None,
) -> ExportModel:
    """Ask for an export. It is stored, and done when it is its turn: look at `Location`, or have a webhook told."""
    if "idempotency_key" in body:
        raise InvalidRequest("idempotency_key", "belongs into the header Idempotency-Key")
    raw = {**body, "idempotency_key": idempotency_key or None}
    job, new = app.exports.request(raw, tenant=caller.tenant, requested_by=caller.actor)
    response.headers["Location"] = f"/v1/exports/{job.id}"
    if not new:
        response.status_code = HTTPStatus.OK
    return ExportModel.of(job)


@router.post("/exports:estimate", responses=documented(400, 413, 502))
def estimate_export(app: Outhaul, caller: Reader, body: NewBody) -> EstimateModel:
    """Say what an export would be. The source's planner is asked; no rows are read."""
    found = app.estimating.estimate(body, tenant=caller.tenant)
    return EstimateModel(
        rows=found.rows,
        bytes=found.bytes,
        seconds=found.seconds,
        statement_timeout_seconds=found.statement_timeout.total_seconds(),
        max_concurrent_jobs=found.max_concurrent_jobs,
        under_way=found.under_way,
        waiting=found.waiting,
    )


@router.get("/exports", responses=documented())
def list_exports(
    app: Outhaul,
    caller: Reader,
    status: Annotated[Status | None, Query(description="Only those that stand there.")] = None,
    dataset: Annotated[str | None, Query(description="Only those of this dataset.", max_length=255)] = None,
    since: Annotated[datetime | None, Query(description="Only those made then or later.")] = None,
    until: Annotated[datetime | None, Query(description="Only those made before.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Exports in a page.")] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.", max_length=200)] = None,
) -> ExportPage:
    """List exports, newest first."""
    for name, value in {"since": since, "until": until}.items():
        if value is not None and value.tzinfo is None:
            raise InvalidRequest(name, "needs a time zone, such as 2026-01-31T00:00:00Z")
    if dataset is not None and "\x00" in dataset:
        raise InvalidRequest("dataset", "holds a NUL character")
    found = app.exports.page(
        caller.tenant_id,
        status=status,
        dataset=dataset,
        since=since,
        until=until,
        after=_read_cursor(cursor) if cursor is not None else None,
        count=limit + 1,
    )
    page = found[:limit]
    more = len(found) > limit
    return ExportPage(
        exports=[ExportModel.of(job) for job in page], next_cursor=_write_cursor(page[-1]) if more else None
    )


@router.get("/exports/{job_id}", responses=documented())
def get_export(app: Outhaul, caller: Reader, job_id: UUID) -> ExportModel:
    """Look at one export: where it stands, how far it is, why it waits, what stopped it."""
    job = app.exports.get(job_id, caller.tenant_id)
    return ExportModel.of(job, app.exports.wait(job) if job.status in WAITS else None)


@router.get("/exports/{job_id}/events", responses=documented())
def list_events(app: Outhaul, caller: Reader, job_id: UUID) -> list[EventModel]:
    """The history of one export, oldest first."""
    job = app.exports.get(job_id, caller.tenant_id)
    return [
        EventModel(
            at=line.at,
            event=line.event,
            attempt=line.attempt,
            status=line.to_status,
            actor=line.actor,
            detail=line.detail,
        )
        for line in app.exports.events(job)
    ]


@router.post("/exports/{job_id}/cancel", responses=documented(409))
def cancel_export(app: Outhaul, caller: Writer, job_id: UUID) -> ExportModel:
    """Stop an export. One that a worker holds ends a moment later, and leaves nothing behind."""
    job = app.exports.get(job_id, caller.tenant_id)
    return ExportModel.of(app.exports.cancel(job, actor=caller.actor))


@router.post("/exports/{job_id}/retry", responses=documented(409))
def retry_export(app: Outhaul, caller: Writer, job_id: UUID) -> ExportModel:
    """Start a dead or cancelled export anew, with all its retries."""
    job = app.exports.get(job_id, caller.tenant_id)
    return ExportModel.of(app.exports.retry(job, actor=caller.actor))


@router.get("/exports/{job_id}/deliveries", responses=documented())
def list_deliveries(app: Outhaul, caller: Reader, job_id: UUID) -> list[DeliveryModel]:
    """The notices of one export, newest first, each with its log."""
    job = app.exports.get(job_id, caller.tenant_id)
    return [DeliveryModel.of(one, app.deliveries.tries(one)) for one in app.deliveries.of_job(job)]


@router.post(
    "/exports/{job_id}/deliveries/{delivery_id}/resend",
    status_code=HTTPStatus.ACCEPTED,
    responses=documented(),
)
def resend_delivery(app: Outhaul, caller: Writer, job_id: UUID, delivery_id: UUID) -> None:
    """Send a notice again within a minute, under the same id, with another day of tries."""
    job = app.exports.get(job_id, caller.tenant_id)
    app.deliveries.resend(job, delivery_id, actor=caller.actor)


WAITS = frozenset({Status.ENQUEUED, Status.QUEUED, Status.FAILED})


def _write_cursor(job: Job) -> str:
    return urlsafe_b64encode(f"{job.created_at.isoformat()}|{job.id}".encode()).decode()


def _read_cursor(text: str) -> tuple[datetime, UUID]:
    try:
        at, _, job_id = urlsafe_b64decode(text.encode("ascii")).decode("ascii").partition("|")
        return datetime.fromisoformat(at).astimezone(UTC), UUID(job_id)
    except (ValueError, OverflowError):
        raise InvalidRequest("cursor", "is not a next_cursor that this API gave") from None
