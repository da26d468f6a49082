"""A Prefect that loses, doubles and delays runs on command, in one process and without a clock."""

from __future__ import annotations

from itertools import count
from uuid import UUID

from outhaul.errors import PrefectUnavailable
from outhaul.orchestrator import RunState


class FakePrefect:
    """Stands in for the orchestrator: runs by idempotency key, with states that a test sets."""

    def __init__(self):
        self.runs, self.states, self.starts, self.down = {}, {}, {}, False
        self._ids = count(1)

    def _answer(self):
        if self.down:
            raise PrefectUnavailable("Prefect's API does not answer: check PREFECT_API_URL")

    def create(self, job):
        self._answer()
        run_id = self.runs.setdefault((job.id, job.generation), UUID(int=next(self._ids)))
        self.states.setdefault(run_id, RunState.WAITING)
        return run_id

    def state(self, run_id):
        self._answer()
        return self.states.get(run_id, RunState.MISSING)

    def reschedule(self, run_id, at):
        self._answer()
        if run_id not in self.states:
            return False
        self.states[run_id], self.starts[run_id] = RunState.WAITING, at
        return True

    def end(self, run_id):
        self._answer()
        self.states[run_id] = RunState.ENDED

    def clear_stale(self, age):
        self._answer()
        return 0

    def cancel(self, run_id):
        self._answer()
        self.states[run_id] = RunState.ENDED
