import json
import socket
import ssl
import struct
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from receivers import raw, receiver, take_request
from standardwebhooks import Webhook, WebhookVerificationError

from outhaul.errors import InvalidRequest, Refused
from outhaul.notify import exchange
from outhaul.notify.answer import Verdict
from outhaul.notify.guard import Guard
from outhaul.notify.webhook import check_headers, new_secret, send, sign

SECRET = "whsec_ZXhwb3J0LWxhYi1rZXktMDEyMzQ1Njc4OWFiY2RlZiE="
BODY = '{"type":"export.succeeded","data":{"rows":3,"name":"Überblick"}}'.encode()
AT = datetime.fromtimestamp(1767225600, UTC)
SIGNATURE = "v1,tFKlrB+HmdnZAa8oABM6aY8n/RAzBok7DAic9/AzjVM="


def deliver(url, guard, **changed):
    call = {"message_id": "evt_0001", "at": AT, "body": BODY, "secrets": [SECRET], "guard": guard, "headers": {}}
    return send(url, **{**call, **changed})


def test_case_46_the_signature_is_over_the_raw_bytes(loopback):
    assert sign([SECRET], "evt_0001", 1767225600, BODY) == SIGNATURE
    with receiver() as here:
        assert deliver(here.url, loopback).verdict is Verdict.DELIVERED
    (seen,) = here.seen
    assert seen.body == BODY
    assert seen.headers["webhook-signature"] == SIGNATURE
    assert (seen.headers["webhook-id"], seen.headers["webhook-timestamp"]) == ("evt_0001", "1767225600")
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"].startswith("outhaul/")
    assert seen.headers["host"] == f"127.0.0.1:{here.port}"


def test_case_46_retries_keep_the_id_and_are_signed_anew(loopback):
    answers = [(500, {}, b""), (429, {"Retry-After": "7"}, b""), (410, {}, b""), (200, {}, b"")]
    now = datetime.now(UTC)
    with receiver(*answers) as here:
        got = [deliver(here.url, loopback, at=now + timedelta(seconds=i)) for i in range(4)]
    assert [answer.verdict for answer in got] == [Verdict.RETRY, Verdict.RETRY, Verdict.GONE, Verdict.DELIVERED]
    assert [answer.status for answer in got] == [500, 429, 410, 200]
    assert [answer.retry_after for answer in got] == [None, timedelta(seconds=7), None, None]
    assert {seen.headers["webhook-id"] for seen in here.seen} == {"evt_0001"}
    assert len({seen.headers["webhook-timestamp"] for seen in here.seen}) == 4
    assert len({seen.headers["webhook-signature"] for seen in here.seen}) == 4
    for seen in here.seen:
        assert Webhook(SECRET).verify(seen.body, seen.headers)["data"]["name"] == "Überblick"


def test_case_46_two_secrets_give_two_signatures(loopback):
    old, new = new_secret(), new_secret()
    with receiver() as here:
        deliver(here.url, loopback, secrets=[new, old], at=datetime.now(UTC))
    (seen,) = here.seen
    assert len(seen.headers["webhook-signature"].split(" ")) == 2
    for secret in (old, new):
        Webhook(secret).verify(seen.body, seen.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(seen.body, seen.headers)


def test_case_46_a_receiver_that_sleeps_is_left(loopback, hurried):
    with raw(trickle(line=b"")) as here:
        answer = deliver(here.url, loopback)
    assert (answer.verdict, answer.status) == (Verdict.RETRY, None)
    assert answer.note == "the receiver did not answer in time"


@given(st.binary(max_size=500), st.lists(st.just(0), min_size=1, max_size=2))
def test_what_we_sign_the_standard_library_of_receivers_verifies(data, count):
    secrets = [new_secret() for _ in count]
    body = json.dumps(data.hex()).encode()
    timestamp = int(datetime.now(UTC).timestamp())
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secrets, "evt_1", timestamp, body),
    }
    for secret in secrets:
        assert Webhook(secret).verify(body, headers) == data.hex()


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_abc", "whsec_AAAA", SECRET.removeprefix("whsec_"), f"{SECRET}\n", "whsec_é", SECRET * 3],
)
def test_what_is_no_secret_signs_nothing(secret, loopback):
    with pytest.raises(InvalidRequest, match="secret: must be whsec_") as caught:
        sign([secret], "evt_1", 0, b"")
    assert secret in {"", "whsec_"} or secret not in caught.value.message
    with receiver() as here:
        assert deliver(here.url, loopback, secrets=[secret]).verdict is Verdict.RETRY
        assert deliver(here.url, loopback, secrets=[]).note == "secret: there is none to sign with"
    assert here.seen == []


# 45: nothing private sees a connection


def no_answer(connection):
    """Hang up at once: that somebody connected is already too much."""


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "127.0.0.1.", "2130706433", "0x7f.1", "0x7f000001", "017700000001", "0", "0.0.0.0",
        "localhost", "localhost.", "[::ffff:127.0.0.1]", "[::1]", "[::]", "\uff11\uff12\uff17.0.0.1",
        "169.254.169.254", "[fd00::1]",
    ],
)  # fmt: skip
def test_case_45_a_private_address_in_any_form_sees_no_connection(host):
    with raw(no_answer) as here:
        for scheme in ("https", "http"):
            answer = deliver(f"{scheme}://{host}:{here.port}/", Guard())
            assert (answer.verdict, answer.status) == (Verdict.RETRY, None)
        # Where the URL's form is let through, as the allow-list does with http, the address still is not.
        with pytest.raises(Refused):
            exchange._Backend(Guard(), time.monotonic() + 5).connect_tcp(host.strip("[]"), here.port)
    assert here.seen == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1"])
def test_case_45_a_name_for_a_private_address_sees_no_connection(address):
    guard = Guard(resolve=lambda *args, **kwargs: [(0, 0, 0, "", (address, 0))])
    with raw(no_answer) as here:
        answer = deliver(f"https://127.0.0.1.nip.io:{here.port}/", guard)
    assert here.seen == []
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the host has no public address")
    assert address in answer.detail


def test_case_45_a_name_that_is_public_when_saved_and_private_when_sent_sees_no_connection():
    where = iter(["8.8.8.8", "127.0.0.1"])
    guard = Guard(resolve=lambda *args, **kwargs: [(0, 0, 0, "", (next(where), 0))])
    with raw(no_answer) as here:
        url = f"https://rebind.example.com:{here.port}/"
        guard.check_url(url)
        assert guard.addresses("rebind.example.com", here.port, 5) == ["8.8.8.8"]
        assert deliver(url, guard).verdict is Verdict.RETRY
    assert here.seen == []


def test_case_45_the_address_that_was_checked_is_the_one_connected_to():
    asked = []

    def rebinding(host, port, **kwargs):
        asked.append(host)
        return [(0, 0, 0, "", ("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port))]

    with receiver() as here:
        answer = deliver(f"http://hooks.lab.test:{here.port}/x", Guard(["hooks.lab.test"], rebinding))
    assert answer.verdict is Verdict.DELIVERED
    assert asked == ["hooks.lab.test"]
    assert here.seen[0].headers["host"] == f"hooks.lab.test:{here.port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_case_45_a_redirect_is_a_failure_and_not_followed(status, loopback):
    with receiver() as inner, receiver((status, {"Location": inner.url}, b"<a>secret</a>")) as here:
        answer = deliver(here.url, loopback)
    assert inner.seen == []
    assert len(here.seen) == 1
    assert (answer.verdict, answer.status) == (Verdict.RETRY, status)
    assert answer.note.endswith("redirects are not followed")


def test_case_45_what_a_failed_receiver_wrote_is_for_operators_only(loopback):
    with receiver((500, {}, b"top \x1b[31msecret\r\nline " + b"x" * 10_000)) as here:
        answer = deliver(here.url, loopback)
    assert answer.note == "the receiver answered 500 Internal Server Error"
    assert answer.detail.startswith("top  [31msecret  line xxx")
    assert len(answer.detail) == 500


def test_no_proxy_of_the_environment_is_used(loopback, monkeypatch):
    with receiver() as proxy, receiver() as here:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert deliver(here.url, loopback).verdict is Verdict.DELIVERED
    assert proxy.seen == []


# 48: nothing gets into the headers


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"X-A": "1\r\nBcc: evil@lab.test"}, "headers.X-A"),
        ({"X-A": "1\rX: 2"}, "headers.X-A"),
        ({"X-A": "1\nX: 2"}, "headers.X-A"),
        ({"X-A": "1\x0bX"}, "headers.X-A"),
        ({"X-A": "1\x00"}, "headers.X-A"),
        ({"X-A": "1\u2028X: 2"}, "headers.X-A"),
        ({"X-A": "1\x85X: 2"}, "headers.X-A"),
        ({"X-A": "1\n"}, "headers.X-A"),
        ({"X-A": " 1"}, "headers.X-A"),
        ({"X-A": ""}, "headers.X-A"),
        ({"X-A": "ü"}, "headers.X-A"),
        ({"X-A": "x" * 4097}, "headers.X-A"),
        ({"X-A\r\nX-B": "1"}, "headers"),
        ({"X-A\n": "1"}, "headers"),
        ({"X A": "1"}, "headers"),
        ({"X-A:": "1"}, "headers"),
        ({"": "1"}, "headers"),
        ({"x-a": "1", "X-A": "2"}, "headers"),
        ({f"x-{i}": "1" for i in range(21)}, "headers"),
        ({"Host": "other.example.com"}, "headers.Host"),
        ({"Content-Length": "0"}, "headers.Content-Length"),
        ({"Transfer-Encoding": "chunked"}, "headers.Transfer-Encoding"),
        ({"Webhook-Signature": "v1,x"}, "headers.Webhook-Signature"),
    ],
)
def test_case_48_a_header_that_is_not_one_is_refused_when_saved_and_when_sent(headers, field, loopback):
    with pytest.raises(InvalidRequest) as caught:
        check_headers(headers)
    assert caught.value.field == field
    assert caught.value.message.isprintable()
    with receiver() as here:
        assert deliver(here.url, loopback, headers=headers).verdict is Verdict.RETRY
    assert here.seen == []


def test_headers_of_the_owner_are_sent_along(loopback):
    headers = {"Authorization": "Bearer abc.def", "X-Team": "data \t team"}
    check_headers(headers)
    with receiver() as here:
        deliver(here.url, loopback, headers=headers)
    assert here.seen[0].headers["authorization"] == "Bearer abc.def"
    assert here.seen[0].headers["x-team"] == "data \t team"


# Receivers that misbehave


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_delivered(status, loopback):
    with receiver((status, {}, b"")) as here:
        assert deliver(here.url, loopback).verdict is Verdict.DELIVERED


@pytest.mark.parametrize("status", [400, 401, 404, 408, 425, 502, 503, 999])
def test_other_failures_are_tried_again(status, loopback):
    with receiver((status, {}, b"")) as here:
        answer = deliver(here.url, loopback)
    assert (answer.verdict, answer.status) == (Verdict.RETRY, status)
    assert answer.note.startswith(f"the receiver answered {status}")


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("0", 0, 0),
        ("120", 120, 120),
        ("86401", 86400, 86400),
        ("9" * 5000, 86400, 86400),
        ("in an hour", 3000, 3600),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400, 86400),
    ],
)
@pytest.mark.parametrize("status", [429, 503, 500])
def test_the_receiver_says_how_long_to_wait(value, least, most, status, loopback):
    if value == "in an hour":
        value = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with receiver((status, {"Retry-After": value}, b"")) as here:
        answer = deliver(here.url, loopback)
    assert timedelta(seconds=least) <= answer.retry_after <= timedelta(seconds=most)


@pytest.mark.parametrize(
    "value", ["", "soon", "-5", "1.5", "٣", "Mon, 99 Foo 2026", "Mon, 01 Jan 99999999999 00:00:00 GMT"]
)
def test_a_wait_that_is_none_is_left_out(value):
    assert exchange._retry_after([(b"Retry-After", value.encode())]) is None


@given(st.text(max_size=60) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,12} [A-Z][a-z]{2} \d{1,12} [\d:]{1,12} [+-]?\w{0,9}"))
def test_no_wait_breaks_the_reading(value):
    wait = exchange._retry_after([(b"retry-after", value.encode())])
    assert wait is None or timedelta(0) <= wait <= timedelta(days=1)


def trickle(*beginning, line):
    """Answer ``beginning``, then ``line`` again and again, with a pause between, until the client has had enough."""

    def behave(connection):
        take_request(connection)
        connection.sendall(b"".join(beginning))
        connection.settimeout(0.05)
        while True:
            connection.sendall(line)
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                pass

    return behave


@pytest.mark.parametrize(
    "behave",
    [
        trickle(line=b"H"),
        trickle(b"HTTP/1.1 200 OK\r\n", line=b"x: y\r\n"),
        trickle(line=b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_receiver_that_trickles_is_left(behave, loopback, hurried):
    with raw(behave) as here:
        answer = deliver(here.url, loopback)
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the receiver did not answer in time")


def test_a_receiver_that_does_not_read_is_left(loopback, hurried):
    end = threading.Event()
    with raw(lambda connection: end.wait(30)) as here:
        answer = deliver(here.url, loopback, body=b"x" * (32 << 20))
        end.set()
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the receiver did not answer in time")


def test_a_receiver_that_reads_in_sips_is_left(loopback, hurried):
    end = threading.Event()

    def sip(connection):
        while not end.wait(0.02):
            connection.recv(50_000)

    with raw(sip) as here:
        answer = deliver(here.url, loopback, body=b"x" * (32 << 20))
        end.set()
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the receiver did not answer in time")


def test_a_receiver_that_never_shakes_hands_is_left(loopback, hurried):
    end = threading.Event()
    with raw(lambda connection: end.wait(30)) as here:
        answer = deliver(f"https://127.0.0.1:{here.port}/", loopback)
        end.set()
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the receiver did not answer in time")


def test_a_connection_made_at_the_last_moment_is_closed():
    with raw(no_answer) as here:
        connection = socket.create_connection(("127.0.0.1", here.port))
        with pytest.raises(TimeoutError):
            exchange._Stream(connection, time.monotonic() - 1).start_tls(ssl.create_default_context(), "hooks.lab.test")
    assert connection.fileno() == -1


def test_a_status_counts_though_the_rest_never_comes(loopback, hurried):
    with raw(trickle(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", line=b"x")) as here:
        assert deliver(here.url, loopback).verdict is Verdict.DELIVERED


def test_a_huge_answer_is_not_read_to_its_end(loopback):
    sent = []

    def behave(connection):
        take_request(connection)
        connection.sendall(b"HTTP/1.1 500 No\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)
            sent.append(65536)

    with raw(behave) as here:
        answer = deliver(here.url, loopback)
    assert (answer.status, answer.detail) == (500, "x" * 500)
    assert sum(sent) < 64 << 20  # what fits into the buffers of two sockets


def test_a_compressed_answer_is_not_unpacked(loopback):
    with receiver((500, {"content-encoding": "gzip"}, b"not gzip")) as here:
        assert deliver(here.url, loopback).detail == "not gzip"


def reset(connection):
    take_request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("behave", "note"),
    [
        (take_request, "the receiver hung up, or what it answered is not HTTP"),
        (
            lambda connection: (take_request(connection), connection.sendall(b"220 mail.lab.test ESMTP\r\n")),
            "the receiver hung up, or what it answered is not HTTP",
        ),
        (
            lambda connection: (take_request(connection), connection.sendall(b"HTTP/1.1 20" + b"0" * 200_000)),
            "the receiver hung up, or what it answered is not HTTP",
        ),
        (reset, "the connection to the receiver broke off"),
    ],
)
def test_a_receiver_that_breaks_off_is_tried_again(behave, note, loopback):
    with raw(behave) as here:
        answer = deliver(here.url, loopback)
    assert (answer.verdict, answer.status, answer.note) == (Verdict.RETRY, None, note)


def test_an_answer_that_comes_before_the_body_was_taken_is_heard(loopback):
    def behave(connection):
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass

    with raw(behave) as here:
        assert deliver(here.url, loopback, body=b"x" * 100_000).status == 413


def test_a_port_where_nobody_listens(loopback):
    with receiver() as here:
        pass
    answer = deliver(here.url, loopback)
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the receiver refuses connections")


def test_the_next_address_is_tried_when_one_does_not_answer():
    both = lambda *args, **kwargs: [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]  # noqa: E731
    with receiver() as here:
        answer = deliver(f"http://hooks.lab.test:{here.port}/", Guard(["hooks.lab.test"], both))
    assert answer.verdict is Verdict.DELIVERED


# TLS


def tls_of(authority, name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def at_loopback(*args, **kwargs):
    return [(0, 0, 0, "", ("127.0.0.1", 0))]


def test_tls_keeps_the_name_while_the_address_is_pinned(authority):
    names = []
    context = tls_of(authority, "hooks.lab.test")
    context.sni_callback = lambda connection, name, context: names.append(name)
    with receiver(tls=context) as here:
        answer = deliver(f"https://hooks.lab.test:{here.port}/", Guard(["127.0.0.1"], at_loopback))
    assert answer.verdict is Verdict.DELIVERED
    assert names == ["hooks.lab.test"]
    assert here.seen[0].headers["host"] == f"hooks.lab.test:{here.port}"


def test_a_certificate_for_another_name_is_not_trusted(authority):
    with receiver(tls=tls_of(authority, "other.lab.test")) as here:
        answer = deliver(f"https://hooks.lab.test:{here.port}/", Guard(["127.0.0.1"], at_loopback))
    assert here.seen == []
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the receiver's certificate is not trusted")


def test_a_certificate_of_an_unknown_authority_is_not_trusted(authority, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with receiver(tls=tls_of(authority, "hooks.lab.test")) as here:
        answer = deliver(f"https://hooks.lab.test:{here.port}/", Guard(["127.0.0.1"], at_loopback))
    assert here.seen == []
    assert answer.note == "the receiver's certificate is not trusted"


def test_a_receiver_without_tls_at_an_https_url(loopback):
    with receiver() as here:
        answer = deliver(f"https://127.0.0.1:{here.port}/", loopback)
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "no secure connection to the receiver could be made")
