"""Many long exports at once: the queue stays at hand, and the source is never asked for more than it gives."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from fault_proxy import FaultProxy
from s3_server import BUCKET
from sqlalchemy import create_engine, text

from outhaul.data.catalog import Catalog, Dataset, Select
from outhaul.domain.job import Status
from outhaul.errors import Unavailable
from outhaul.service.dispatcher import Dispatcher
from outhaul.service.sources import Sources
from outhaul.service.worker import Worker
from outhaul.store.insights import Insights
from outhaul.store.jobs import JobStore
from outhaul.store.local import LocalStore
from outhaul.store.pauses import PauseStore
from outhaul.store.s3 import S3Store

SLOW = Dataset("slow", Select("SELECT i, pg_sleep(0.02)::text AS s FROM generate_series(1, 100) i"), None, shared=True)
STUCK = Dataset("stuck", Select("SELECT pg_sleep(1000)::text AS s"), None, shared=True)
NUMBERS = "(SELECT generate_series(1, 1000000000000) AS i) AS numbers"
ENDLESS = Dataset("endless", Select(f"SELECT md5(i::text) AS t FROM {NUMBERS}"), None, shared=True)
CATALOG = Catalog(SLOW, STUCK, ENDLESS)
BOUNDS = {"max_active": 100, "max_per_source": 100}
HEARTBEAT = timedelta(seconds=0.2)


class Renewals(JobStore):
    """Counts the renewals of each job that the database granted."""

    def __init__(self, engine):
        super().__init__(engine, **BOUNDS)
        self.granted = Counter()

    def renew(self, job, **params):
        answer = super().renew(job, **params)
        self.granted[job.id] += answer is not None
        return answer


class Runs:
    """In place of Prefect: gives every job a run, and calls nothing back."""

    def create(self, job):
        return uuid4()


@pytest.fixture
def engine(database_url):
    """A control pool of five connections, and not one more."""
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, pool_size=5, max_overflow=0, pool_timeout=10)
    yield engine
    engine.dispose()


@pytest.fixture
def jobs(engine):
    return Renewals(engine)


@pytest.fixture
def worker(jobs, source_url, tmp_path):
    return make_worker(jobs, source_url, tmp_path)


def make_worker(jobs, source_url, folder):
    sources = Sources(lambda: source_url, {}, lambda: PauseStore(jobs.engine))
    return Worker(
        jobs,
        lambda: CATALOG,
        lambda: LocalStore(folder / "files"),
        Dispatcher(jobs, Runs(), sources),
        sources,
        lease=timedelta(seconds=20),
        heartbeat=HEARTBEAT,
        statement_timeout=timedelta(seconds=120),
    )


def carry_out(worker, job_id) -> Status:
    """What a flow run does with a job."""
    job = worker.claim(job_id, worker.jobs.get(job_id).generation, owner=f"worker of {job_id}")
    try:
        with worker.hold(job) as lease:
            return worker.settle(job, worker.produce(job, lease), actor="worker").status
    except Exception as error:  # noqa: BLE001 - so does the flow
        return worker.fail(job, error, actor="worker")


@contextmanager
def watching(url):
    with psycopg.connect(url, autocommit=True) as connection:
        yield lambda: connection.execute(
            "SELECT application_name, state FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name ~ '^outhaul:'"
        ).fetchall()


def await_sessions(sessions, count, *, state="active"):
    for _ in range(1000):
        if [found for _, found in sessions()].count(state) == count:
            return
        time.sleep(0.02)
    pytest.fail(f"{count} sessions were expected, there are {sessions()}")


def await_none(sessions):
    for _ in range(250):
        if not sessions():
            return
        time.sleep(0.02)
    pytest.fail(f"left on the source: {sessions()}")


def test_case_60_long_exports_do_not_starve_the_queue(worker, jobs, engine, ask, source_url):
    ids = [ask(f"tenant {i // 2}", dataset="slow") for i in range(12)]
    assert worker.dispatcher.dispatch(actor="test") == 12
    insights, ended, answers, most = Insights(engine, **BOUNDS), threading.Event(), Counter(), Counter()

    def look():
        while not ended.wait(0.01):
            assert len(insights.recent(None, None, 50)) == 12
            assert jobs.lapsed() == []
            assert jobs.overdue(timedelta(0)) == []
            assert worker.dispatcher.dispatch(actor="a slot fires") == 0
            jobs.get(ids[0])
            answers["looks"] += 1

    with watching(source_url) as sessions, ThreadPoolExecutor(20) as threads:
        try:
            looking = [threads.submit(look) for _ in range(4)]
            running = [threads.submit(carry_out, worker, job_id) for job_id in ids]
            while not all(each.done() for each in running):
                found = sessions()
                for name, count in Counter(name for name, _ in found).items():
                    most[name] = max(most[name], count)
                most["at once"] = max(most["at once"], len(found))
                time.sleep(0.02)
        finally:
            ended.set()
        for each in looking:
            each.result()
        assert [each.result() for each in running] == [Status.COMPLETED] * 12
        await_none(sessions)
    # One connection each, all at the same time, from no pool.
    assert most == {**{f"outhaul:{job_id}:1": 1 for job_id in ids}, "at once": 12}
    assert {jobs.get(job_id).rows_written for job_id in ids} == {100}
    assert answers["looks"] >= 4
    # Two seconds of sleep at a beat of 0.2 s; a machine that is busy with all this may be late, but never misses.
    assert all(jobs.granted[job_id] >= 3 for job_id in ids), jobs.granted


def test_case_60_a_busy_control_pool_is_an_outage_not_a_crash(worker, jobs, engine, ask):
    """Renewing goes on with the next beat; whoever asks hears one plain line."""
    engine.pool._timeout = 0.1
    job_id = ask(dataset="slow")
    worker.dispatcher.dispatch(actor="test")
    taken = [engine.connect() for _ in range(5)]
    with pytest.raises(Unavailable, match="all connections to the queue database are busy") as caught:
        jobs.get(job_id)
    assert "QueuePool" in caught.value.detail
    for connection in taken:
        connection.close()
    job = worker.claim(job_id, 1, owner="worker")
    with worker.hold(job) as lease:
        taken = [engine.connect() for _ in range(5)]
        time.sleep(4 * HEARTBEAT.total_seconds())
        before = jobs.granted[job_id]
        for connection in taken:
            connection.close()
        for _ in range(100):
            if jobs.granted[job_id] > before:
                break
            time.sleep(0.05)
        lease.check()
    assert jobs.granted[job_id] > before


def test_case_60_at_the_roles_limit_the_job_waits_and_retries(jobs, engine, ask, source_url, tmp_path):
    role = f"exporter_{uuid4().hex[:8]}"
    with psycopg.connect(source_url, autocommit=True) as admin, watching(source_url) as sessions:
        admin.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 3")
        try:
            worker = make_worker(jobs, source_url.replace("postgres@", f"{role}@", 1), tmp_path)
            ids = [ask(f"tenant {i}", dataset="slow" if i == 3 else "stuck") for i in range(4)]
            worker.dispatcher.dispatch(actor="test")
            with ThreadPoolExecutor(3) as threads:
                running = []
                for job_id in ids[:3]:  # one by one: a session that is about to end still counts for the role
                    running.append(threads.submit(carry_out, worker, job_id))
                    await_sessions(sessions, len(running))
                assert carry_out(worker, ids[3]) is Status.FAILED
                job = jobs.get(ids[3])
                assert (job.error_code, job.retry_count) == ("source_error", 1)
                assert job.error_message == "The source database has no free connection (SQLSTATE 53300)."
                assert job.run_after > job.updated_at
                assert role not in job.error_message
                assert role in job.error_detail
                assert worker.claim(job.id, 1, owner="too soon") is None
                for job_id in ids[:3]:
                    assert jobs.request_cancel(job_id, actor="ann")
                assert [each.result() for each in running] == [Status.CANCELLED] * 3
            await_none(sessions)
            with engine.begin() as connection:
                connection.execute(text("UPDATE export_jobs SET run_after = now() WHERE run_after IS NOT NULL"))
            assert carry_out(worker, ids[3]) is Status.COMPLETED
            assert jobs.get(ids[3]).attempt == 2
            await_none(sessions)
        finally:
            admin.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("dataset", ["stuck", "endless"])
def test_case_58_a_cancelled_job_ends_its_query(worker, jobs, ask, source_url, dataset):
    """Whether the source is silent or sends without end."""
    job_id = ask(dataset=dataset)
    worker.dispatcher.dispatch(actor="test")
    with watching(source_url) as sessions, ThreadPoolExecutor(1) as threads:
        running = threads.submit(carry_out, worker, job_id)
        await_sessions(sessions, 1)
        assert jobs.request_cancel(job_id, actor="ann")
        assert running.result(timeout=20) is Status.CANCELLED
        await_none(sessions)
    assert list(worker.files().list()) == []
    assert not [path for path in worker.files().root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("dataset", "when"), [("endless", "answering"), ("slow", "fault")], ids=["part", "whole file"])
def test_a_cancelled_job_does_not_wait_for_a_silent_store(worker, jobs, ask, moto, dataset, when):
    """And when the store speaks again, the upload ends and takes back what it has done, even a file that came late."""
    prefix = f"silent-{uuid4().hex[:8]}"
    silent, again = threading.Event(), threading.Event()

    def fall_silent(request):
        if request.method == "PUT":
            silent.set()
            again.wait(60)

    with FaultProxy(moto.port) as proxy, ThreadPoolExecutor(1) as threads:
        setattr(proxy, when, fall_silent)
        store = S3Store(moto.client(port=proxy.port), BUCKET, prefix)
        job_id = ask(dataset=dataset)
        worker.dispatcher.dispatch(actor="test")
        running = threads.submit(carry_out, replace(worker, files=lambda: store), job_id)
        try:
            assert silent.wait(60)
            assert jobs.request_cancel(job_id, actor="ann")
            assert running.result(timeout=30) is Status.CANCELLED
            assert at_work(), "the upload still waits"
        finally:
            again.set()
        for _ in range(500):
            if not at_work():
                break
            time.sleep(0.02)
        assert at_work() == []
    assert "Contents" not in moto.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    assert moto.client().list_multipart_uploads(Bucket=BUCKET, Prefix=prefix).get("Uploads", []) == []


def at_work():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("outhaul")]
