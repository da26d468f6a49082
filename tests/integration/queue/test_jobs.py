from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from uuid import uuid4

import pytest
from sqlalchemy import text

from outhaul.domain.job import Status, StoredFile
from outhaul.domain.transitions import TRANSITIONS
from outhaul.errors import NotFound, SourceError

LEASE = timedelta(minutes=5)
ERROR = SourceError("the source database closed the connection", sqlstate="08006", detail="host db1")
FILE = StoredFile(part=0, s3_key="UA/x/1-1/flights-00000.csv", row_count=3, byte_count=30, sha256="0" * 64)


@pytest.fixture
def claimed(jobs, ask):
    job_id = ask()
    jobs.admit(actor="test")
    assert jobs.claim(job_id, 1, owner="w1", flow_run_id=None, lease=LEASE)
    return jobs.get(job_id)


def force(engine, job, change):
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE export_jobs SET {change} WHERE id = :id"), {"id": job.id})


def test_the_database_knows_the_same_statuses_as_the_table_of_transitions(engine):
    with engine.connect() as connection:
        check = connection.execute(
            text("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'export_jobs_status_check'")
        ).scalar_one()
    assert set(check.split("'")[1::2]) == {str(status) for status in TRANSITIONS}


def test_a_request_comes_back_as_it_was_asked(jobs, ask):
    query = {
        "columns": ["carrier"],
        "filters": [{"column": "carrier", "op": "in", "value": ["UA", "Ü'\"\\"]}],
        "limit": 5,
    }
    job = jobs.get(ask(format="parquet", query=query, priority="high", recipients="a@lab.test"))
    assert (job.status, job.format, job.priority, job.attempt, job.generation) == ("enqueued", "parquet", "high", 0, 1)
    assert job.query["filters"]["and"][0]["value"] == ["UA", "Ü'\"\\"]
    assert job.options == {"compression": "zstd"} | job.options
    assert (job.tenant, job.recipients) == ("UA", "a@lab.test")


def test_the_same_idempotency_key_makes_one_job_per_tenant(jobs, ask, tenants):
    first = ask(idempotency_key="k")
    assert ask(idempotency_key="k") == first
    assert ask("DL", idempotency_key="k") != first
    assert len({ask(), ask()}) == 2


def test_two_claimers_and_one_lease(jobs, ask):
    job_id = ask()
    jobs.admit(actor="test")
    gate, won = Barrier(8), []

    def claim(name):
        gate.wait()
        if jobs.claim(job_id, 1, owner=name, flow_run_id=None, lease=LEASE):
            won.append(name)

    threads = [Thread(target=claim, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    job = jobs.get(job_id)
    assert won == [job.lease_owner]
    assert job.attempt == 1


def test_a_claim_is_for_the_generation_and_run_that_were_admitted(jobs, ask):
    job_id, run = ask(), uuid4()
    assert not jobs.claim(job_id, 1, owner="w", flow_run_id=run, lease=LEASE), "not admitted yet"
    jobs.admit(actor="test")
    jobs.set_run(job_id, 1, run)
    assert not jobs.claim(job_id, 2, owner="w", flow_run_id=run, lease=LEASE)
    assert not jobs.claim(job_id, 1, owner="w", flow_run_id=uuid4(), lease=LEASE)
    assert jobs.claim(job_id, 1, owner="w", flow_run_id=run, lease=LEASE)


def test_completion_records_files_and_counts_together(jobs, insights, claimed):
    remarks = {"replaced": {"d": 2}}
    assert jobs.complete(claimed, [FILE], manifest_key="UA/x/1-1/manifest.json", actor="w1", remarks=remarks)
    job = jobs.get(claimed.id)
    assert (job.status, job.rows_written, job.byte_count) == ("completed", 3, 30)
    assert job.lease_expiry is job.lease_owner is None
    assert job.finished_at is not None
    assert insights.files(job.id) == [FILE]
    assert [(e.event, e.from_status, e.to_status) for e in insights.events(job.id)] == [
        ("enqueue", None, "enqueued"),
        ("admit", "enqueued", "queued"),
        ("claim", "queued", "processing"),
        ("complete", "processing", "completed"),
    ]
    assert insights.events(job.id)[-1].detail == {"rows": 3, "bytes": 30, "files": 1, "replaced": {"d": 2}}


def test_a_late_completion_is_refused_and_leaves_no_file(jobs, insights, claimed, engine):
    jobs.fail(claimed, ERROR, delay=timedelta(0), actor="sweep")
    force(engine, claimed, "run_after = now() - interval '1 second'")
    assert jobs.due(claimed.id, 1, actor="w2")
    assert jobs.claim(claimed.id, 1, owner="w2", flow_run_id=None, lease=LEASE)
    assert not jobs.complete(claimed, [FILE], manifest_key="m", actor="w1")
    assert not jobs.fail(claimed, ERROR, delay=timedelta(0), actor="w1")
    assert not jobs.give_back(claimed, actor="w1", reason="told to stop")
    assert jobs.renew(claimed, lease=LEASE, rows_done=1, rows_total_estimate=None) is None
    assert insights.files(claimed.id) == []
    assert jobs.get(claimed.id).lease_owner == "w2"
    assert jobs.get(claimed.id).attempt == 2


def test_renewing_lengthens_the_lease_and_reports_a_wish_to_cancel(jobs, claimed, engine):
    force(engine, claimed, "lease_expiry = now() - interval '1 second'")
    assert jobs.lapsed() == [claimed.id]
    assert jobs.renew(claimed, lease=LEASE, rows_done=7, rows_total_estimate=9) is False
    assert jobs.lapsed() == []
    assert (jobs.get(claimed.id).rows_done, jobs.get(claimed.id).rows_total_estimate) == (7, 9)
    assert jobs.request_cancel(claimed.id, actor="ann")
    assert jobs.renew(claimed, lease=LEASE, rows_done=8, rows_total_estimate=None) is True


def test_a_failed_job_waits_for_its_retry_and_dies_after_three(jobs, claimed, engine):
    for retry in range(1, 4):
        job = jobs.get(claimed.id)
        assert jobs.fail(job, ERROR, delay=timedelta(seconds=30), actor="w1")
        job = jobs.get(claimed.id)
        assert (job.status, job.retry_count, job.error_code) == ("failed", retry, "source_error")
        assert 25 < (job.run_after - datetime.now(UTC)).total_seconds() < 35
        assert not jobs.due(job.id, 1, actor="w1"), "its time has not come"
        force(engine, job, "run_after = now()")
        assert jobs.due(job.id, 1, actor="w1")
        assert jobs.claim(job.id, 1, owner="w1", flow_run_id=None, lease=LEASE)
    assert jobs.bury(jobs.get(claimed.id), ERROR, actor="w1")
    job = jobs.get(claimed.id)
    assert (job.status, job.attempt, job.error_detail) == ("dead", 4, "host db1")
    assert jobs.requeue(job.id, actor="ann")
    job = jobs.get(claimed.id)
    assert (job.status, job.generation, job.retry_count, job.attempt) == ("enqueued", 2, 0, 4)


def test_a_due_retry_waits_while_its_tenant_has_no_place(jobs, ask, engine, claimed):
    jobs.fail(claimed, ERROR, delay=timedelta(0), actor="w1")
    force(engine, claimed, "run_after = now() - interval '1 second'")
    ask(), ask()
    jobs.admit(actor="test")
    assert not jobs.due(claimed.id, 1, actor="w1")
    assert jobs.get(claimed.id).status is Status.FAILED


def test_cancel_at_once_or_by_request(jobs, insights, ask, claimed):
    waiting = jobs.get(ask())
    assert not jobs.request_cancel(waiting.id, actor="ann")
    assert jobs.cancel(waiting, actor="ann")
    assert not jobs.cancel(waiting, actor="ann")
    assert jobs.get(waiting.id).status is Status.CANCELLED
    assert jobs.request_cancel(claimed.id, actor="ann")
    assert jobs.get(claimed.id).status is Status.PROCESSING
    assert jobs.cancel(claimed, actor="w1")
    last = [(line.event, line.actor) for line in insights.events(claimed.id)][-2:]
    assert last == [("cancel_request", "ann"), ("cancel", "w1")], "who wanted it is on record"


def test_history_cannot_be_rewritten(engine, claimed):
    with pytest.raises(Exception, match="append-only"), engine.begin() as connection:
        connection.execute(text("UPDATE job_events SET actor = 'nobody'"))


@pytest.mark.parametrize(
    "change",
    [
        "status = 'lost'",
        "status = 'queued'",  # would keep the lease
        "lease_expiry = NULL",
        "retry_count = 4",
        "s3_key = 'x'",
        "status = 'completed', lease_expiry = NULL, lease_owner = NULL, finished_at = now()",
        "status = 'failed', lease_expiry = NULL, lease_owner = NULL, run_after = now()",  # without an error
        "finished_at = now()",
        "rows_done = -1",
        "priority = 'urgent'",
        "priority = NULL",
        "format = 'xml'",
        "requested_by = ''",
    ],
)
def test_the_database_refuses_what_no_job_can_be(engine, claimed, change):
    with pytest.raises(Exception, match="violates"):
        force(engine, claimed, change)


def test_ids_may_be_cut(insights, claimed):
    assert insights.find(str(claimed.id)) == claimed.id
    assert insights.find(claimed.short_id) == claimed.id
    for wrong in ("abc", "zzzz", str(uuid4()) + "0"):
        with pytest.raises(NotFound, match="not a job id"):
            insights.find(wrong)
