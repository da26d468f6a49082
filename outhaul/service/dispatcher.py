"""Who is next, and what has gone astray: admission and the sweep. Both are idempotent; two at once do no harm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from outhaul.domain.job import Status
from outhaul.domain.retry import RetryRule
from outhaul.errors import Unavailable, WorkerVanished
from outhaul.orchestrator import RunState

if TYPE_CHECKING:
    from uuid import UUID

    from outhaul.domain.job import Job
    from outhaul.errors import OuthaulError
    from outhaul.orchestrator import Orchestrator
    from outhaul.store.jobs import JobStore

SWEEP = "sweep"
# How long a run may take from admission to claim, or from its retry's time, before someone looks after it.
GRACE = timedelta(minutes=2)
# How soon a due retry asks again for a place that its tenant did not have.
NO_PLACE_PAUSE = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Moves jobs along whenever no worker is there to do it."""

    jobs: JobStore
    orchestrator: Orchestrator
    max_active: int
    retry_rule: RetryRule = field(default_factory=RetryRule)

    def dispatch(self, *, actor: str) -> int:
        """Admit what may be admitted and give each a Prefect run; returns how many.

        Raises:
            Unavailable: Prefect or the database does not answer; jobs without a run are back in line.
        """
        admitted = self.jobs.admit(self.max_active, actor=actor)
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
        for job_id in self.jobs.overdue(GRACE):
            done["retried"] += self._look_after_overdue(self.jobs.get(job_id))
        done["stale runs"] += self.orchestrator.clear_stale(GRACE)
        done["admitted"] += self.dispatch(actor=SWEEP)
        return done

    def lapse(self, job: Job) -> bool:
        """Settle a job whose worker is gone: the next retry if one is left, else dead; cancelled if that was asked."""
        if job.status is not Status.PROCESSING:
            return False
        if job.cancel_requested_at is not None:
            return self.jobs.cancel(job, actor=SWEEP)
        error = WorkerVanished("the worker stopped without a word (killed, out of memory or cut off)")
        if not self.settle_failure(job, error, permanent=False, actor=SWEEP):
            return False
        self.follow_up(self.jobs.get(job.id))
        return True

    def settle_failure(self, job: Job, error: OuthaulError, *, permanent: bool, actor: str) -> bool:
        """Record a failed attempt: a retry when the error is transient and one is left, else dead."""
        delay = None if permanent else self.retry_rule.delay(job.retry_count)
        if delay is None:
            return self.jobs.bury(job, error, actor=actor)
        return self.jobs.fail(job, error, delay=delay, actor=actor)

    def follow_up(self, job: Job) -> datetime | None:
        """Let the job's own run start again if the job waits for that; returns when, or None."""
        at = _next_start(job)
        if at is None or job.prefect_flow_run_id is None:
            return None
        if not self.orchestrator.reschedule(job.prefect_flow_run_id, at):
            self._look_after_overdue(job)
        return at

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
        return self.jobs.give_back(job, new_run=True, actor=SWEEP, reason=f"its Prefect run is {state.name.lower()}")

    def _look_after_overdue(self, job: Job) -> bool:
        """A failed job whose retry never began: its run again, or a new one when that is gone."""
        assert job.prefect_flow_run_id is not None
        if job.run_after and self.orchestrator.reschedule(job.prefect_flow_run_id, job.run_after):
            return True
        if not self.jobs.due(job.id, job.generation, actor=SWEEP):
            return False
        return self.jobs.give_back(
            self.jobs.get(job.id), new_run=True, actor=SWEEP, reason="its Prefect run is missing"
        )


def _next_start(job: Job) -> datetime | None:
    """When the run of this job should start again; the worker's clock only tells Prefect, no decision hangs on it."""
    now = datetime.now(UTC)
    match job.status:
        case Status.FAILED if job.run_after and job.run_after <= now:
            return now + NO_PLACE_PAUSE
        case Status.FAILED:
            return job.run_after
        case Status.QUEUED:
            return now
        case _:
            return None
