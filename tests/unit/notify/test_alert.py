import json

import pytest
from receivers import receiver

from outhaul.notify.alert import escape, post
from outhaul.notify.answer import Verdict
from outhaul.notify.guard import Guard


def test_an_alert_arrives_as_slack_wants_it(loopback):
    with receiver((200, {}, b"ok")) as here:
        answer = post(here.url, "Source crm is down: 3 jobs wait", guard=loopback)
    assert (answer.verdict, answer.status, answer.detail) == (Verdict.DELIVERED, 200, "ok")
    (seen,) = here.seen
    assert json.loads(seen.body) == {"text": "Source crm is down: 3 jobs wait"}
    assert seen.headers["content-type"] == "application/json"
    assert "webhook-signature" not in seen.headers


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("<!channel> look", "&lt;!channel&gt; look"),
        ("<https://evil.example.com|your files>", "&lt;https://evil.example.com|your files&gt;"),
        ("<@U123> a & b &amp; c", "&lt;@U123&gt; a &amp; b &amp;amp; c"),
        ("Überblick \u2028 \U0001f600", "Überblick \u2028 \U0001f600"),
    ],
)
def test_what_others_wrote_neither_calls_nor_links(text, sent, loopback):
    assert escape(text) == sent
    with receiver() as here:
        post(here.url, text, guard=loopback)
    assert json.loads(here.seen[0].body)["text"] == sent


def test_a_long_text_is_cut_before_it_is_escaped(loopback):
    with receiver() as here:
        post(here.url, "&" * 5000, guard=loopback)
    assert json.loads(here.seen[0].body)["text"] == "&amp;" * 2999 + "…"


def test_blocks_go_as_they_are(loopback):
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": f"*{escape('<b>')}* <https://lab.test|job>"}}]
    with receiver() as here:
        post(here.url, "job", guard=loopback, blocks=blocks)
    assert json.loads(here.seen[0].body) == {"text": "job", "blocks": blocks}


@pytest.mark.parametrize(
    ("status", "verdict"), [(404, Verdict.RETRY), (410, Verdict.GONE), (302, Verdict.RETRY), (500, Verdict.RETRY)]
)
def test_a_failed_alert_says_so(status, verdict, loopback):
    with receiver((status, {"Location": "http://127.0.0.1:9/"}, b"no_service")) as here:
        answer = post(here.url, "x", guard=loopback)
    assert (answer.verdict, answer.status, answer.detail) == (verdict, status, "no_service")
    assert "no_service" not in answer.note


def test_case_45_an_alert_goes_to_no_private_address():
    guard = Guard(resolve=lambda *args, **kwargs: [(0, 0, 0, "", ("127.0.0.1", 0))])
    with receiver() as here:
        assert post(here.url, "x", guard=guard).verdict is Verdict.RETRY
        assert post(f"https://hooks.example.com:{here.port}/", "x", guard=guard).verdict is Verdict.RETRY
    assert here.seen == []
