"""What a worker does with one job: claim it, hold the lease, produce the files, settle the result."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from outhaul.data.export import Attempt, Export
from outhaul.data.session import Limits
from outhaul.domain.request import parse_request
from outhaul.domain.retry import Verdict, classify
from outhaul.errors import Cancelled, ExportError, LeaseLost, OuthaulError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import TracebackType
    from uuid import UUID

    from outhaul.data.catalog import Catalog
    from outhaul.domain.files import Produced
    from outhaul.domain.job import Job, Status
    from outhaul.domain.request import ExportRequest
    from outhaul.service.dispatcher import Dispatcher
    from outhaul.store.files import FileStore
    from outhaul.store.jobs import JobStore


class Lease:
    """Keeps a claimed job for this worker while the block runs, by a heartbeat in a thread of its own.

    ``check`` raises as soon as the job is no longer this worker's to finish; ``interrupt`` is called then, too, from
    the heartbeat's thread, so that a query or upload that says nothing for long is cut short.
    """

    def __init__(self, jobs: JobStore, job: Job, *, length: timedelta, beat: timedelta) -> None:
        self.job = job
        self.rows_done = 0
        self.rows_total_estimate: int | None = None
        self.interrupt: Callable[[], None] = lambda: None
        self._jobs = jobs
        self._length = length
        self._beat = beat
        self._ended = threading.Event()
        self._reason: ExportError | None = None
        self._thread = threading.Thread(target=self._run, name=f"lease {job.short_id}", daemon=True)

    def check(self) -> None:
        """Raise LeaseLost or Cancelled when the work must stop."""
        if self._reason is not None:
            raise self._reason

    def renew(self) -> None:
        """Renew now. A database that does not answer is not yet a lost lease: the next beat tries again."""
        try:
            cancel = self._jobs.renew(
                self.job, lease=self._length, rows_done=self.rows_done, rows_total_estimate=self.rows_total_estimate
            )
        except Unavailable:
            return
        if cancel is None:
            self._stop(LeaseLost("another attempt has taken this job over"))
        elif cancel:
            self._stop(Cancelled("the export was cancelled"))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._beat.total_seconds()):
            self.renew()

    def _stop(self, reason: ExportError) -> None:
        self._reason = reason
        self.interrupt()


@dataclass(frozen=True, slots=True)
class Worker:
    """Carries out jobs."""

    jobs: JobStore
    catalog: Catalog
    files: FileStore
    dispatcher: Dispatcher
    source_url: str
    lease: timedelta
    heartbeat: timedelta
    statement_timeout: timedelta
    hide_values: bool = field(default=False)

    def claim(self, job_id: UUID, generation: int, *, owner: str, flow_run_id: UUID | None = None) -> Job | None:
        """Take the job, or None when it is not to be taken: done, cancelled, held by another, or not yet due."""

        def attempt() -> bool:
            return self.jobs.claim(job_id, generation, owner=owner, flow_run_id=flow_run_id, lease=self.lease)

        if attempt() or (self.jobs.due(job_id, generation, actor=owner) and attempt()):
            return self.jobs.get(job_id)
        return None

    def hold(self, job: Job) -> Lease:
        """Keep the lease of a claimed job for the length of a ``with`` block."""
        return Lease(self.jobs, job, length=self.lease, beat=self.heartbeat)

    def produce(
        self, job: Job, lease: Lease, *, on_progress: Callable[[int, int | None], None] = lambda _rows, _expected: None
    ) -> Produced:
        """Stream the job's rows into files, whole or not at all.

        Raises:
            ExportError: of the kind that says what stopped it; nothing has been published then.
        """
        prefix = f"{job.tenant}/{job.id}/{job.generation}-{job.attempt}/"
        dataset = self.catalog.get(job.dataset)
        export = Export(
            self.source_url,
            dataset,
            request_of(job),
            tenant=None if dataset.shared else job.tenant,
            attempt=Attempt(str(job.id), job.attempt, job.generation),
            open_upload=lambda name, content_type: self.files.open_upload(prefix + name, content_type),
            prefix=prefix,
            limits=Limits(statement_timeout=self.statement_timeout),
            hide_values=self.hide_values,
        )
        lease.interrupt = export.cancel

        def progress(rows: int, expected: int | None) -> None:
            first = lease.rows_total_estimate is None
            lease.rows_done, lease.rows_total_estimate = rows, expected
            if first and expected is not None:
                lease.renew()
            on_progress(rows, expected)

        return export.run(progress=progress, stop=lease.check)

    def settle(self, job: Job, produced: Produced, *, actor: str) -> Job:
        """Record the success. Raises LeaseLost when another attempt owns the job by now."""
        said = {"replaced": produced.replaced, "notes": list(produced.notes)}
        remarks = {name: value for name, value in said.items() if value}
        if not self.jobs.complete(
            job, produced.files, manifest_key=produced.manifest_key, actor=actor, remarks=remarks
        ):
            raise LeaseLost("another attempt has taken this job over; its result counts")
        return self.jobs.get(job.id)

    def fail(self, job: Job, error: BaseException, *, actor: str) -> Status:
        """Record what stopped an attempt, as its kind demands; returns the job's status afterwards."""
        if self.jobs.get(job.id).cancel_requested_at is not None:
            error = Cancelled("the export was cancelled")
        match classify(error):
            case Verdict.CANCELLED:
                self.jobs.cancel(job, actor=actor)
            case Verdict.INTERRUPTED:
                self.jobs.release(job, actor=actor)
            case Verdict.FENCED:
                pass
            case verdict:
                permanent = verdict is Verdict.PERMANENT
                self.dispatcher.settle_failure(job, _named(error), permanent=permanent, actor=actor)
        return self.jobs.get(job.id).status

    def after_run(self, job_id: UUID, *, owner: str, crashed: bool) -> None:
        """Once a run has failed or crashed: settle for a dead process, and start the run again if due."""
        job = self.jobs.get(job_id)
        if crashed and job.lease_owner == owner:
            self.dispatcher.lapse(job)
        else:
            self.dispatcher.follow_up(job)

    def after_cancel(self, job_id: UUID, *, actor: str) -> None:
        """Once a run was cancelled in Prefect: its process is gone, so the job ends at once."""
        self.jobs.cancel(self.jobs.get(job_id), actor=actor)


def request_of(job: Job) -> ExportRequest:
    """The request that a job was made from."""
    return parse_request({"dataset": job.dataset, "query": job.query, "format": job.format, "options": job.options})


def _named(error: BaseException) -> OuthaulError:
    if isinstance(error, OuthaulError):
        return error
    # Nothing of an error that nobody foresaw is known to be safe for the asker.
    return ExportError("the export failed for a reason that Outhaul does not know", detail=repr(error))
