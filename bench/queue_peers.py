"""Who takes jobs from a queue and settles them: Outhaul in two ways, and what else is built on PostgreSQL."""

from __future__ import annotations

import asyncio
import queue
import random
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import procrastinate
import psycopg
from procrastinate.jobs import Status as Ending

from bench.queue_latency import ACTOR, LEASE, REQUEST, UNBOUNDED, key, published
from bench.queue_tables import fresh_database, translated
from outhaul.domain.job import Status
from outhaul.domain.request import parse_request
from outhaul.errors import Unavailable
from outhaul.store.database import connect
from outhaul.store.insights import Insights
from outhaul.store.jobs import JobStore
from outhaul.store.tenants import TenantStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from bench.queue_tables import Tables
    from outhaul.stack.postgres import EmbeddedPostgres

WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Contest:
    """What all workers of one contender share; made before they are, and inherited by them."""

    url: str
    workers: int
    jobs: list[UUID]  # that are ready to be claimed
    inbox: Any  # a queue between the processes, for ids of jobs that one admits and another claims
    max_active: int = 0


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to work off jobs.

    ``prepare`` returns the URL of a database with so many jobs to do. ``worker`` opens what worker ``number`` needs
    and yields its cycle, which settles jobs and returns how many, or None when there will be none any more.
    """

    name: str
    label: str
    table: str
    prepare: Callable[[EmbeddedPostgres, Tables, int], str]
    worker: Callable[[Contest, int], AbstractContextManager[Callable[[], int | None]]]


ADMITTED = """
INSERT INTO export_jobs (tenant_id, requested_by, dataset, query, status, prefect_flow_run_id)
SELECT tenants.id, 'bench', 'orders', '{"columns": ["id", "status"]}', 'queued', gen_random_uuid()
FROM generate_series(1, %s) AS i
JOIN tenants ON tenants.name = 'tenant-' || 1 + i %% (SELECT count(*) FROM tenants)
"""


def _admitted(server: EmbeddedPostgres, tables: Tables, jobs: int) -> str:
    del server
    tables.refresh()
    with translated(), psycopg.connect(tables.url) as connection:
        connection.execute(ADMITTED, [jobs])
        connection.execute("ANALYZE export_jobs")
    return tables.url


def ready(url: str) -> list[UUID]:
    """Ids of the jobs that ``_admitted`` has made."""
    with translated(), psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT id FROM export_jobs WHERE status = 'queued' AND requested_by = 'bench' ORDER BY created_at, id"
        )
        return [row[0] for row in rows]


def busy(url: str) -> int:
    """How many jobs have a place."""
    engine = connect(url)
    counts = Insights(engine, **UNBOUNDED).counts()
    engine.dispose()
    return sum(counts[status][0] for status in (Status.QUEUED, Status.PROCESSING) if status in counts)


def _settle(jobs: JobStore, job_id: UUID, run: UUID | None, owner: str) -> None:
    job = jobs.claim(job_id, 1, owner=owner, flow_run_id=run, lease=LEASE)
    if job is None:
        raise Unavailable("a job that nobody else works at could not be claimed")
    if not jobs.complete(job, [published(job)], manifest_key=f"{key(job)}manifest.json", actor=ACTOR):
        raise Unavailable("a job that nobody else works at could not be settled")


@contextmanager
def _claim_and_settle(contest: Contest, number: int) -> Iterator[Callable[[], int | None]]:
    engine = connect(contest.url, application_name="outhaul bench")
    jobs = JobStore(engine, **UNBOUNDED)
    mine = iter(contest.jobs[number :: contest.workers])

    def cycle() -> int | None:
        job_id = next(mine, None)
        if job_id is None:
            return None
        _settle(jobs, job_id, None, f"worker-{number}")
        return 1

    jobs.get(contest.jobs[number])  # opens the connection
    yield cycle
    engine.dispose()


def _present(server: EmbeddedPostgres, tables: Tables, jobs: int) -> str:
    del server, jobs
    tables.refresh()
    return tables.url


@contextmanager
def _whole_life(contest: Contest, number: int) -> Iterator[Callable[[], int | None]]:
    """Each cycle asks for one job, admits what may be admitted, and takes one of the admitted to its end."""
    engine = connect(contest.url, application_name="outhaul bench")
    jobs = JobStore(engine, max_active=contest.max_active, max_per_source=contest.max_active)
    chance = random.Random(number)
    tenants = [tenant.id for tenant in TenantStore(engine).all()]

    def cycle() -> int | None:
        tenant = tenants[int(len(tenants) * chance.random() ** 3)]
        jobs.add(tenant, parse_request({**REQUEST, "idempotency_key": str(uuid4())}), requested_by=ACTOR)
        for job_id in jobs.admit(actor=ACTOR):
            contest.inbox.put(job_id)
        try:
            job_id = contest.inbox.get(timeout=WAIT_S)
        except queue.Empty:
            return 0
        run = uuid4()
        jobs.set_run(job_id, 1, run)
        _settle(jobs, job_id, run, f"worker-{number}")
        return 1

    yield cycle
    contest.inbox.cancel_join_thread()
    engine.dispose()


def _procrastinate(url: str) -> procrastinate.App:
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=1))


def _deferred(server: EmbeddedPostgres, tables: Tables, jobs: int) -> str:
    del tables
    url = fresh_database(server, "queue_procrastinate")
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url))
    with app.open():
        app.schema_manager.apply_schema()
    with translated(), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
            """ SELECT 'exports', 'export', '{"columns": ["id", "status"]}' FROM generate_series(1, %s)""",
            [jobs],
        )
        connection.execute("VACUUM (ANALYZE)")
    return url


@contextmanager
def _fetch_and_finish(contest: Contest, number: int) -> Iterator[Callable[[], int | None]]:
    """Procrastinate's own job manager, as its worker calls it."""
    del number
    app = _procrastinate(contest.url)
    with asyncio.Runner() as runner:
        manager = app.job_manager

        async def start() -> int:
            await app.open_async()
            return await manager.register_worker()

        async def fetch_and_finish() -> int | None:
            job = await manager.fetch_job(queues=None, worker_id=worker_id)
            if job is None:
                return None
            await manager.finish_job(job, Ending.SUCCEEDED, delete_job=False)
            return 1

        worker_id = runner.run(start())
        yield lambda: runner.run(fetch_and_finish())
        runner.run(app.close_async())


# The table and the statements of a message queue such as pgmq: what is read is hidden for a while, then archived.
MESSAGES = """
CREATE TABLE messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reads integer NOT NULL DEFAULT 0,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    visible_at timestamptz NOT NULL DEFAULT now(),
    message jsonb NOT NULL
);
CREATE INDEX messages_visible_at ON messages (visible_at);
CREATE TABLE archive (LIKE messages, archived_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id));
"""
READ = """
WITH next AS (
    SELECT id FROM messages WHERE visible_at <= clock_timestamp() ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE messages AS m SET visible_at = clock_timestamp() + interval '5 minutes', reads = reads + 1
FROM next WHERE m.id = next.id
RETURNING m.id, m.message
"""
ARCHIVE = """
WITH gone AS (DELETE FROM messages WHERE id = %s RETURNING id, reads, enqueued_at, visible_at, message)
INSERT INTO archive (id, reads, enqueued_at, visible_at, message) SELECT * FROM gone
"""


def _sent(server: EmbeddedPostgres, tables: Tables, jobs: int) -> str:
    del tables
    url = fresh_database(server, "queue_messages")
    with translated(), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MESSAGES)
        connection.execute(
            """INSERT INTO messages (message) SELECT '{"columns": ["id", "status"]}' FROM generate_series(1, %s)""",
            [jobs],
        )
        connection.execute("VACUUM (ANALYZE)")
    return url


@contextmanager
def _read_and_archive(contest: Contest, number: int) -> Iterator[Callable[[], int | None]]:
    del number
    with translated(), psycopg.connect(contest.url, autocommit=True) as connection:

        def cycle() -> int | None:
            row = connection.execute(READ).fetchone()
            if row is None:
                return None
            connection.execute(ARCHIVE, [row[0]])
            return 1

        yield cycle


CONTENDERS = (
    Contender("outhaul", "Outhaul: claim, settle", "export_jobs", _admitted, _claim_and_settle),
    Contender("outhaul-life", "Outhaul: enqueue, admit, claim, settle", "export_jobs", _present, _whole_life),
    Contender("procrastinate", "Procrastinate: fetch, finish", "procrastinate_jobs", _deferred, _fetch_and_finish),
    Contender("pgmq-style", "pgmq-style: read, archive", "messages", _sent, _read_and_archive),
)
