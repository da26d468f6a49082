"""Who is next, and what has gone astray: admission and the sweep. Both are idempotent; two at once do no harm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from outhaul.domain.job import Status
from outhaul.domain.retry import MAX_SILENT_DEATHS, RetryRule
from outhaul.errors import Unavailable, WorkerVanished
from outhaul.orchestrator import RunState

if TYPE_CHECKING:
    from uuid import UUID

    from outhaul.domain.job import Job
    from outhaul.errors import OuthaulError
    from outhaul.orchestrator import Orchestrator
    from outhaul.service.sources import Sources
    from outhaul.store.jobs import JobStore

SWEEP = "sweep"
# How long a run may take from admission to claim before someone looks after it.
GRACE = timedelta(minutes=2)
# How late a retry may be before its run is looked at: a worker of Prefect's own may have undone its arrangement.
RETRY_GRACE = timedelta(seconds=20)
VANISHED = WorkerVanished("the worker stopped without a word (killed, out of memory or cut off)")
TWICE_DEAD = WorkerVanished("the worker died twice (out of memory?)")


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Moves jobs along whenever no worker is there to do it."""

    jobs: JobStore
    orchestrator: Orchestrator
    sources: Sources
    retry_rule: RetryRule = field(default_factory=RetryRule)

    def dispatch(self, *, actor: str) -> int:
        """Admit what may be admitted and give each a Prefect run; returns how many.

        Raises:
            Unavailable: Prefect or the database does not answer; jobs without a run are back in line.
        """
        admitted = self.jobs.admit(actor=actor)
        for place, job_id in enumerate(admitted):
            try:
                self._give_run(self.jobs.get(job_id))
            except Unavailable as error:
                for waiting in admitted[place:]:
                    self.jobs.give_back(self.jobs.get(waiting), new_run=False, actor=actor, reason=error.message)
                raise
        return len(admitted)

    def sweep(self) -> Counter[str]:
        """Mend what went astray and admit what waits; returns how much of each was found.

        Raises:
            Unavailable: Prefect or the database does not answer; the next sweep takes it up again.
        """
        done: Counter[str] = Counter()
        for job_id in self.jobs.lapsed():
            done["lapsed"] += self.lapse(self.jobs.get(job_id))
        for job_id in self.jobs.without_run(GRACE):
            self._give_run(self.jobs.get(job_id))
            done["given a run"] += 1
        for job_id in self.jobs.unclaimed(GRACE):
            done["returned"] += self._look_after_unclaimed(self.jobs.get(job_id))
        for job_id in self.jobs.overdue(RETRY_GRACE):
            done["retried"] += self._look_after_overdue(self.jobs.get(job_id))
        done["sources back"] += self.sources.tend()
        done["stale runs"] += self.orchestrator.clear_stale(GRACE)
        done["admitted"] += self.dispatch(actor=SWEEP)
        return done

    def lapse(self, job: Job) -> bool:
        """Settle a job whose worker is gone: the next retry if one is left, else dead; cancelled if that was asked.

        What its process may still have open on the source is ended, too, and its run if the job needs none any more.
        """
        if job.status is not Status.PROCESSING:
            return False
        if job.cancel_requested_at is not None:
            settled = self.jobs.cancel(job, actor=SWEEP, held=True)
        elif job.silent_deaths + 1 >= MAX_SILENT_DEATHS:
            settled = self.jobs.bury(job, TWICE_DEAD, actor=SWEEP, silent=True)
        else:
            settled = self._retry_or_bury(job, VANISHED, actor=SWEEP, silent=True)
        if settled:
            self.sources.end_readers(job)
            if self.follow_up(self.jobs.get(job.id)) is None and job.prefect_flow_run_id:
                self.orchestrator.end(job.prefect_flow_run_id)
        return settled

    def settle_failure(self, job: Job, error: OuthaulError, *, permanent: bool, actor: str) -> bool:
        """Record a failed attempt: a retry when the error is transient and one is left, else dead."""
        if permanent:
            return self.jobs.bury(job, error, actor=actor)
        return self._retry_or_bury(job, error, actor=actor)

    def _retry_or_bury(self, job: Job, error: OuthaulError, *, actor: str, silent: bool = False) -> bool:
        delay = self.retry_rule.delay(job.retry_count)
        if delay is None:
            return self.jobs.bury(job, error, actor=actor, silent=silent)
        return self.jobs.fail(job, error, delay=delay, actor=actor, silent=silent)

    def follow_up(self, job: Job) -> datetime | None:
        """Let the job's own run start again if the job waits for that; returns when, or None."""
        at = _next_start(job)
        if at is None or job.prefect_flow_run_id is None:
            return None
        if not self.orchestrator.reschedule(job.prefect_flow_run_id, at):
            self._look_after_overdue(job)
        return at

    def is_alive(self, run_id: UUID) -> bool:
        """Whether Prefect has the run neither ended nor forgotten. Raises Unavailable."""
        return self.orchestrator.state(run_id) not in {RunState.ENDED, RunState.MISSING}

    def _give_run(self, job: Job) -> UUID:
        run_id = self.orchestrator.create(job)
        self.jobs.set_run(job.id, job.generation, run_id)
        return run_id

    def _look_after_unclaimed(self, job: Job) -> bool:
        """A queued job whose run has ended, vanished or hangs before it started goes back in line."""
        assert job.prefect_flow_run_id is not None
        state = self.orchestrator.state(job.prefect_flow_run_id)
        if state in {RunState.WAITING, RunState.RUNNING}:
            return False
        if state is RunState.PENDING:
            self.orchestrator.cancel(job.prefect_flow_run_id)
        return self.jobs.give_back(job, actor=SWEEP, reason=f"its Prefect run is {state.name.lower()}")

    def _look_after_overdue(self, job: Job) -> bool:
        """A failed job whose retry never began: its run again, or a new one when that is gone."""
        assert job.prefect_flow_run_id is not None
        if job.run_after and self.orchestrator.reschedule(job.prefect_flow_run_id, job.run_after):
            return True
        return self.jobs.give_back(job, actor=SWEEP, reason="its Prefect run is missing")


def _next_start(job: Job) -> datetime | None:
    """When the run of this job should start again; the worker's clock only tells Prefect, no decision hangs on it."""
    match job.status:
        case Status.FAILED:
            return job.run_after
        case Status.QUEUED:
            return datetime.now(UTC)
        case _:
            return None
