"""Admission and sweep against a real database, with a Prefect that loses, doubles and refuses runs on command."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from fake_prefect import FakePrefect
from sqlalchemy import text

from outhaul.domain.job import Status
from outhaul.domain.retry import RetryRule
from outhaul.errors import ContractViolation, SourceError, Unavailable
from outhaul.orchestrator import RunState
from outhaul.service.dispatcher import Dispatcher

LEASE = timedelta(minutes=5)


@pytest.fixture
def prefect():
    return FakePrefect()


@pytest.fixture
def dispatcher(jobs, prefect, sources):
    return Dispatcher(jobs, prefect, sources, retry_rule=RetryRule())


def age(engine, column="updated_at", minutes=10):
    with engine.begin() as connection:
        connection.execute(
            text(f"UPDATE export_jobs SET {column} = now() - make_interval(mins => :m) WHERE {column} IS NOT NULL"),
            {"m": minutes},
        )


def claim(jobs, job_id):
    job = jobs.get(job_id)
    run = job.prefect_flow_run_id
    assert jobs.claim(job_id, job.generation, owner=f"{run}/1", flow_run_id=run, lease=LEASE)
    return jobs.get(job_id)


def test_an_admitted_job_gets_a_run(jobs, ask, dispatcher, prefect):
    job_id = ask()
    assert dispatcher.dispatch(actor="test") == 1
    assert jobs.get(job_id).prefect_flow_run_id == prefect.runs[job_id, 1]
    assert dispatcher.dispatch(actor="test") == 0


def test_with_prefect_down_jobs_wait_in_line_and_go_later(jobs, ask, dispatcher, prefect):
    ids = [ask("UA"), ask("DL")]
    prefect.down = True
    with pytest.raises(Unavailable):
        dispatcher.dispatch(actor="test")
    assert {jobs.get(job_id).status for job_id in ids} == {Status.ENQUEUED}
    prefect.down = False
    assert dispatcher.sweep() == Counter({"admitted": 2})
    assert {jobs.get(job_id).generation for job_id in ids} == {1}


def test_a_dispatcher_that_died_before_making_the_run(jobs, ask, dispatcher, prefect, engine):
    job_id = ask()
    jobs.admit(actor="dies here")
    assert dispatcher.sweep()["given a run"] == 0, "another dispatcher may be about to make it"
    age(engine)
    assert dispatcher.sweep()["given a run"] == 1
    assert jobs.get(job_id).prefect_flow_run_id == prefect.runs[job_id, 1]


@pytest.mark.parametrize("state", [RunState.ENDED, RunState.MISSING, RunState.PENDING])
def test_a_queued_job_whose_run_is_lost_gets_another(jobs, ask, dispatcher, prefect, engine, state):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    first = jobs.get(job_id).prefect_flow_run_id
    if state is RunState.MISSING:
        del prefect.states[first]
    else:
        prefect.states[first] = state
    assert dispatcher.sweep()["returned"] == 0, "it may only be slow"
    age(engine)
    assert dispatcher.sweep()["returned"] == 1
    job = jobs.get(job_id)
    assert (job.status, job.generation) == (Status.QUEUED, 2)
    assert job.prefect_flow_run_id not in {None, first}
    assert not jobs.claim(job_id, 1, owner="late", flow_run_id=first, lease=LEASE), "the lost run comes back too late"


def test_a_queued_job_whose_run_only_waits_is_left_alone(jobs, ask, dispatcher, engine):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    age(engine)
    assert dispatcher.sweep()["returned"] == 0
    assert jobs.get(job_id).generation == 1


def test_an_expired_lease_becomes_a_retry_of_the_same_run(jobs, ask, dispatcher, prefect, engine):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    job = claim(jobs, job_id)
    prefect.states[job.prefect_flow_run_id] = RunState.RUNNING
    assert dispatcher.sweep()["lapsed"] == 0
    age(engine, "lease_expiry")
    assert dispatcher.sweep()["lapsed"] == 1
    job = jobs.get(job_id)
    assert (job.status, job.retry_count, job.error_code) == (Status.FAILED, 1, "worker_vanished")
    assert prefect.starts[job.prefect_flow_run_id] == job.run_after


def test_an_orphan_that_someone_cancelled_ends_and_its_run_with_it(jobs, ask, dispatcher, prefect, engine):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    run = claim(jobs, job_id).prefect_flow_run_id
    prefect.states[run] = RunState.RUNNING
    jobs.request_cancel(job_id, actor="ann")
    age(engine, "lease_expiry")
    dispatcher.sweep()
    assert jobs.get(job_id).status is Status.CANCELLED
    assert prefect.states[run] is RunState.ENDED, "a run that nobody carries out must not take a place"


def test_a_retry_that_never_began_is_begun_again(jobs, ask, dispatcher, prefect, engine):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    job = claim(jobs, job_id)
    dispatcher.settle_failure(job, SourceError("gone", sqlstate="08006"), permanent=False, actor="w")
    prefect.states[job.prefect_flow_run_id] = RunState.ENDED
    assert dispatcher.sweep()["retried"] == 0
    age(engine, "run_after")
    before = datetime.now(UTC)
    assert dispatcher.sweep()["retried"] == 1
    assert prefect.starts[job.prefect_flow_run_id] <= before
    del prefect.states[job.prefect_flow_run_id]
    assert dispatcher.sweep()["retried"] == 1, "Prefect has forgotten the run"
    job = jobs.get(job_id)
    assert (job.status, job.generation, job.retry_count) == (Status.QUEUED, 2, 1)


def test_a_permanent_error_goes_to_dead_at_once(jobs, ask, dispatcher):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    job = claim(jobs, job_id)
    dispatcher.settle_failure(job, ContractViolation("column a holds NULL"), permanent=True, actor="w")
    job = jobs.get(job_id)
    assert (job.status, job.retry_count, job.error_code) == (Status.DEAD, 0, "contract_violation")
    assert dispatcher.follow_up(job) is None


def test_a_job_whose_worker_dies_twice_takes_no_third_along(jobs, ask, dispatcher, prefect, engine):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    dispatcher.lapse(claim(jobs, job_id))
    age(engine, "run_after")
    assert jobs.due(job_id, 1, actor="test")
    second = claim(jobs, job_id)
    prefect.states[second.prefect_flow_run_id] = RunState.RUNNING
    dispatcher.lapse(second)
    job = jobs.get(job_id)
    assert prefect.states[job.prefect_flow_run_id] is RunState.ENDED
    assert (job.status, job.silent_deaths, job.retry_count) == (Status.DEAD, 2, 1)
    assert job.error_message == "the worker died twice (out of memory?)"
    jobs.requeue(job_id, actor="ann")
    assert jobs.get(job_id).silent_deaths == 0, "a person looked at it"


def test_a_wish_to_cancel_is_not_lost_to_a_failure_of_the_same_moment(jobs, ask, dispatcher):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    job = claim(jobs, job_id)
    jobs.request_cancel(job_id, actor="ann")
    assert not dispatcher.settle_failure(job, SourceError("gone", sqlstate="08006"), permanent=False, actor="w")
    assert not dispatcher.settle_failure(job, ContractViolation("x"), permanent=True, actor="w")
    assert not jobs.give_back(job, actor="w", reason="told to stop")
    assert jobs.get(job_id).status is Status.PROCESSING
    assert jobs.cancel(job, actor="w")


def test_two_sweeps_at_once_do_no_harm(jobs, ask, dispatcher, engine):
    job_id = ask()
    dispatcher.dispatch(actor="test")
    job = claim(jobs, job_id)
    age(engine, "lease_expiry")
    assert [dispatcher.lapse(job), dispatcher.lapse(job)] == [True, False]
    assert jobs.get(job_id).retry_count == 1
