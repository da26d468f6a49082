"""What people and programs do with exports: ask, look, cancel, start anew, hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outhaul.domain.job import LAKE_SOURCE, Status
from outhaul.domain.request import parse_request
from outhaul.domain.transitions import Event, allowed, sources
from outhaul.errors import PrefectUnavailable, Refused, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from outhaul.data.catalog import Catalog
    from outhaul.domain.job import Job, JobEvent, StoredFile
    from outhaul.domain.waiting import Wait
    from outhaul.orchestrator import Orchestrator
    from outhaul.service.dispatcher import Dispatcher
    from outhaul.service.sources import Sources
    from outhaul.store.insights import Insights
    from outhaul.store.jobs import JobStore
    from outhaul.store.tenants import TenantStore


@dataclass(frozen=True, slots=True)
class Exports:
    """Ask for exports and manage those that exist.

    Methods raise NotFound for what does not exist, Refused for what the present state does not allow, InvalidRequest
    for what can never be carried out, and Unavailable when the database does not answer.
    """

    jobs: JobStore
    insights: Insights
    tenants: TenantStore
    catalog: Callable[[], Catalog]
    sources: Sources
    dispatcher: Dispatcher
    orchestrator: Orchestrator

    def request(self, raw: Mapping[str, Any], *, tenant: str, requested_by: str) -> tuple[Job, bool]:
        """Check and store a request, and admit it if it is the tenant's turn; returns the job and whether it is new.

        With Prefect out of reach the job is stored all the same and admitted later by the sweep.
        """
        from outhaul.data.query import check_request  # loads Polars and Pandera, which only requests need

        request = parse_request(dict(raw))
        dataset = self.catalog().get(request.dataset)
        check_request(dataset, request)
        owner = self.tenants.get(tenant)
        if not owner.export_enabled:
            raise Refused(f"tenant: exports are disabled for {tenant!r}")
        self.sources.url_of(dataset)
        job_id, new = self.jobs.add(
            owner.id, request, requested_by=requested_by, source=dataset.database or LAKE_SOURCE
        )
        with suppress(PrefectUnavailable):
            self.dispatcher.dispatch(actor=requested_by)
        return self.jobs.get(job_id), new

    def job(self, text: str) -> Job:
        """The job with this id, or with an id that begins like this."""
        return self.jobs.get(self.insights.find(text))

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
        if not self.jobs.request_cancel(job.id) and not self.jobs.cancel(job, actor=actor):
            raise _refusal(self.jobs.get(job.id), Event.CANCEL)
        if job.prefect_flow_run_id:
            self._stop_run(job.prefect_flow_run_id)
        return self.jobs.get(job.id)

    def retry(self, job: Job, *, actor: str) -> Job:
        """Start a dead or cancelled job anew, with all its retries; with Prefect out of reach, once that is back."""
        if not self.jobs.requeue(job.id, actor=actor):
            raise _refusal(self.jobs.get(job.id), Event.REQUEUE)
        with suppress(PrefectUnavailable):
            self.dispatcher.dispatch(actor=actor)
        return self.jobs.get(job.id)

    def hold(self, job: Job, *, hold: bool, actor: str) -> Job:
        """Set or lift the legal hold: while it is set, retention keeps the files and the row."""
        self.jobs.hold(job.id, hold=hold, actor=actor)
        return self.jobs.get(job.id)

    def _stop_run(self, run_id: UUID) -> None:
        # The database has already decided; a run that is not told ends by itself at its next heartbeat or claim.
        try:
            self.orchestrator.cancel(run_id)
        except Unavailable:
            return


def _refusal(job: Job, event: Event) -> Refused:
    return Refused(
        f"job {job.short_id} is {job.status}; {event} is possible only when it is {', '.join(sources(event))}"
    )
