"""E-mail to the recipients of a request, by a real mail server."""

from collections import Counter
from datetime import timedelta

import httpx
import pytest
from mailbox_server import Mailbox, mail_server

from outhaul.domain.notices import Outcome
from outhaul.errors import SourceError

BOTH = "ann@example.com, bob@example.com"


@pytest.fixture
def box():
    return Mailbox()


@pytest.fixture
def settings(box):
    with mail_server(box) as server:
        yield {"mail_url": f"smtp://{server.host}:{server.port}", "mail_from": server.sender}


def text_of(message):
    return message.get_body(("plain",)).get_content()


def test_each_recipient_gets_a_letter_with_a_link_that_works(oh, box, done, url):
    done(recipients=BOTH, content=b"1,2\n")
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 2})
    assert sorted(message["To"] for message in box.messages) == ["ann@example.com", "bob@example.com"]
    for message in box.messages:
        text = text_of(message)
        assert message["Subject"] == "Export of flights is ready"
        assert "Rows: 1" in text
        assert "Size: 4 bytes" in text
        assert "UTC" in text, "the link's end names its zone"
        (link,) = [line for line in text.splitlines() if line.startswith("http")]
        assert httpx.get(link.replace(oh.api_url, url)).content == b"1,2\n"


def test_one_refused_recipient_stops_no_other_and_is_not_tried_again(client, oh, box, done):
    box.refusals["ann@example.com"] = "550 no such user"
    job = done(recipients=BOTH)
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1, Outcome.DEAD: 1})
    told = {one["recipient"]: one for one in client().get(f"/v1/exports/{job.id}/deliveries").json()}
    assert (told["bob@example.com"]["status"], told["ann@example.com"]["status"]) == ("delivered", "dead")
    assert told["ann@example.com"]["tries"][0]["answer"] == 550
    assert "no such user" not in told["ann@example.com"]["tries"][0]["note"], "the server's words are for operators"


def test_a_server_that_is_busy_gets_the_same_letter_later(oh, box, done):
    box.at_data = "451 try later"
    done(recipients="ann@example.com")
    assert oh.deliveries.deliver() == Counter({Outcome.RETRY: 1})
    box.at_data = ""
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE deliveries SET next_try_at = now()")
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1})
    assert len(box.messages) == 1


def test_a_failure_that_is_tried_again_is_not_mailed_but_its_end_is(oh, box, ask_claimed):
    job = ask_claimed(recipients="ann@example.com")
    oh.jobs.fail(job, SourceError("gone", sqlstate="08006"), delay=timedelta(seconds=1), actor="w")
    assert oh.deliveries.deliver() == Counter()
    job = ask_claimed(recipients="ann@example.com")
    oh.jobs.bury(job, SourceError("gone for good", sqlstate="42501"), actor="w")
    assert oh.deliveries.deliver() == Counter({Outcome.DELIVERED: 1})
    assert box.messages[0]["Subject"] == "Export of flights failed for good"
    assert "Error: gone for good" in text_of(box.messages[0])


@pytest.mark.parametrize(
    "recipients",
    [
        "a@lab.test\nBcc: evil@lab.test",
        "a@lab.test\rBcc: evil@lab.test",
        "a@lab.test\u2028Bcc: evil@lab.test",
        "a@lab.test\x00",
        "a@lab.test b@lab.test",
        "Ann <a@lab.test>",
        "a@lab.test;b@lab.test",
    ],
)
def test_case_48_what_is_no_plain_address_is_refused_on_save(client, oh, recipients):
    answer = client().post("/v1/exports", json={"dataset": "flights", "recipients": recipients})
    assert (answer.status_code, answer.json()["field"]) == (422, "recipients"), answer.text
    assert oh.exports.recent() == []


def test_case_48_an_address_of_old_that_would_not_be_taken_today_is_given_up(oh, box, done):
    job = done(recipients="ann@example.com")
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE deliveries SET recipient = 'a@lab.test, evil@lab.test'")
    assert oh.deliveries.deliver() == Counter({Outcome.DEAD: 1})
    assert box.messages == []
    (delivery,) = oh.deliveries.of_job(job)
    assert "is not an e-mail address" in oh.deliveries.tries(delivery)[0].note
