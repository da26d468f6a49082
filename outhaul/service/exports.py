"""What people and programs do with exports: ask, look, cancel, start anew, hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outhaul.domain.job import LAKE_SOURCE, Status
from outhaul.domain.request import parse_request
from outhaul.domain.transitions import Event, allowed, sources
from outhaul.errors import InvalidRequest, Refused, TooMany, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from outhaul.data.catalog import Catalog
    from outhaul.domain.job import Job, JobEvent, StoredFile, Tenant
    from outhaul.domain.request import ExportRequest
    from outhaul.domain.waiting import Wait
    from outhaul.orchestrator import Orchestrator
    from outhaul.service.sources import Sources
    from outhaul.store.insights import Insights
    from outhaul.store.jobs import JobStore
    from outhaul.store.tenants import TenantStore


@dataclass(frozen=True, slots=True)
class Exports:
    """Ask for exports and manage those that exist.

    Methods raise NotFound for what does not exist, Refused for what the present state does not allow, InvalidRequest
    for what can never be carried out, and Unavailable when the database does not answer.

    Attributes:
        admit: lets waiting jobs in; its argument is the actor.
        max_waiting: how many jobs of one tenant may wait in line.
        mail: whether e-mail can be sent.
    """

    jobs: JobStore
    insights: Insights
    tenants: TenantStore
    catalog: Callable[[], Catalog]
    sources: Sources
    admit: Callable[[str], None]
    orchestrator: Orchestrator
    max_waiting: int
    mail: bool

    def request(self, raw: Mapping[str, Any], *, tenant: str, requested_by: str) -> tuple[Job, bool]:
        """Check and store a request, and admit it if it is the tenant's turn; returns the job and whether it is new.

        With Prefect out of reach the job is stored all the same and admitted later by the sweep.

        Raises:
            Refused: also when the idempotency key was used for another request.
            TooMany: as many jobs of the tenant wait already as may.
        """
        from outhaul.data.query import check_request  # loads Polars and Pandera, which only requests need

        request = parse_request(dict(raw))
        dataset = self.catalog().get(request.dataset)
        check_request(dataset, request)
        owner = self.tenants.get(tenant)
        if not owner.export_enabled:
            raise Refused(f"tenant: exports are disabled for {tenant!r}")
        if request.recipients and not self.mail:
            raise InvalidRequest("recipients", "no e-mail can be sent: OUTHAUL_MAIL_URL is not set")
        self.sources.url_of(dataset)
        waiting = self.insights.load(owner.id, self.max_waiting)[1]
        if waiting >= self.max_waiting and not self._asked_before(owner, request):
            raise TooMany(f"{waiting:,} jobs of tenant {tenant} wait already, which is the most that may")
        job_id, new = self.jobs.add(
            owner.id, request, requested_by=requested_by, source=dataset.database or LAKE_SOURCE
        )
        job = self.jobs.get(job_id)
        if not new and not _same(job, request):
            raise Refused(
                f"idempotency_key: {request.idempotency_key!r} was used for job {job.short_id}, whose request differs"
            )
        if new:
            self.admit(requested_by)
            job = self.jobs.get(job_id)
        return job, new

    def job(self, text: str) -> Job:
        """The job with this id, or with an id that begins like this."""
        return self.jobs.get(self.insights.find(text))

    def get(self, job_id: UUID, tenant_id: UUID | None) -> Job:
        """The job with this id, if it is the tenant's, or, with None, whoever's it is."""
        return self.jobs.get(job_id, tenant_id)

    def page(
        self,
        tenant_id: UUID | None,
        *,
        status: Status | None = None,
        dataset: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: tuple[datetime, UUID] | None = None,
        count: int = 50,
    ) -> list[Job]:
        """Jobs of a tenant, or all, newest first.

        ``after`` holds when the last job of the page before was made, and its id. ``since`` is inclusive,
        ``until`` is not.
        """
        return self.insights.page(
            tenant_id, status=status, dataset=dataset, since=since, until=until, after=after, count=count
        )

    def recent(self, tenant: str | None = None, status: Status | None = None, count: int = 50) -> list[Job]:
        """The newest jobs."""
        return self.insights.recent(self.tenants.get(tenant).id if tenant else None, status, count)

    def files(self, job: Job) -> list[StoredFile]:
        """The files of a completed job; empty for any other."""
        return self.insights.files(job.id) if job.status is Status.COMPLETED else []

    def events(self, job: Job) -> list[JobEvent]:
        """The job's history, oldest first."""
        return self.insights.events(job.id)

    def wait(self, job: Job) -> Wait | None:
        """Why the job is not running yet; None for one that is, or has ended."""
        return self.insights.wait(job)

    def counts(self) -> dict[Status, tuple[int, datetime]]:
        """How many jobs stand where, since when the oldest; what has ended counts for 24 hours after it was made."""
        return self.insights.counts()

    def cancel(self, job: Job, *, actor: str) -> Job:
        """Stop a job. One that a worker holds is asked to stop and ends a moment later."""
        if Event.CANCEL not in allowed(job.status):
            raise _refusal(job, Event.CANCEL)
        if not self.jobs.request_cancel(job.id, actor=actor) and not self.jobs.cancel(job, actor=actor):
            raise _refusal(self.jobs.get(job.id), Event.CANCEL)
        if job.prefect_flow_run_id:
            self._stop_run(job.prefect_flow_run_id)
        return self.jobs.get(job.id)

    def retry(self, job: Job, *, actor: str) -> Job:
        """Start a dead or cancelled job anew, with all its retries; with Prefect out of reach, once that is back."""
        if not self.jobs.requeue(job.id, actor=actor):
            raise _refusal(self.jobs.get(job.id), Event.REQUEUE)
        self.admit(actor)
        return self.jobs.get(job.id)

    def hold(self, job: Job, *, hold: bool, actor: str) -> Job:
        """Set or lift the legal hold: while it is set, retention keeps the files and the row."""
        self.jobs.hold(job.id, hold=hold, actor=actor)
        return self.jobs.get(job.id)

    def _asked_before(self, owner: Tenant, request: ExportRequest) -> bool:
        return request.idempotency_key is not None and self.jobs.by_key(owner.id, request.idempotency_key) is not None

    def _stop_run(self, run_id: UUID) -> None:
        # The database has already decided; a run that is not told ends by itself at its next heartbeat or claim.
        try:
            self.orchestrator.cancel(run_id)
        except Unavailable:
            return


def _same(job: Job, request: ExportRequest) -> bool:
    body = request.model_dump(mode="json")
    return all(getattr(job, name) == body[name] for name in ("dataset", "query", "format", "options", "recipients"))


def _refusal(job: Job, event: Event) -> Refused:
    return Refused(
        f"job {job.short_id} is {job.status}; {event} is possible only when it is {', '.join(sources(event))}"
    )
