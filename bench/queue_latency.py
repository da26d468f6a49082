"""How long each thing takes that people, workers and the sweep ask of the queue, with a short past and a long one."""

from __future__ import annotations

import hashlib
import random
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from statistics import quantiles
from typing import TYPE_CHECKING
from uuid import uuid4

from outhaul.domain.job import Status, StoredFile
from outhaul.domain.request import parse_request
from outhaul.errors import SourceError, Unavailable
from outhaul.store.database import connect
from outhaul.store.insights import Insights
from outhaul.store.jobs import JobStore
from outhaul.store.tenants import TenantStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from bench.queue_tables import Tables
    from outhaul.domain.job import Job

ACTOR = "bench"
LEASE = timedelta(minutes=5)
GRACE = timedelta(minutes=2)
PAGE = 50  # as `outhaul jobs` shows
UNBOUNDED = {"max_active": 1_000_000, "max_per_source": 1_000_000}
BUDGET_S = 20.0  # after so long an operation is not repeated any more ...
LEAST = 10  # ... unless that would leave too few
REQUEST = {
    "dataset": "orders",
    "query": {"columns": ["id", "status", "amount"], "filters": {"column": "status", "op": "=", "value": "paid"}},
    "recipients": "reports@example.com",
}


@dataclass(frozen=True, slots=True)
class Latency:
    """What one operation took at both sizes, in milliseconds."""

    operation: str
    repetitions: int
    small_p50: float
    small_p95: float
    large_p50: float
    large_p95: float

    @property
    def ratio(self) -> float:
        """How much longer the 95th percentile is with the long past."""
        return self.large_p95 / self.small_p95


class Subject:
    """One of the two databases, its stores, and the times taken so far."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.engine = connect(tables.url, application_name="outhaul bench")
        self.insights = Insights(self.engine, **UNBOUNDED)
        self.tenants = TenantStore(self.engine)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.chance = random.Random(tables.jobs)
        counts = self.insights.counts()
        busy = sum(counts[status][0] for status in (Status.QUEUED, Status.PROCESSING))
        self.jobs = JobStore(self.engine, max_active=busy + 1, max_per_source=busy + 1)

    @contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        """Take the time of the block."""
        start = time.perf_counter()
        yield
        self.times[operation].append(time.perf_counter() - start)

    def some_job(self) -> str:
        """The first digits of the id of a job of the past."""
        return hashlib.md5(f"job {self.chance.randint(1, self.tables.jobs)}".encode()).hexdigest()[:12]

    def some_tenant(self) -> str:
        """A tenant's name; who has more jobs comes up more often, in the proportion of ``queue_seed.sql``."""
        return f"tenant-{1 + int(self.tables.tenants * self.chance.random() ** 3)}"


def measure(small: Tables, large: Tables, repetitions: int, tell: Callable[[str], None]) -> list[Latency]:
    """Do everything by turns in both databases, so that what slows the machine for a while slows both.

    Raises:
        Unavailable: the database does not answer, or an operation did not do what it is measured for.
    """
    subjects = (Subject(small), Subject(large))
    for turn in range(-LEAST, repetitions):  # those before 0 only warm up
        for subject in subjects if turn % 2 else reversed(subjects):
            live(subject, turn)
        if turn < 0:
            for subject in subjects:
                subject.times.clear()
    tell("one job's life, step by step: done")
    for operation, read in READS.items():
        _repeat(subjects, operation, read, repetitions)
        tell(f"{operation}: done")
    for subject in subjects:
        subject.engine.dispose()
    return [_latency(name, subjects[0].times[name], subjects[1].times[name]) for name in subjects[0].times]


def _repeat(
    subjects: Sequence[Subject], operation: str, read: Callable[[Subject, str], None], repetitions: int
) -> None:
    for subject in subjects:
        read(subject, operation)
        subject.times[operation].clear()  # the first one only warms up
    for turn in range(repetitions):
        if turn >= LEAST and any(sum(subject.times[operation]) > BUDGET_S for subject in subjects):
            return
        for subject in subjects if turn % 2 else reversed(subjects):
            read(subject, operation)


def live(subject: Subject, turn: int) -> None:
    """Take one job from its request to its end, and another one's place to give it: every step that changes a row."""
    jobs = subject.jobs
    tenant = subject.tenants.get(subject.some_tenant()).id
    request = parse_request({**REQUEST, "idempotency_key": str(uuid4())})
    with subject.timed("enqueue"):
        jobs.add(tenant, request, requested_by=ACTOR)
    with subject.timed("dispatch"):
        admitted = jobs.admit(actor=ACTOR)
    if len(admitted) != 1:
        raise Unavailable(f"dispatch admitted {len(admitted)} jobs where one place was free")
    (job_id,) = admitted
    run = uuid4()
    with subject.timed("set run"):
        jobs.set_run(job_id, 1, run)
    with subject.timed("claim"):
        claimed = jobs.claim(job_id, 1, owner=str(run), flow_run_id=run, lease=LEASE)
    if claimed is None:
        raise Unavailable("a job that was free could not be claimed")
    with subject.timed("get"):
        job = jobs.get(claimed.id)
    with subject.timed("heartbeat"):
        held = jobs.renew(job, lease=LEASE, rows_done=1000, rows_total_estimate=2000)
    if turn % 2:
        error = SourceError("the source database cannot be reached")
        with subject.timed("fail"):
            ended = jobs.fail(job, error, delay=timedelta(days=1), actor=ACTOR)
    else:
        with subject.timed("settle"):
            ended = jobs.complete(job, [published(job)], manifest_key=f"{key(job)}manifest.json", actor=ACTOR)
    if held is None or not ended:
        raise Unavailable("a job that was free could not be taken to its end")


def key(job: Job) -> str:
    """The folder of the job's files."""
    return f"{job.tenant}/{job.id}/{job.generation}-{job.attempt}/"


def published(job: Job) -> StoredFile:
    """One file of the job."""
    return StoredFile(0, f"{key(job)}orders-00000.csv", 2000, 150_000, hashlib.sha256(job.id.bytes).hexdigest())


def _sweep(subject: Subject, operation: str) -> None:
    jobs = subject.jobs
    with subject.timed(operation):
        found = [jobs.lapsed(), jobs.without_run(GRACE), jobs.unclaimed(GRACE), jobs.overdue(GRACE)]
    if not all(found):
        raise Unavailable("the sweep did not find what is there to be found")


def _list(*, by_tenant: bool, status: Status | None) -> Callable[[Subject, str], None]:
    def read(subject: Subject, operation: str) -> None:
        name = subject.some_tenant()
        with subject.timed(operation):
            tenant: UUID | None = subject.tenants.get(name).id if by_tenant else None
            subject.insights.recent(tenant, status, PAGE)

    return read


def _find(subject: Subject, operation: str) -> None:
    digits = subject.some_job()
    with subject.timed(operation):
        subject.jobs.get(subject.insights.find(digits))


def _depth(subject: Subject, operation: str) -> None:
    with subject.timed(operation):
        subject.insights.counts()


READS: dict[str, Callable[[Subject, str], None]] = {
    "sweep's four reads": _sweep,
    "find job": _find,
    "list of a tenant": _list(by_tenant=True, status=None),
    "list of a tenant, dead": _list(by_tenant=True, status=Status.DEAD),
    "list of all": _list(by_tenant=False, status=None),
    "list of all, dead": _list(by_tenant=False, status=Status.DEAD),
    "queue depth": _depth,
}


def _latency(operation: str, small: list[float], large: list[float]) -> Latency:
    return Latency(operation, len(large), *_percentiles(small), *_percentiles(large))


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    cuts = quantiles(seconds, n=20, method="inclusive")
    return 1000 * cuts[9], 1000 * cuts[18]
