from collections import Counter
from threading import Thread

from sqlalchemy import text


def admitted(jobs, max_active=100):
    return [jobs.get(job_id) for job_id in jobs.admit(max_active, actor="test")]


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
        order += jobs.admit(100, actor="test")
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
    threads = [Thread(target=lambda: got.extend(jobs.admit(5, actor="test"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) == 5
    assert max(Counter(jobs.get(job_id).tenant for job_id in got).values()) <= 2
