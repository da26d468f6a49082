"""What a worker does with one job, whatever comes in between: real databases, a real store, a Prefect that obeys."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from fake_prefect import FakePrefect
from sqlalchemy import text

from outhaul.data.catalog import Catalog, Dataset, Select
from outhaul.domain.job import Status
from outhaul.errors import Cancelled, Interrupted, LeaseLost, SourceError, SourceUnreachable, Unavailable
from outhaul.orchestrator import RunState
from outhaul.service.dispatcher import Dispatcher
from outhaul.service.sources import Sources
from outhaul.service.worker import Worker
from outhaul.store.local import LocalStore

NUMBERS = Dataset("numbers", Select("SELECT generate_series(1, 1000) AS i"), None, shared=True)
SLEEP = Dataset("sleep", Select("SELECT pg_sleep(100)::text AS s"), None, shared=True)
HASTY = Dataset(
    "hasty", Select("SELECT pg_sleep(100)::text"), None, shared=True, statement_timeout=timedelta(seconds=0.2)
)
CRM = Dataset("crm", Select("SELECT 1 AS i", database="crm"), None, shared=True)


@pytest.fixture
def url(source_url):
    return [source_url]


@pytest.fixture
def worker(jobs, pauses, url, tmp_path):
    sources = Sources(lambda: url[0], {}, lambda: pauses)
    store = LocalStore(tmp_path / "files")
    return Worker(
        jobs,
        lambda: Catalog(NUMBERS, SLEEP, HASTY, CRM),
        lambda: store,
        Dispatcher(jobs, FakePrefect(), sources),
        sources,
        lease=timedelta(seconds=20),
        heartbeat=timedelta(seconds=0.1),
        statement_timeout=timedelta(seconds=60),
    )


@pytest.fixture
def take(worker, jobs, ask):
    """Ask for a job, have it admitted, and claim it."""

    def take(dataset="numbers"):
        job_id = ask(dataset=dataset)
        worker.dispatcher.dispatch(actor="test")
        job = jobs.get(job_id)
        return worker.claim(job_id, 1, owner="w", flow_run_id=job.prefect_flow_run_id)

    return take


def again(worker, jobs, job_id):
    """Claim a job for its next attempt, as its next run does."""
    worker.dispatcher.dispatch(actor="test")
    job = jobs.get(job_id)
    return worker.claim(job_id, job.generation, owner="w2", flow_run_id=job.prefect_flow_run_id)


def produce(worker, job):
    with worker.hold(job) as lease:
        return worker.produce(job, lease)


def stored(worker):
    return sorted(worker.files().list())


def sessions(url):
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name ~ '^outhaul:' AND datname = current_database()"
        ).fetchone()[0]


def await_sessions(url, count):
    for _ in range(500):
        if sessions(url) == count:
            return
        time.sleep(0.02)
    pytest.fail(f"{count} sessions were expected, there are {sessions(url)}")


def test_a_worker_that_is_told_to_stop_hands_its_job_back(worker, jobs, take, insights):
    job = take()
    produced = produce(worker, job)
    assert stored(worker) == sorted([*(f.s3_key for f in produced.files), produced.manifest_key])
    assert worker.fail(job, Interrupted("the worker was told to stop"), actor="w") is Status.ENQUEUED
    assert stored(worker) == [], "what it had published belongs to no job"
    back = jobs.get(job.id)
    assert (back.retry_count, back.generation, back.attempt, back.prefect_flow_run_id) == (0, 2, 1, None)
    assert insights.events(job.id)[-1].detail == {"reason": "its worker was told to stop"}
    second = again(worker, jobs, job.id)
    assert worker.settle(second, produce(worker, second), actor="w2").attempt == 2


def test_a_source_that_is_down_costs_no_retry_and_is_seen(worker, jobs, take, insights, url, source_url):
    job = take()
    url[0] = "postgresql://postgres@127.0.0.1:1/gone"
    for _ in range(5):
        with pytest.raises(SourceError) as caught:
            produce(worker, job)
        assert worker.fail(job, caught.value, actor="w") is Status.ENQUEUED
        assert worker.dispatcher.dispatch(actor="test") == 0, "the breaker holds it back"
        assert insights.wait(jobs.get(job.id)).limit == "source_down"
        assert "127.0.0.1" not in insights.wait(jobs.get(job.id)).reason
        # Ten minutes on, with no sweep in between: the job tries for itself.
        with jobs.engine.begin() as connection:
            connection.execute(text("UPDATE pauses SET until = now()"))
        job = again(worker, jobs, job.id)
    assert (job.retry_count, job.attempt) == (0, 6)
    url[0] = source_url
    assert worker.settle(job, produce(worker, job), actor="w").rows_written == 1000


def test_a_retry_without_a_place_goes_back_in_line(worker, jobs, take, ask, engine):
    job = take()
    worker.fail(job, SourceError("gone", sqlstate="08006"), actor="w")
    ask(dataset="numbers"), ask(dataset="numbers")
    worker.dispatcher.dispatch(actor="test")
    standing = jobs.get(job.id)
    assert worker.claim(job.id, 1, owner="w", flow_run_id=standing.prefect_flow_run_id) is None
    assert jobs.get(job.id).status is Status.FAILED, "it is not due yet"
    with engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET run_after = now() WHERE run_after IS NOT NULL"))
    assert worker.claim(job.id, 1, owner="w", flow_run_id=standing.prefect_flow_run_id) is None
    back = jobs.get(job.id)
    assert (back.status, back.generation, back.retry_count) == (Status.ENQUEUED, 2, 1)


def test_success_removes_what_a_killed_attempt_had_published(worker, jobs, take, engine):
    """Killed between its upload and its commit: the files are there, and the job knows nothing of them."""
    job = take()
    produce(worker, job)
    first = stored(worker)
    worker.dispatcher.lapse(job)
    with engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET run_after = now() WHERE run_after IS NOT NULL"))
    second = worker.claim(job.id, 1, owner="w2", flow_run_id=jobs.get(job.id).prefect_flow_run_id)
    done = worker.settle(second, produce(worker, second), actor="w2")
    assert stored(worker) == [done.s3_key, done.s3_key.replace("manifest.json", "numbers-00000.csv")]
    assert not set(first) & set(stored(worker))


def test_a_late_error_does_not_take_a_recorded_success_away(worker, jobs, take):
    """The commit went through, its answer was lost."""
    job = take()
    done = worker.settle(job, produce(worker, job), actor="w")
    before = stored(worker)
    assert worker.fail(job, Unavailable("the queue database cannot be reached"), actor="w") is Status.COMPLETED
    assert stored(worker) == before
    assert done.s3_key in before


def test_a_database_that_is_away_for_a_moment_costs_no_attempt(worker, jobs, take, monkeypatch):
    """At the end of an export, too: its success, or what stopped it, is recorded as soon as it is back."""
    monkeypatch.setattr("outhaul.service.worker.DATABASE_PAUSE_S", 0.01)
    real, left = type(jobs).complete, [3]

    def complete(self, *args, **kwargs):
        if left[0]:
            left[0] -= 1
            if left[0] == 0:
                real(self, *args, **kwargs)  # the success stands, its answer is lost
            raise Unavailable("the queue database cannot be reached")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(type(jobs), "complete", complete)
    job = take()
    done = worker.settle(job, produce(worker, job), actor="w")
    assert (done.status, done.attempt, left) == (Status.COMPLETED, 1, [0])


def test_case_28_a_late_completion_is_refused_and_leaves_nothing(worker, jobs, take, engine):
    job = take()
    produced = produce(worker, job)
    worker.dispatcher.lapse(job)
    with engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET run_after = now() WHERE run_after IS NOT NULL"))
    second = worker.claim(job.id, 1, owner="w2", flow_run_id=jobs.get(job.id).prefect_flow_run_id)
    with pytest.raises(LeaseLost) as caught:
        worker.settle(job, produced, actor="w")
    assert worker.fail(job, caught.value, actor="w") is Status.PROCESSING
    assert stored(worker) == []
    assert worker.settle(second, produce(worker, second), actor="w2").attempt == 2


def test_case_28_a_lost_lease_stops_the_work_within_a_beat(worker, jobs, take, engine, source_url):
    job = take("sleep")
    caught = []

    def run():
        try:
            produce(worker, job)
        except LeaseLost as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await_sessions(source_url, 1)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE export_jobs SET attempt = attempt + 1 WHERE id = :id"), {"id": job.id}
        )  # another attempt has it
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert len(caught) == 1
    await_sessions(source_url, 0)


def test_case_28_a_silent_query_keeps_its_lease(worker, jobs, take, source_url):
    """Nothing comes from the source for many times the length of a beat, and the lease is renewed all the same."""
    job = take("sleep")
    caught = []

    def run():
        try:
            produce(worker, job)
        except Cancelled as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await_sessions(source_url, 1)
    before = jobs.get(job.id).lease_expiry
    time.sleep(0.5)
    assert jobs.get(job.id).lease_expiry > before + timedelta(seconds=0.2)
    assert jobs.lapsed() == []
    assert jobs.request_cancel(job.id, actor="ann")
    thread.join(timeout=20)
    assert len(caught) == 1


def test_a_cancel_need_not_wait_for_a_beat(worker, jobs, take, source_url):
    """In mid query, with the beat an hour away and no word from Prefect."""
    job = take("sleep")
    patient = replace(worker, lease=timedelta(hours=3), heartbeat=timedelta(hours=1))
    caught = []

    def run():
        try:
            produce(patient, job)
        except Cancelled as error:
            caught.append(patient.fail(job, error, actor="w"))

    thread = threading.Thread(target=run)
    thread.start()
    await_sessions(source_url, 1)
    assert jobs.request_cancel(job.id, actor="ann")
    thread.join(timeout=20)
    assert caught == [Status.CANCELLED]
    await_sessions(source_url, 0)


def test_a_worker_told_to_stop_ends_its_query(worker, take, source_url):
    """The signal reaches the main thread, as always, while another one is in mid query."""
    job = take("sleep")

    def stop(*_):
        raise Interrupted("the worker was told to stop")

    def tell():
        await_sessions(source_url, 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    before, thread = signal.signal(signal.SIGTERM, stop), threading.Thread(target=tell)
    thread.start()
    try:
        with pytest.raises(Interrupted):
            produce(worker, job)
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)
    await_sessions(source_url, 0)
    assert stored(worker) == []


def test_the_next_attempt_and_the_sweep_end_what_earlier_ones_left(worker, jobs, take, engine, source_url):
    """A worker that was cut off goes on reading; nobody may overrun the source for it."""
    job = take("sleep")
    name = f"outhaul:{job.id}:1"
    with (
        psycopg.connect(source_url, application_name=name),
        psycopg.connect(source_url, application_name="outhaul:x:1"),
    ):
        await_sessions(source_url, 2)
        worker.dispatcher.lapse(job)
        await_sessions(source_url, 1)
    with engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET run_after = now(), dataset = 'numbers' WHERE id IS NOT NULL"))
    second = worker.claim(job.id, 1, owner="w2", flow_run_id=jobs.get(job.id).prefect_flow_run_id)
    assert second.attempt == 2
    with psycopg.connect(source_url, application_name=name):
        await_sessions(source_url, 1)
        produce(worker, second)
        await_sessions(source_url, 0)


def test_a_datasets_own_statement_timeout(worker, jobs, take):
    job = take("hasty")
    with pytest.raises(SourceError, match="57014"):
        produce(worker, job)


def test_a_source_without_an_address_is_named(worker, jobs, take):
    with pytest.raises(Unavailable, match="OUTHAUL_SOURCES: 'crm' is not a known source"):
        produce(worker, take("crm"))


def test_a_crash_that_prefect_has_seen_is_settled_at_once(worker, jobs, take):
    """Without waiting for the lease; but not while another start of the same run is at work."""
    job = take()
    run, prefect = job.prefect_flow_run_id, worker.dispatcher.orchestrator
    with jobs.engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET lease_owner = :o"), {"o": f"{run}/2"})
    prefect.states[run] = RunState.RUNNING
    worker.after_run(job.id, run, crashed=True)
    assert jobs.get(job.id).status is Status.PROCESSING, "word of the first start comes late: the second one works"
    prefect.states[run] = RunState.ENDED
    worker.after_run(job.id, uuid4(), crashed=True)
    assert jobs.get(job.id).status is Status.PROCESSING, "another run's crash"
    worker.after_run(job.id, run, crashed=True)
    assert jobs.get(job.id).status is Status.FAILED
    assert prefect.starts[run] == jobs.get(job.id).run_after


def test_case_32_a_run_of_the_same_name_takes_nothing_from_another(worker, jobs, take):
    """A worker's name is no proof: the run and the attempt are."""
    job = take()
    assert worker.claim(job.id, 1, owner="w", flow_run_id=uuid4()) is None
    assert worker.claim(job.id, 1, owner="w", flow_run_id=job.prefect_flow_run_id) is None
    assert jobs.get(job.id).attempt == 1


def test_a_worker_that_comes_late_moves_nothing(worker, jobs, take, engine):
    """Its lease ran out, and what it says comes after a retry fell due or a person started the job anew."""
    job = take()
    worker.dispatcher.lapse(job)
    with engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET run_after = now() - interval '1 s'"))
    for error in (
        Interrupted("told to stop"),
        SourceUnreachable("gone"),
        Cancelled("asked to stop"),
        LeaseLost("late"),
    ):
        assert worker.fail(job, error, actor="w") is Status.FAILED
    standing = jobs.get(job.id)
    assert (standing.status, standing.generation, standing.prefect_flow_run_id) == (
        Status.FAILED,
        1,
        job.prefect_flow_run_id,
    )


def test_a_cancel_that_ends_late_does_not_stop_the_next_generation(worker, jobs, take):
    job = take()
    assert jobs.request_cancel(job.id, actor="ann")
    worker.dispatcher.lapse(jobs.get(job.id))
    assert jobs.requeue(job.id, actor="ann")
    assert worker.fail(job, Cancelled("asked to stop"), actor="w") is Status.ENQUEUED
    worker.after_cancel(job.id, job.generation, actor="prefect")
    assert jobs.get(job.id).status is Status.ENQUEUED, "Prefect's word on the run before comes seconds later"
    worker.after_cancel(job.id, 2, actor="prefect")
    assert jobs.get(job.id).status is Status.CANCELLED
