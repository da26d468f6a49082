"""What a worker does with one job: claim it, hold the lease, produce the files, settle the result."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from outhaul.domain.job import Status
from outhaul.domain.request import parse_request
from outhaul.domain.retry import Verdict, classify
from outhaul.errors import ExportError, LeaseLost, OuthaulError, SourceError, StoreError, Unavailable
from outhaul.service.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from outhaul.data.catalog import Catalog
    from outhaul.domain.files import Produced
    from outhaul.domain.job import Job
    from outhaul.domain.request import ExportRequest
    from outhaul.service.dispatcher import Dispatcher
    from outhaul.service.sources import Sources
    from outhaul.store.files import FileStore
    from outhaul.store.jobs import JobStore


T = TypeVar("T")
DATABASE_PAUSE_S = 1.0  # before a database that does not answer is asked again


@dataclass(frozen=True, slots=True)
class Worker:
    """Carries out jobs."""

    jobs: JobStore
    catalog: Callable[[], Catalog]
    files: Callable[[], FileStore]
    dispatcher: Dispatcher
    sources: Sources
    lease: timedelta
    heartbeat: timedelta
    statement_timeout: timedelta
    hide_values: bool = field(default=False)

    def claim(self, job_id: UUID, generation: int, *, owner: str, flow_run_id: UUID | None = None) -> Job | None:
        """Take the job, or None when it is not to be taken: done, cancelled, held by another, or not yet due.

        A retry that is due while there is no place for it goes back in line, and gets a new run with its next place.
        """

        def attempt() -> Job | None:
            return self.jobs.claim(job_id, generation, owner=owner, flow_run_id=flow_run_id, lease=self.lease)

        job = attempt()
        if job is None and self.jobs.due(job_id, generation, actor=owner):
            job = attempt()
        if job is None:
            standing = self.jobs.get(job_id)
            if standing.status is Status.FAILED and standing.generation == generation:
                self.jobs.give_back(standing, actor=owner, reason="its retry is due, and there is no place for it")
        return job

    def hold(self, job: Job) -> Lease:
        """Keep the lease of a claimed job for the length of a ``with`` block."""
        return Lease(self.jobs, job, length=self.lease, beat=self.heartbeat)

    def produce(
        self, job: Job, lease: Lease, *, on_progress: Callable[[int, int | None], None] = lambda _rows, _expected: None
    ) -> Produced:
        """Stream the job's rows into files, whole or not at all.

        Raises:
            ExportError: of the kind that says what stopped it; nothing has been published then, or will be removed when
                a silent store lets go of it.
        """
        # These load Polars and Pandera, which takes as long as all that comes before: a job is claimed first.
        from outhaul.data.export import Export
        from outhaul.data.readers import Attempt
        from outhaul.data.session import Limits

        prefix = _folder(job)
        dataset = self.catalog().get(job.dataset)
        limits = Limits(statement_timeout=dataset.statement_timeout or self.statement_timeout)
        export = Export(
            self.sources.url_of(dataset),
            dataset,
            request_of(job),
            tenant=None if dataset.shared else job.tenant,
            attempt=Attempt(str(job.id), job.attempt, job.generation),
            open_upload=lambda name, content_type: self.files().open_upload(prefix + name, content_type),
            prefix=prefix,
            limits=limits,
            hide_values=self.hide_values,
        )
        lease.interrupt = export.cancel

        def progress(rows: int, expected: int | None) -> None:
            first = lease.rows_total_estimate is None
            lease.rows_done, lease.rows_total_estimate = rows, expected
            if first and expected is not None:
                lease.renew()
            on_progress(rows, expected)

        return lease.carry_out(
            lambda: export.run(progress=progress, stop=lease.check), late=lambda: self._remove(prefix)
        )

    def settle(self, job: Job, produced: Produced, *, actor: str) -> Job:
        """Record the success, and remove what earlier attempts had published and could not record.

        Raises:
            LeaseLost: another attempt owns the job by now.
        """
        said = {"replaced": produced.replaced, "notes": list(produced.notes)}
        remarks = {name: value for name, value in said.items() if value}

        def record() -> bool:
            return self.jobs.complete(
                job, produced.files, manifest_key=produced.manifest_key, actor=actor, remarks=remarks
            ) or self._recorded(job, produced.manifest_key)

        if not self._insist(record):
            raise LeaseLost("another attempt has taken this job over; its result counts")
        if job.attempt > 1:
            self._remove(f"{job.tenant}/{job.id}/", but=_folder(job))
        return self.jobs.get(job.id)

    def fail(self, job: Job, error: BaseException, *, actor: str) -> Status:
        """Record what stopped an attempt, as its kind demands; returns the job's status afterwards.

        Files that it had published are removed, unless its success was recorded before the error came.
        """
        standing = self._insist(lambda: self._settle_error(job, error, actor))
        if standing.s3_key is None or not standing.s3_key.startswith(_folder(job)):
            self._remove(_folder(job))
        return standing.status

    def _remove(self, prefix: str, *, but: str | None = None) -> None:
        """Delete files that no job's row tells of; what the store does not let go now, retention takes."""
        with suppress(StoreError):
            for key in list(self.files().list(prefix)):
                if but is None or not key.startswith(but):
                    self.files().delete(key)

    def _settle_error(self, job: Job, error: BaseException, actor: str) -> Job:
        def unwanted() -> bool:
            return self.jobs.get(job.id).cancel_requested_at is not None

        # Asked to stop, be it in this very moment: whatever else happened, that is what the asker wants.
        if unwanted() or (not self._record(job, error, actor) and unwanted()):
            self.jobs.cancel(job, actor=actor, held=True)
        return self.jobs.get(job.id)

    def _recorded(self, job: Job, manifest_key: str) -> bool:
        """Whether this very success stands in the database: it was, and the answer got lost."""
        return self.jobs.get(job.id).s3_key == manifest_key

    def _insist(self, act: Callable[[], T]) -> T:
        """Do what ends an attempt as soon as the database answers; after the length of a lease, nothing hangs on it.

        Raises:
            Unavailable: the database has not answered for so long.
        """
        end = time.monotonic() + self.lease.total_seconds()
        while True:
            try:
                return act()
            except Unavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(DATABASE_PAUSE_S)

    def _record(self, job: Job, error: BaseException, actor: str) -> bool:
        """Settle the job by the error's kind; False if the database's guard says no."""
        match classify(error):
            case Verdict.CANCELLED:
                return self.jobs.cancel(job, actor=actor, held=True)
            case Verdict.FENCED:
                return True
            case Verdict.INTERRUPTED:
                return self.jobs.give_back(job, actor=actor, reason="its worker was told to stop")
            case Verdict.SOURCE_DOWN:
                assert isinstance(error, SourceError)
                self.sources.trip(job.source, error)
                return self.jobs.give_back(job, actor=actor, reason=f"source {job.source}: {error.message}")
            case verdict:
                permanent = verdict is Verdict.PERMANENT
                return self.dispatcher.settle_failure(job, _named(error), permanent=permanent, actor=actor)

    def after_run(self, job_id: UUID, run_id: UUID, *, crashed: bool) -> None:
        """Once a run has failed or crashed: settle for a dead process, and start the run again if due.

        Prefect's word on how often the run has started is not asked: a worker calls hooks with the run as it was.
        """
        job = self.jobs.get(job_id)
        held = job.lease_owner is not None and job.lease_owner.startswith(f"{run_id}/")
        if crashed and held and not self.dispatcher.is_alive(run_id):
            self.dispatcher.lapse(job)
        else:
            self.dispatcher.follow_up(job)

    def after_cancel(self, job_id: UUID, generation: int, *, actor: str) -> None:
        """Once a run was cancelled in Prefect: its process is gone, so the job ends at once, unless started anew."""
        job = self.jobs.get(job_id)
        if job.generation == generation:
            self.jobs.cancel(job, actor=actor)


def request_of(job: Job) -> ExportRequest:
    """The request that a job was made from."""
    return parse_request({"dataset": job.dataset, "query": job.query, "format": job.format, "options": job.options})


def _folder(job: Job) -> str:
    """Where this attempt's files are; no other attempt writes there."""
    return f"{job.tenant}/{job.id}/{job.generation}-{job.attempt}/"


def _named(error: BaseException) -> OuthaulError:
    if isinstance(error, OuthaulError):
        return error
    # Nothing of an error that nobody foresaw is known to be safe for the asker.
    return ExportError("the export failed for a reason that Outhaul does not know", detail=repr(error))
