"""What is held back waits without holding up others, and goes on when it is let go."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from outhaul.data.catalog import Catalog, Dataset, Select
from outhaul.domain.job import Status
from outhaul.domain.pause import Pause, Scope
from outhaul.errors import InvalidRequest, NotFound, SourceUnreachable
from outhaul.service.dispatcher import Dispatcher
from outhaul.service.pausing import Pausing
from outhaul.service.sources import Sources

CATALOG = Catalog(Dataset("flights", Select("SELECT 1 AS i"), None, shared=True))
DOWN = SourceUnreachable("The source database cannot be reached.", detail="connection to db1 refused")


class Runs:
    def create(self, job):
        return job.id


@pytest.fixture
def pausing(jobs, pauses, tenants, sources):
    return Pausing(pauses, tenants, lambda: CATALOG, sources, Dispatcher(jobs, Runs(), sources))


def admitted(jobs):
    return set(jobs.admit(actor="test"))


@pytest.mark.parametrize(
    ("scope", "name", "held"),
    [
        (Scope.QUEUE, "", {"UA flights", "UA other", "DL flights", "DL crm"}),
        (Scope.TENANT, "UA", {"UA flights", "UA other"}),
        (Scope.DATASET, "flights", {"UA flights", "DL flights", "DL crm"}),
        (Scope.SOURCE, "crm", {"DL crm"}),
    ],
)
def test_a_pause_holds_back_its_jobs_and_no_others(jobs, ask, pauses, scope, name, held):
    ids = {
        "UA flights": ask("UA"),
        "UA other": ask("UA", dataset="other"),
        "DL flights": ask("DL"),
        "DL crm": ask("DL", source="crm"),
    }
    assert pauses.add(Pause(scope, name, "ann", "too busy"))
    assert admitted(jobs) == {ids[job] for job in ids.keys() - held}
    assert pauses.lift(scope, name)
    assert admitted(jobs) == {ids[job] for job in held}


def test_what_is_paused_does_not_hold_up_the_tenants_other_jobs(jobs, ask, pauses):
    for _ in range(20):
        ask("UA", dataset="paused")
    free = ask("UA")
    pauses.add(Pause(Scope.DATASET, "paused", "ann"))
    assert admitted(jobs) == {free}


def test_a_full_source_does_not_hold_up_others(jobs, ask, engine):
    store = type(jobs)(engine, max_active=100, max_per_source=2)
    for tenant in "ABC":
        ask(tenant, source="crm")
    others = {ask("A"), ask("D")}
    first = set(store.admit(actor="test"))
    assert others < first
    assert len(first) == 4
    assert store.admit(actor="test") == []


def test_a_due_retry_waits_for_a_pause(jobs, ask, pauses, engine):
    job_id = ask()
    jobs.admit(actor="test")
    job = jobs.claim(job_id, 1, owner="w", flow_run_id=None, lease=timedelta(minutes=5))
    jobs.fail(job, DOWN, delay=timedelta(0), actor="w")
    pauses.add(Pause(Scope.DATASET, "flights", "ann"))
    assert not jobs.due(job_id, 1, actor="w")
    pauses.lift(Scope.DATASET, "flights")
    assert jobs.due(job_id, 1, actor="w")


def test_a_pause_that_has_run_out_holds_nothing(jobs, ask, pauses, engine):
    job_id = ask()
    pauses.add(Pause(Scope.QUEUE, "", "ann"), timedelta(hours=1))
    assert admitted(jobs) == set()
    with engine.begin() as connection:
        connection.execute(text("UPDATE pauses SET until = now()"))
    assert pauses.all() == []
    assert admitted(jobs) == {job_id}


def test_a_persons_pause_outlives_the_breakers(pauses, sources):
    """Whoever pauses a source by hand finds it paused until a person resumes it."""
    sources.trip("default", DOWN)
    assert [p.automatic for p in pauses.all()] == [True]
    assert not pauses.add(Pause(Scope.SOURCE, "default", "ann", "maintenance")), "it was paused already"
    sources.trip("default", DOWN)
    (pause,) = pauses.all()
    assert (pause.actor, pause.reason, pause.automatic, pause.until) == ("ann", "maintenance", False, None)
    assert sources.tend() == 0
    assert pauses.all() == [pause]


def test_the_breaker_closes_when_the_source_is_back(pauses, jobs, ask, source_url):
    url = ["postgresql://postgres@127.0.0.1:1/gone?connect_timeout=2"]
    sources = Sources(lambda: url[0], {}, lambda: pauses)
    job_id = ask()
    sources.trip("default", DOWN)
    assert admitted(jobs) == set()
    assert sources.tend() == 0
    (pause,) = pauses.all()
    assert pause.until - pause.since == timedelta(minutes=10)
    assert "127.0.0.1" not in pause.reason
    assert "127.0.0.1" in pause.detail
    url[0] = source_url
    assert sources.tend() == 1
    assert pauses.all() == []
    assert admitted(jobs) == {job_id}


def test_resume_admits_what_waited(pausing, jobs, ask):
    job_id = ask()
    pause, new = pausing.pause(Scope.TENANT, "UA", actor="ann", reason="unpaid")
    assert (pause.thing, new) == ("tenant UA", True)
    assert pausing.pause(Scope.TENANT, "UA", actor="bob")[1] is False
    assert pausing.resume(Scope.TENANT, "UA", actor="ann") == 1
    assert jobs.get(job_id).status is Status.QUEUED
    with pytest.raises(NotFound, match="tenant UA is not paused"):
        pausing.resume(Scope.TENANT, "UA", actor="ann")


@pytest.mark.parametrize(
    ("scope", "name", "error", "words"),
    [
        (Scope.QUEUE, "exports", InvalidRequest, "name: there is one queue"),
        (Scope.TENANT, "nobody", NotFound, "nobody"),
        (Scope.DATASET, "flihgts", InvalidRequest, "Did you mean 'flights'"),
        (Scope.SOURCE, "defualt", InvalidRequest, "source: .* Did you mean 'default'"),
        (Scope.SOURCE, "", InvalidRequest, "source"),
    ],
)
def test_only_what_exists_can_be_paused(pausing, pauses, scope, name, error, words):
    with pytest.raises(error, match=words):
        pausing.pause(scope, name, actor="ann")
    assert pauses.all() == []
