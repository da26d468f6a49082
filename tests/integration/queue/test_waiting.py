"""Anyone can ask why a job waits, and gets the limit that binds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from outhaul.domain.pause import Pause, Scope
from outhaul.domain.waiting import Limit
from outhaul.errors import SourceError, SourceUnreachable
from outhaul.store.insights import Insights

LEASE = timedelta(minutes=5)
ERROR = SourceError("The connection to the source database broke.", sqlstate="08006")


@pytest.fixture
def why(jobs, insights):
    return lambda job_id: insights.wait(jobs.get(job_id))


def test_one_look_at_the_line_serves_a_server_for_a_while(engine, jobs, ask):
    often, seldom = (
        Insights(engine, max_active=6, max_per_source=6, line_fresh_for=timedelta(hours=hours)) for hours in (0, 1)
    )
    mine = jobs.get(ask("DL"))
    assert [asked.wait(mine).position for asked in (often, seldom)] == [1, 1]
    for _ in range(2):
        ask("UA")
    assert [asked.wait(mine).position for asked in (often, seldom)] == [2, 1]


def test_behind_its_own_tenant(jobs, ask, why):
    ids = [ask("UA") for _ in range(5)]
    ask("DL")
    jobs.admit(actor="test")
    first, last = why(ids[2]), why(ids[4])
    assert (first.limit, first.position, last.position) == (Limit.TENANT_CAP, 1, 3)
    assert first.reason == "all 2 places of tenant UA are taken"
    assert first.estimate is None, "nothing has ended yet"
    assert (why(ids[0]).limit, why(ids[0]).position) == (Limit.WORKER, None)


def test_other_tenants_take_turns(jobs, ask, why):
    for _ in range(50):
        ask("UA")
    mine = [ask("DL") for _ in range(3)]
    assert [why(job_id).position for job_id in mine] == [2, 4, 6], "one of UA's before each of mine"
    assert why(mine[0]).limit is Limit.TURN


def test_priority_and_age_decide_the_place(jobs, ask, why, engine):
    low, normal, high = ask(priority="low"), ask(), ask(priority="high")
    assert [why(job_id).position for job_id in (high, normal, low)] == [1, 2, 3]
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE export_jobs SET created_at = now() - interval '3 hours' WHERE id = :id"), {"id": low}
        )
    assert [why(job_id).position for job_id in (low, high, normal)] == [1, 2, 3]


def test_the_queues_and_the_sources_own_bounds(jobs, ask, engine):
    for tenant in "ABC":
        ask(tenant)
    for bounds, limit, words in (
        ({"max_active": 2, "max_per_source": 9}, Limit.QUEUE_CAP, "all 2 places of the queue are taken"),
        ({"max_active": 9, "max_per_source": 2}, Limit.SOURCE_CAP, "all 2 places of source default are taken"),
    ):
        store, insights = type(jobs)(engine, **bounds), Insights(engine, **bounds)
        store.admit(actor="test")
        (waiting,) = [j for j in insights.recent(None, None, 10) if j.status == "enqueued"]
        found = insights.wait(waiting)
        assert (found.limit, found.reason) == (limit, words)


def test_pauses_tell_their_reason(jobs, ask, why, pauses, sources, tenants):
    job_id = ask()
    pauses.add(Pause(Scope.DATASET, "flights", "ann", "being rebuilt"))
    assert (why(job_id).limit, why(job_id).reason) == (Limit.PAUSE, "dataset flights is paused: being rebuilt")
    sources.trip("default", SourceUnreachable("The source database cannot be reached.", detail="host db1"))
    found = why(job_id)
    assert found.limit is Limit.SOURCE_DOWN
    assert found.reason == "source default is down: The source database cannot be reached"
    assert found.until is not None
    pauses.add(Pause(Scope.QUEUE, "", "ann"))
    assert why(job_id).reason == "the queue is paused", "the widest pause is named"
    for pause in pauses.all():
        pauses.lift(pause.scope, pause.name)
    tenants.set("UA", export_enabled=False)
    assert why(job_id).limit is Limit.TENANT_DISABLED


def test_a_retry_says_when(jobs, ask, why, engine):
    job_id = ask()
    jobs.admit(actor="test")
    job = jobs.claim(job_id, 1, owner="w", flow_run_id=None, lease=LEASE)
    assert why(job_id) is None, "it is running"
    jobs.fail(job, ERROR, delay=timedelta(minutes=2), actor="w")
    found = why(job_id)
    assert (found.limit, found.reason, found.until) == (Limit.RETRY, "retry 1 is due", jobs.get(job_id).run_after)
    with engine.begin() as connection:
        connection.execute(text("UPDATE export_jobs SET run_after = now() WHERE run_after IS NOT NULL"))
    assert why(job_id).limit is Limit.TURN


def test_the_estimate_follows_recent_exports(jobs, ask, why, engine):
    ids = [ask("UA") for _ in range(8)]
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE export_jobs SET status = 'completed', attempt = 1, started_at = now() - interval '40 seconds',"
                " finished_at = now(), s3_key = id::text, rows_written = 1, byte_count = 1 WHERE id = ANY(:ids)"
            ),
            {"ids": ids[:3]},
        )
    assert why(ids[0]) is None
    assert why(ids[3]).estimate == timedelta(seconds=40)
