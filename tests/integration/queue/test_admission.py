from collections import Counter
from threading import Thread

from sqlalchemy import text

from outhaul.store.database import query
from outhaul.store.jobs import JobStore


def admitted(jobs, **bounds):
    store = JobStore(jobs.engine, **{"max_active": 100, "max_per_source": 100, **bounds})
    return [jobs.get(job_id) for job_id in store.admit(actor="test")]


def finish(engine, job):
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE export_jobs SET status = 'cancelled', finished_at = now() WHERE id = :id"), {"id": job.id}
        )


def test_no_tenant_holds_more_places_than_its_own(jobs, ask, tenants):
    for _ in range(5):
        ask("UA"), ask("DL")
    tenants.set("DL", max_concurrent_jobs=3)
    assert Counter(job.tenant for job in admitted(jobs)) == {"UA": 2, "DL": 3}
    assert admitted(jobs) == []


def test_a_flood_does_not_hold_up_a_single_job(jobs, ask, engine):
    for _ in range(50):
        ask("UA")
    ask("DL")
    first = admitted(jobs, max_active=2)
    assert {job.tenant for job in first} == {"UA", "DL"}
    finish(engine, next(job for job in first if job.tenant == "UA"))
    ask("AA")
    assert [job.tenant for job in admitted(jobs, max_active=2)] == ["AA"], "least recently served goes first"


def test_priority_then_age_within_a_tenant(jobs, ask, tenants):
    low, old, new, high = ask(priority="low"), ask(), ask(), ask(priority="high")
    tenants.set("UA", max_concurrent_jobs=1)
    order = []
    for places in range(1, 5):
        tenants.set("UA", max_concurrent_jobs=places)
        order += [job.id for job in admitted(jobs)]
    assert order == [high, old, new, low]


def test_the_total_is_bounded(jobs, ask):
    for tenant in "ABCDEFG":
        ask(tenant), ask(tenant)
    first = admitted(jobs, max_active=6)
    assert len({job.tenant for job in first}) == 6, "each tenant's first job before anyone's second"
    assert admitted(jobs, max_active=6) == []


def test_a_disabled_tenant_waits(jobs, ask, tenants):
    job_id = ask()
    tenants.set("UA", export_enabled=False)
    assert admitted(jobs) == []
    tenants.set("UA", export_enabled=True)
    assert [job.id for job in admitted(jobs)] == [job_id]


def test_many_admissions_at_once_give_no_place_twice(jobs, ask):
    for tenant in "ABCD":
        for _ in range(10):
            ask(tenant)
    got = []
    threads = [Thread(target=lambda: got.extend(admitted(jobs, max_active=5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len({job.id for job in got}) == 5
    assert max(Counter(job.tenant for job in got).values()) <= 2


def test_low_priority_is_late_but_never_lost(jobs, ask, tenants, engine):
    """A stream of urgent jobs never ends; the low one still has its turn, two hours later."""
    ask("UA"), tenants.set("UA", max_concurrent_jobs=1)
    low = ask(priority="low")
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE export_jobs SET created_at = now() - make_interval(mins => 119) WHERE id = :id"), {"id": low}
        )
    urgent = [ask(priority="high") for _ in range(3)]
    (first,) = admitted(jobs)
    assert first.id == urgent[0]
    finish(engine, first)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE export_jobs SET created_at = created_at - interval '2 minutes' WHERE id = :id"), {"id": low}
        )
    (second,) = admitted(jobs)
    assert second.id == low


def test_ten_thousand_tenants_cost_no_more_than_those_who_wait(jobs, ask, engine):
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO tenants (name) SELECT 't' || i FROM generate_series(1, 10000) AS i"))
        connection.execute(text("ANALYZE tenants"))
    job_id = ask("UA")
    with engine.connect() as connection:
        plan = "\n".join(
            connection.execute(
                text(f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {query('job_admit')}"),
                {"max_active": 6, "max_per_source": 6, "target": "queued", "sources": ["enqueued"]},
            ).scalars()
        )
    assert "Seq Scan on tenants" not in plan, plan
    assert [job.id for job in admitted(jobs)] == [job_id]


def test_five_hundred_jobs_of_one_tenant_delay_anothers_by_one_export_at_most(jobs, ask, engine):
    for _ in range(500):
        ask("UA")
    running = admitted(jobs, max_active=2)
    assert [job.tenant for job in running] == ["UA", "UA"], "they have all places while nobody else wants one"
    mine = ask("DL")
    assert admitted(jobs, max_active=2) == []
    finish(engine, running[0])
    assert [job.id for job in admitted(jobs, max_active=2)] == [mine], "the first place that gets free"
    other = ask("AA")
    assert [job.id for job in admitted(jobs, max_active=6)][:1] == [other], "and at once where there is room"
