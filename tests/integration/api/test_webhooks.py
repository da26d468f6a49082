"""Webhooks and the outbox: a notice for each end of a job, in the same statement, sent until it is taken."""

import json
import threading
from base64 import b64decode
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from receivers import raw, receiver
from standardwebhooks import Webhook

from outhaul.domain.notices import DELAYS, Outcome
from outhaul.errors import ContractViolation, SourceError


@pytest.fixture
def hook():
    with receiver() as made:
        yield made


@pytest.fixture
def secret(client, hook):
    """The secret of UA's webhook."""
    return client().post("/v1/webhooks", json={"url": hook.url}).json()["secret"]


def pass_time(oh, **span):
    """Let the outbox believe that so much time has passed."""
    with oh.engine.begin() as connection:
        for column in ("next_try_at", "give_up_at", "created_at"):
            connection.exec_driver_sql(
                f"UPDATE deliveries SET {column} = {column} - %s WHERE status = 'pending'", (timedelta(**span),)
            )


def log(client, job):
    (delivery,) = client().get(f"/v1/exports/{job.id}/deliveries").json()
    return delivery


def test_a_finished_export_is_told_of_signed_and_with_links(client, oh, hook, secret, done, url):
    job = done(content=b"1,2\n3,4\n")
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1})
    (got,) = hook.seen
    told = Webhook(secret).verify(got.body, got.headers)
    assert told["type"] == "export.completed"
    data = told["data"]
    assert (data["id"], data["dataset"], data["rows"], data["bytes"]) == (str(job.id), "flights", 1, 8)
    link = data["files"][0]["url"].replace(oh.api_url, url)
    import httpx

    assert httpx.get(link).content == b"1,2\n3,4\n"
    assert datetime.fromisoformat(data["links_end_at"]) == job.finished_at + timedelta(days=7)
    delivery = log(client, job)
    assert (delivery["status"], delivery["notice"], delivery["tries"][0]["answer"]) == (
        "delivered",
        "export.completed",
        200,
    )
    assert oh.deliveries.deliver() == Counter(), "once"


def test_each_end_of_a_job_has_its_notice_and_a_retry_only_for_those_who_ask(client, oh, hook, secret, ask_claimed):
    ua = client()
    ua.post("/v1/webhooks", json={"url": hook.url, "events": ["export.failed"], "description": "retries"})
    failing = ask_claimed("UA")
    oh.jobs.fail(failing, SourceError("gone", sqlstate="08006"), delay=timedelta(seconds=1), actor="w")
    dead = ask_claimed("UA")
    oh.jobs.bury(dead, ContractViolation("column a holds NULL"), actor="w")
    stopped = ua.post("/v1/exports", json={"dataset": "flights"}).json()["id"]
    ua.post(f"/v1/exports/{stopped}/cancel")
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 3})
    told = {json.loads(got.body)["type"]: json.loads(got.body)["data"] for got in hook.seen}
    assert told["export.failed"]["message"] == "gone"
    assert (told["export.dead"]["code"], told["export.dead"]["id"]) == ("contract_violation", str(dead.id))
    assert told["export.cancelled"]["id"] == stopped


def test_a_move_that_the_guard_refuses_tells_nobody(oh, secret, ask_claimed):
    job = ask_claimed("UA")
    assert oh.jobs.bury(job, ContractViolation("x"), actor="w")
    assert not oh.jobs.bury(job, ContractViolation("x"), actor="w")
    assert not oh.jobs.cancel(job, actor="w")
    assert len(oh.deliveries.of_job(job)) == 1


def test_case_46_every_try_has_the_same_id_and_bytes_and_a_fresh_signature(client, oh, hook, secret, done):
    job = done()
    for status in (500, 302, 404, 200):
        hook.answer(status)
        oh.deliveries.deliver()
        pass_time(oh, hours=9)
    assert len(hook.seen) == 4
    assert len({got.headers["webhook-id"] for got in hook.seen}) == 1
    assert len({got.body for got in hook.seen}) == 1
    for got in hook.seen:
        Webhook(secret).verify(got.body, got.headers)
    delivery = log(client, job)
    assert [one["answer"] for one in delivery["tries"]] == [500, 302, 404, 200]
    assert delivery["status"] == "delivered"
    assert "redirects are not followed" in delivery["tries"][1]["note"]


def test_case_46_retry_after_is_kept_and_410_ends_the_webhook(client, oh, hook, secret, done):
    job = done()
    hook.answer(429, Retry_After="700")
    oh.deliveries.deliver()
    wait = datetime.fromisoformat(log(client, job)["next_try_at"]) - datetime.now(UTC)
    assert timedelta(seconds=690) < wait < timedelta(seconds=701)
    assert oh.deliveries.deliver() == Counter()
    pass_time(oh, seconds=701)
    hook.answer(410)
    assert oh.deliveries.deliver() == Counter({Outcome.DEAD: 1})
    (endpoint,) = client().get("/v1/webhooks").json()
    assert not endpoint["enabled"]
    assert endpoint["disabled_reason"] == "the receiver answered 410 Gone: it wants no more messages"
    other = done()
    assert oh.deliveries.of_job(other) == [], "nothing more is queued for it"
    client().patch(f"/v1/webhooks/{endpoint['id']}", json={"enabled": True})
    assert client().get("/v1/webhooks").json()[0]["disabled_reason"] is None


def test_a_receiver_that_fails_for_an_hour_gets_its_notice_and_the_export_never_noticed(client, oh, hook, secret, done):
    job = done()
    assert job.status == "completed"
    hook.answer(500)
    passed = timedelta()
    while passed < timedelta(hours=1):
        oh.deliveries.deliver()
        pass_time(oh, minutes=5)
        passed += timedelta(minutes=5)
    hook.answer(200)
    pass_time(oh, hours=2)
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1})
    assert 4 <= len(hook.seen) <= 7, "less and less often"
    assert log(client, job)["status"] == "delivered"


def test_after_a_day_it_is_given_up_and_a_person_can_send_it_again(client, oh, hook, secret, done):
    job = done()
    hook.answer(503)
    for delay in DELAYS:
        oh.deliveries.deliver()
        pass_time(oh, seconds=delay.total_seconds() + 1)
    oh.deliveries.deliver()
    delivery = log(client, job)
    assert (delivery["status"], delivery["next_try_at"]) == ("dead", None)
    assert timedelta(hours=20) < sum(DELAYS, timedelta()) < timedelta(hours=24)
    pass_time(oh, days=3)
    assert oh.deliveries.deliver() == Counter()
    hook.answer(200)
    resend = f"/v1/exports/{job.id}/deliveries/{delivery['id']}/resend"
    assert client("DL").post(resend).status_code == 404
    assert client().post(resend).status_code == 202
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1})
    assert hook.seen[-1].headers["webhook-id"] == hook.seen[0].headers["webhook-id"]
    assert [(line.event, line.actor) for line in oh.exports.events(job)][-1] == ("resend", "key UA's")


def test_a_receiver_that_answers_nobody_holds_up_no_other(client, oh, hook, secret, done, monkeypatch):
    monkeypatch.setattr("outhaul.notify.exchange.TOTAL_SECONDS", 1.0)
    let_go = threading.Event()
    with raw(lambda _: let_go.wait(30)) as silent:
        client("DL").post("/v1/webhooks", json={"url": silent.url})
        for _ in range(6):
            done("DL")
        done("UA")
        first = oh.deliveries.deliver()
        let_go.set()
        assert first == Counter({Outcome.RETRY: 4, Outcome.DELIVERED: 1})
        assert len(hook.seen) == 1


def test_two_at_once_send_nothing_twice(client, oh, hook, secret, done):
    from concurrent.futures import ThreadPoolExecutor

    for _ in range(12):
        done()
    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(lambda _: oh.deliveries.deliver(), range(8)))
    while batch := oh.deliveries.deliver():  # of two who look at the same notices, one gets them and the other none
        counts.append(batch)
    assert sum(counts, Counter())[Outcome.DELIVERED] == 12
    assert len({got.headers["webhook-id"] for got in hook.seen}) == len(hook.seen) == 12


def test_one_that_died_between_take_and_answer_leaves_it_for_the_next(oh, hook, secret, done):
    done()
    taken = oh.deliveries.store.take(10, 10, timedelta(minutes=5))
    assert len(taken) == 1
    assert oh.deliveries.deliver() == Counter(), "somebody else may be sending it"
    pass_time(oh, minutes=5)
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1})
    late = oh.deliveries.store.record(taken[0].delivery, Outcome.DEAD, answer=None, note="late", detail="")
    assert late is None, "what comes back from the dead changes nothing"


def test_during_a_rotation_both_secrets_sign(client, oh, hook, secret, done):
    ua = client()
    (endpoint,) = ua.get("/v1/webhooks").json()
    fresh = ua.post(f"/v1/webhooks/{endpoint['id']}/rotate").json()["secret"]
    done()
    oh.deliveries.deliver()
    assert hook.seen[0].headers["webhook-signature"].count("v1,") == 2
    for one in (secret, fresh):
        Webhook(one).verify(hook.seen[0].body, hook.seen[0].headers)
    last = ua.post(f"/v1/webhooks/{endpoint['id']}/rotate", json={"overlap_seconds": 0}).json()["secret"]
    done()
    oh.deliveries.deliver()
    assert hook.seen[1].headers["webhook-signature"].count("v1,") == 1
    Webhook(last).verify(hook.seen[1].body, hook.seen[1].headers)
    assert len(b64decode(last.removeprefix("whsec_"))) == 32
    assert all(one not in ua.get("/v1/webhooks").text for one in (secret, fresh, last)), "shown once"


def test_a_test_message_says_what_the_receiver_answered(client, hook, secret):
    ua = client()
    (endpoint,) = ua.get("/v1/webhooks").json()
    assert ua.post(f"/v1/webhooks/{endpoint['id']}/test").json() == {
        "delivered": True,
        "answer": 200,
        "note": "the receiver answered 200 OK",
    }
    assert Webhook(secret).verify(hook.seen[0].body, hook.seen[0].headers)["type"] == "outhaul.test"
    hook.answer(500)
    assert not ua.post(f"/v1/webhooks/{endpoint['id']}/test").json()["delivered"]


def test_a_removed_or_switched_off_webhook_gets_nothing_more(client, oh, hook, secret, done):
    ua = client()
    (endpoint,) = ua.get("/v1/webhooks").json()
    job = done()
    assert ua.delete(f"/v1/webhooks/{endpoint['id']}").status_code == 204
    assert oh.deliveries.deliver() == Counter({Outcome.DEAD: 1})
    assert hook.seen == []
    assert log(client, job)["tries"][0]["note"] == "the webhook was removed"
    assert ua.get(f"/v1/webhooks/{endpoint['id']}").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "ftp://x.example.com"}, "url"),
        ({"url": "http://hooks.example.com/x"}, "url"),
        ({"url": "https://10.0.0.1/x"}, "url"),
        ({"url": "https://[::ffff:10.0.0.1]/x"}, "url"),
        ({"url": "https://hooks.example.com/x", "events": []}, "events"),
        ({"url": "https://hooks.example.com/x", "events": ["export.done"]}, "events"),
        ({"url": "https://hooks.example.com/x", "descr": "a"}, "descr"),
        ({"url": "https://hooks.example.com/x", "description": "a\r\nb"}, "description"),
        ({"url": "https://hooks.example.com/\x00"}, "url"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_on_save(client, body, field):
    answer = client().post("/v1/webhooks", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
