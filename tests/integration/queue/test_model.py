"""Random commands, crashes and moves of the clock against the real database, with what must hold after each of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest
from fake_prefect import FakePrefect
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from outhaul.domain.job import Status, StoredFile
from outhaul.domain.pause import Pause, Scope
from outhaul.domain.request import parse_request
from outhaul.errors import (
    Cancelled,
    ContractViolation,
    Interrupted,
    LeaseLost,
    SourceError,
    SourceUnreachable,
    Unavailable,
)
from outhaul.orchestrator import RunState
from outhaul.service.dispatcher import Dispatcher
from outhaul.service.sources import Sources
from outhaul.service.worker import Worker
from outhaul.store.insights import Insights
from outhaul.store.jobs import JobStore
from outhaul.store.pauses import PauseStore
from outhaul.store.tenants import TenantStore

CAP, MAX_ACTIVE, MAX_PER_SOURCE = 2, 5, 3
LEASE, BEAT = timedelta(minutes=5), timedelta(minutes=1)
TENANTS = ("A", "B", "C")
SOURCES = ("default", "crm")
DEAD_END = "postgresql://postgres@127.0.0.1:1/gone"
ENDS = frozenset({Status.COMPLETED, Status.DEAD, Status.CANCELLED})
FAILURES = {
    "transient": SourceError("the connection broke", sqlstate="08006"),
    "permanent": ContractViolation("column a holds NULL"),
    "interrupted": Interrupted("the worker was told to stop"),
    "source down": SourceUnreachable("The source database cannot be reached."),
    "unforeseen": ZeroDivisionError(),
}
SHIFT = """
UPDATE export_jobs SET
    created_at = created_at - CAST(:d AS interval), updated_at = updated_at - CAST(:d AS interval),
    lease_expiry = lease_expiry - CAST(:d AS interval), run_after = run_after - CAST(:d AS interval)
"""


class NoFiles:
    """A store in which nothing lies."""

    def list(self, prefix):
        return iter(())


class Queue(RuleBasedStateMachine):
    """The queue with its tenants, its workers, and a Prefect that may do anything with its runs."""

    engine = None
    source_url = ""

    workers = Bundle("workers")

    @initialize()
    def begin(self):
        with self.engine.begin() as connection:
            connection.execute(
                text("TRUNCATE export_jobs, export_files, job_events, schedules, tenants, pauses CASCADE")
            )
        self.jobs = JobStore(self.engine, max_active=MAX_ACTIVE, max_per_source=MAX_PER_SOURCE)
        self.insights = Insights(self.engine, max_active=MAX_ACTIVE, max_per_source=MAX_PER_SOURCE)
        self.pauses = PauseStore(self.engine)
        self.urls = dict.fromkeys(SOURCES, self.source_url)
        self.prefect = FakePrefect()
        sources = Sources(lambda: self.urls["default"], self.urls, lambda: self.pauses)
        self.dispatcher = Dispatcher(self.jobs, self.prefect, sources)
        self.worker = Worker(
            self.jobs, None, NoFiles, self.dispatcher, sources,
            lease=LEASE, heartbeat=BEAT, statement_timeout=timedelta(hours=1),
        )  # fmt: skip
        tenants = TenantStore(self.engine)
        for name in TENANTS:
            tenants.add(name, "free", CAP)
        with self.engine.begin() as connection:  # the same in each run: among equals the id decides who is first
            connection.execute(text("UPDATE tenants SET id = CAST(lpad(to_hex(ascii(name)), 32, '0') AS uuid)"))
        self.tenants = {tenant.name: tenant.id for tenant in tenants.all()}
        self.seen = {}  # what each job was, for what may never change back

    # What people do.

    @rule(
        tenant=st.sampled_from(TENANTS),
        source=st.sampled_from(SOURCES),
        priority=st.sampled_from(["high", "normal", "low"]),
    )
    def ask(self, tenant, source, priority):
        request = parse_request({"dataset": "flights", "priority": priority})
        self.jobs.add(self.tenants[tenant], request, requested_by="test", source=source)
        self.dispatch()

    @rule(target=workers, tenant=st.sampled_from(TENANTS), source=st.sampled_from(SOURCES))
    def ask_and_start(self, tenant, source):
        self.ask(tenant, source, "high")
        waiting = [
            (key, run) for key, run in self.prefect.runs.items() if self.prefect.states.get(run) is RunState.WAITING
        ]
        return self.start(*waiting[-1]) if waiting else multiple()

    @rule(data=st.data(), move=st.sampled_from(["cancel", "requeue", "discard"]))
    def command(self, data, move):
        if job := self.some_job(data):
            if move == "requeue":
                self.jobs.requeue(job.id, actor="ann")
            elif move == "discard":
                self.jobs.discard(job.id, actor="ann")
            elif not self.jobs.request_cancel(job.id, actor="ann"):
                self.jobs.cancel(job, actor="ann")

    @rule(
        what=st.sampled_from(
            [(Scope.QUEUE, ""), (Scope.TENANT, "A"), (Scope.DATASET, "flights"), (Scope.SOURCE, "crm")]
        )
    )
    def pause_or_resume(self, what):
        if not self.pauses.lift(*what):
            self.pauses.add(Pause(*what, "ann"))

    # What the stack does.

    @rule()
    def dispatch(self):
        try:
            self.dispatcher.dispatch(actor="test")
        except Unavailable:
            assert self.prefect.down

    @rule()
    def sweep(self):
        try:
            self.dispatcher.sweep()
        except Unavailable:
            assert self.prefect.down

    @rule(target=workers, data=st.data(), again=st.booleans())
    def start_run(self, data, again):
        """A run starts, or one that has started before starts a second time."""
        states = {RunState.WAITING, RunState.PENDING, *([RunState.RUNNING, RunState.ENDED] if again else [])}
        runs = [(key, run) for key, run in self.prefect.runs.items() if self.prefect.states.get(run) in states]
        if not runs:
            self.ask("A", "default", "normal")
            return multiple()
        return self.start(*data.draw(st.sampled_from(runs)))

    @rule(target=workers, worker=workers)
    def cut_off(self, worker):
        """A worker cannot renew its lease, another takes its job over, and both go on."""
        for _ in range(2):
            self.time_passes(0.3)
            self.sweep()
        standing = self.jobs.get(worker.job.id)
        run = standing.prefect_flow_run_id
        if run is None or self.prefect.states.get(run) is not RunState.WAITING:
            return multiple()
        return self.start((standing.id, standing.generation), run)

    @rule(worker=workers)
    def beat(self, worker):
        self.jobs.renew(worker.job, lease=LEASE, rows_done=1, rows_total_estimate=None)

    @rule(worker=consumes(workers))
    def succeed(self, worker):
        self.finish(worker)

    @rule(worker=consumes(workers), kind=st.sampled_from(sorted(FAILURES)))
    def fail(self, worker, kind):
        self.urls[worker.job.source] = DEAD_END if kind == "source down" else self.source_url
        self.settle(worker, FAILURES[kind])

    @rule(worker=consumes(workers), told=st.booleans())
    def die(self, worker, told):
        """The process is killed; Prefect may have seen it."""
        if told:
            self.prefect.states[worker.run] = RunState.ENDED
            self.after_run(worker, crashed=True)

    @rule(hours=st.sampled_from([0.01, 0.05, 0.3, 3]))
    def time_passes(self, hours):
        with self.engine.begin() as connection:
            params = {"d": timedelta(hours=hours)}
            connection.execute(text(SHIFT), params)
            connection.execute(text("UPDATE pauses SET until = until - CAST(:d AS interval)"), params)

    @rule()
    def prefect_goes_or_comes(self):
        self.prefect.down = not self.prefect.down

    @rule(data=st.data(), state=st.sampled_from([None, RunState.ENDED, RunState.PENDING]))
    def prefect_errs(self, data, state):
        """It forgets a run, ends it for no reason, or hands it to a worker that never begins."""
        if self.prefect.states:
            run = data.draw(st.sampled_from(sorted(self.prefect.states)))
            if state is None:
                del self.prefect.states[run]
            else:
                self.prefect.states[run] = state

    @rule(source=st.sampled_from(SOURCES))
    def source_is_back(self, source):
        self.urls[source] = self.source_url

    # What must hold.

    @invariant()
    def hold(self):
        jobs = self.insights.recent(None, None, 10_000)
        busy = [job for job in jobs if job.status in {Status.QUEUED, Status.PROCESSING}]
        assert all(count <= CAP for count in Counter(job.tenant for job in busy).values())
        assert all(count <= MAX_PER_SOURCE for count in Counter(job.source for job in busy).values())
        assert len(busy) <= MAX_ACTIVE
        for job in jobs:
            before = self.seen.get(job.id, job)
            assert (job.attempt, job.generation) >= (before.attempt, before.generation)
            if before.status is Status.COMPLETED:
                assert (job.status, job.attempt, job.s3_key) == (before.status, before.attempt, before.s3_key)
            if before.status in ENDS and job.status not in ENDS:
                assert job.generation > before.generation, "only a person starts it anew"
            assert len(self.insights.files(job.id)) == (job.status is Status.COMPLETED)
            assert (self.insights.wait(job) is not None) == (job.status not in {*ENDS, Status.PROCESSING})
            self.seen[job.id] = job
        holders = Counter(job.lease_owner for job in jobs if job.lease_owner)
        assert all(count == 1 for count in holders.values())

    def teardown(self):
        """With everybody well again, each job ends: none is lost, and none is stuck."""
        if self.engine is None or not hasattr(self, "jobs"):
            return
        self.prefect.down = False
        self.urls = dict.fromkeys(SOURCES, self.source_url)
        self.dispatcher.sources.named.update(self.urls)
        for pause in self.pauses.all():
            self.pauses.lift(pause.scope, pause.name)
        for _ in range(60):
            self.time_passes(0.3)
            self.sweep()
            for (job_id, generation), run in list(self.prefect.runs.items()):
                if self.prefect.states.get(run) is RunState.WAITING:
                    worker = self.start((job_id, generation), run)
                    if hasattr(worker, "job"):
                        self.finish(worker)
            self.hold()
            if all(job.status in ENDS for job in self.insights.recent(None, None, 10_000)):
                return
        raise AssertionError(
            [(j.short_id, j.status, self.insights.wait(j)) for j in self.insights.recent(None, None, 99)]
        )

    # As flows/export.py does it.

    def start(self, key, run):
        self.prefect.states[run] = RunState.RUNNING
        job = self.worker.claim(*key, owner=f"{run}/1", flow_run_id=run)
        if job is None:
            self.prefect.states[run] = RunState.ENDED
            return multiple()
        return SimpleNamespace(job=job, run=run)

    def finish(self, worker):
        job = worker.job
        key = f"{job.tenant}/{job.id}/{job.generation}-{job.attempt}/"
        produced = SimpleNamespace(
            files=(StoredFile(0, f"{key}x.csv", 1, 1, "0" * 64),),
            manifest_key=f"{key}manifest.json",
            replaced={},
            notes=(),
        )
        standing = self.jobs.get(job.id)
        mine = standing.status is Status.PROCESSING and standing.attempt == job.attempt
        try:
            self.worker.settle(job, produced, actor="w")
        except LeaseLost as error:
            assert not mine
            self.settle(worker, error)
        else:
            assert mine, "a late completion must be refused"
            self.prefect.states[worker.run] = RunState.ENDED
            self.dispatch()

    def settle(self, worker, error):
        before = self.jobs.get(worker.job.id)
        mine = before.status is Status.PROCESSING and before.attempt == worker.job.attempt
        status = self.worker.fail(worker.job, error, actor="w")
        after = self.jobs.get(worker.job.id)
        if not mine:
            assert after == before, "it is another's by now"
        elif before.cancel_requested_at:
            assert status is Status.CANCELLED
        elif isinstance(error, Interrupted | SourceUnreachable):
            assert (status, after.retry_count) == (Status.ENQUEUED, before.retry_count), "it costs no retry"
        elif not isinstance(error, Cancelled | LeaseLost):
            assert status is (Status.FAILED if after.retry_count > before.retry_count else Status.DEAD)
        self.prefect.states[worker.run] = RunState.ENDED
        self.dispatch()
        self.after_run(worker, crashed=False)

    def after_run(self, worker, *, crashed):
        try:
            self.worker.after_run(worker.job.id, worker.run, crashed=crashed)
        except Unavailable:
            assert self.prefect.down

    def some_job(self, data):
        jobs = self.insights.recent(None, None, 10_000)
        return data.draw(st.sampled_from(sorted(jobs, key=lambda job: job.created_at))) if jobs else None


@pytest.mark.timeout(600)
def test_whatever_happens_the_queue_keeps_its_word(engine, source_url):
    machine = type("Machine", (Queue,), {"engine": engine, "source_url": source_url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            phases=[Phase.explicit, Phase.generate],  # shrinking takes many minutes, and 40 steps can be read
            database=None,
        ),
    )
