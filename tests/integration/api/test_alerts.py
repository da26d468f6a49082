"""Operators are told of each cause once, by a real receiver."""

import json
from datetime import timedelta

import pytest
from receivers import receiver

from outhaul.domain.alerts import Kind, Trouble
from outhaul.errors import ContractViolation, SourceError, StoreError
from outhaul.service.alerting import Alerting
from outhaul.store.alerts import AlertStore


@pytest.fixture
def chat():
    with receiver() as made:
        yield made


@pytest.fixture
def alerting(oh, chat):
    return Alerting(AlertStore(oh.engine), oh.orchestrator, oh._guard, chat.url, None, "http://prefect.example.com")


def texts(chat):
    return [json.loads(got.body)["text"] for got in chat.seen]


def pass_time(oh, **span):
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alerts SET sent_at = sent_at - %s", (timedelta(**span),))


@pytest.fixture
def die(oh, ask_claimed):
    def die(tenant="UA", error=None):
        job = ask_claimed(tenant)
        oh.jobs.bury(job, error or ContractViolation("column <a> holds NULL & more"), actor="w")
        return oh.jobs.get(job.id)

    return die


def test_many_deaths_of_one_cause_are_one_message(oh, chat, alerting, die):
    for tenant in ("UA", "DL", "UA"):
        last = die(tenant)
    die("DL", StoreError("no access", status=403))
    assert alerting.look() == 2
    contract, store = sorted(texts(chat), key=lambda text: "store_error" in text)
    assert contract.splitlines()[:2] == [
        "3 exports of flights have failed for good: contract_violation: column &lt;a&gt; holds NULL &amp; more",
        "Tenants: DL, UA",
    ]
    assert f"outhaul job {last.short_id}" in contract
    assert store.startswith("An export of flights has failed for good: store_error: no access\nTenants: DL\n")
    assert alerting.look() == 0


def test_more_of_the_same_is_told_of_after_a_while_and_only_what_is_new(oh, chat, alerting, die):
    die()
    assert alerting.look() == 1
    die()
    die()
    assert alerting.look() == 0, "not so soon"
    pass_time(oh, hours=1, seconds=1)
    assert alerting.look() == 1
    assert texts(chat)[1].startswith("2 exports of flights")
    pass_time(oh, hours=2)
    assert alerting.look() == 0, "nothing new"


def test_an_alert_that_cannot_be_sent_is_sent_later(oh, chat, alerting, die):
    die()
    chat.answer(500)
    assert alerting.look() == 0
    chat.answer(200)
    assert alerting.look() == 0, "not at once"
    pass_time(oh, minutes=6)
    assert alerting.look() == 1


def test_two_who_look_at_once_send_it_once(oh, chat, alerting, die):
    die()
    (trouble,) = alerting.store.find()
    assert [alerting.store.take(trouble), alerting.store.take(trouble)] == [True, False]


def test_a_queue_that_nobody_works_on_is_told_of(oh, chat, alerting, die):
    job, _ = oh.exports.request({"dataset": "flights"}, tenant="UA", requested_by="test")
    while oh.jobs.get(job.id).prefect_flow_run_id is None:
        assert alerting.look() == 0
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE export_jobs SET updated_at = now() - interval '11 minutes'")
    oh.pausing.pause("tenant", "UA", actor="ann")
    assert alerting.look() == 0, "a pause is meant"
    oh.pauses.lift("tenant", "UA")
    assert alerting.look() == 1
    assert texts(chat)[0].startswith("An export waits and nobody works, since ")
    die("DL", SourceError("x"))
    pass_time(oh, hours=2)
    assert [trouble.kind for trouble in alerting.store.find()] == [Kind.DEAD], "somebody works"


def test_notices_that_were_given_up_are_told_of(client, oh, chat, alerting, done):
    with receiver() as gone:
        gone.answer(410)
        client().post("/v1/webhooks", json={"url": gone.url})
        done()
        oh.deliveries.deliver()
        assert alerting.look() == 1
        assert texts(chat)[0].splitlines()[0] == (f"A notice to {gone.url} could not be delivered and is given up")


def test_with_nobody_to_tell_nothing_is_forgotten(oh, chat, alerting, die):
    die()
    silent = Alerting(alerting.store, oh.orchestrator, oh._guard, None, None, "")
    assert silent.look() == 0
    assert alerting.look() == 1


def test_a_message_names_a_few_tenants_only(oh):
    from datetime import UTC, datetime
    from uuid import uuid4

    now = datetime.now(UTC)
    trouble = Trouble(Kind.DEAD, "k", 9, now, now, uuid4(), tuple("abcdefg"), "flights", "c", "m")
    assert trouble.whose == "a, b, c, d, e and 2 more"
