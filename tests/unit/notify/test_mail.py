import email.policy
import re
import ssl
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.parser import BytesParser
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest
from aiosmtpd.smtp import AuthResult
from mailbox_server import Mailbox, mail_server
from receivers import raw

from outhaul.domain.job import Status
from outhaul.errors import InvalidRequest
from outhaul.notify import mail
from outhaul.notify.answer import Verdict
from outhaul.notify.letter import Letter, size_in_words
from outhaul.notify.mail import MailServer, compose, send

AT = datetime(2026, 7, 1, 0, 30, tzinfo=UTC)
LINK = "https://files.example.com/a%20b.csv?sig=x&y=1"
READY = Letter(
    Status.COMPLETED, "1a2b3c4d", "Flights, June", "flights", rows=1234567, size=12_910_592, links=[LINK], expires=AT
)
LINE_BREAKS = ["\r\n", "\r", "\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\x00"]


def letters_to(server, *recipients, notice=READY):
    return [compose(notice, server=server, recipient=to, message_id="evt_0001", at=AT) for to in recipients]


OFFLINE = MailServer("mail.example.com", 25, "none", "", "", "exports@example.com")


def read(notice):
    """The message as a reader gets it: parsed from its bytes."""
    (message,) = letters_to(OFFLINE, "ada@example.com", notice=notice)
    return BytesParser(policy=email.policy.default).parsebytes(message.as_bytes())


def words_of(message, kind="plain"):
    return message.get_body((kind,)).get_content().replace("\r\n", "\n")


# What it says


def test_the_message_about_files_that_are_ready():
    message = read(READY)
    assert message["Subject"] == "Export of Flights, June is ready"
    assert (message["From"], message["To"]) == ("exports@example.com", "ada@example.com")
    assert message["Date"].datetime == AT
    assert message["Message-ID"] == "<evt_0001@example.com>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "multipart/alternative"
    assert words_of(message).splitlines() == [
        "Export of Flights, June is ready.",
        "",
        "Dataset: flights",
        "Rows: 1,234,567",
        "Size: 12.3 MiB",
        "Available until: 2026-07-01 00:30 UTC",
        "Job: 1a2b3c4d",
        "",
        LINK,
    ]


class Texts(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.text += data


def test_the_html_says_the_same_and_loads_nothing():
    html = Texts(words_of(read(READY), "html"))
    assert html.links == [LINK]
    assert not {"img", "script", "link", "style"} & set(html.tags)
    for words in ("Flights, June is ready", "1,234,567", "12.3 MiB", "2026-07-01 00:30 UTC", "1a2b3c4d", "Download"):
        assert words in html.text


@pytest.mark.parametrize(
    ("status", "subject"),
    [
        (Status.FAILED, "Export of flights failed and will be tried again"),
        (Status.DEAD, "Export of flights failed for good"),
        (Status.CANCELLED, "Export of flights was cancelled"),
    ],
)
def test_the_message_about_what_went_wrong(status, subject):
    message = read(Letter(status, "1a2b3c4d", "flights", "flights", error="The source database broke off."))
    assert message["Subject"] == subject
    text = words_of(message)
    assert "Error: The source database broke off." in text
    assert "Rows" not in text
    assert "Available" not in text


def test_several_files_have_a_link_each():
    links = [f"https://files.example.com/{part}.csv" for part in (1, 2, 3)]
    message = read(replace(READY, links=links))
    assert words_of(message).splitlines()[-3:] == links
    html = Texts(words_of(message, "html"))
    assert html.links == links
    assert "Download file 2 of 3" in html.text


def test_html_in_names_and_errors_is_text():
    notice = Letter(
        Status.DEAD,
        "1",
        "<img src=x onerror=alert(1)>",
        'a"b',
        error="</td><script>x</script>",
        links=['https://x/"><b>'],
    )
    html = Texts(words_of(read(notice), "html"))
    assert not {"img", "script", "b"} & set(html.tags)
    assert html.links == ['https://x/"><b>']
    assert "<img src=x onerror=alert(1)>" in html.text


@pytest.mark.parametrize(
    ("expires", "words"),
    [
        (AT.astimezone(ZoneInfo("Europe/Berlin")), "2026-07-01 02:30 CEST (UTC+02:00)"),
        (AT.astimezone(ZoneInfo("America/Los_Angeles")), "2026-06-30 17:30 PDT (UTC-07:00)"),
        (AT.astimezone(ZoneInfo("Asia/Kolkata")), "2026-07-01 06:00 IST (UTC+05:30)"),
        (AT.astimezone(timezone(timedelta(hours=2))), "2026-07-01 02:30 UTC+02:00"),
        (AT.astimezone(ZoneInfo("UTC")), "2026-07-01 00:30 UTC"),
    ],
)
def test_the_expiry_names_its_zone(expires, words):
    assert f"Available until: {words}\n" in words_of(read(replace(READY, expires=expires)))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (1048575, "1.0 MiB"), (1 << 30, "1.0 GiB"), (5 << 40, "5.0 TiB"), (5 << 50, "5,120.0 TiB"),
    ],
)  # fmt: skip
def test_sizes_are_in_units_that_suit_them(count, words):
    assert size_in_words(count) == words


def test_names_in_any_script_arrive():
    name = "Überblick: отчёт 日本 \U0001f4e6"
    message = read(replace(READY, name=name, dataset="données"))
    assert message["Subject"] == f"Export of {name} is ready"
    assert "Dataset: données" in words_of(message)
    assert name in Texts(words_of(message, "html")).text
    assert letters_to(OFFLINE, "a@lab.test", notice=replace(READY, name=name))[0].as_bytes().isascii()


# 48: nothing gets into the headers


@pytest.mark.parametrize("end", LINE_BREAKS)
def test_case_48_a_name_with_a_line_break_stays_on_the_subject_line(end):
    box = Mailbox()
    with mail_server(box) as server:
        notice = replace(READY, name=f"Q1{end}Bcc: evil@lab.test", dataset=f"a{end}b", error=f"x{end}.{end}QUIT")
        (answer,) = send(server, letters_to(server, "ada@example.com", notice=notice))
    assert answer.verdict is Verdict.DELIVERED
    (message,) = box.messages
    assert message["Subject"] == "Export of Q1 Bcc: evil@lab.test is ready"
    assert message.get_all("To") == ["ada@example.com"]
    assert message["Bcc"] is None
    assert box.letters[0].rcpt_tos == ["ada@example.com"]
    assert "Job: 1a2b3c4d" in words_of(message)


@pytest.mark.parametrize("length", [60, 70, 78, 150, 10_000])
@pytest.mark.parametrize("name", ["a", "a ", "ü", "\U0001f4e6", "日 "])
def test_case_48_a_long_name_breaks_no_header(name, length):
    message = read(replace(READY, name=(name * length)[:length]))
    assert message["Subject"] == f"Export of {(name * length)[:length].strip()[:150]} is ready"
    assert message["Auto-Submitted"] == "auto-generated"
    assert not message.defects


@pytest.mark.parametrize(
    "recipient",
    [
        "a@lab.test\nBcc: evil@lab.test",
        "a@lab.test, b@lab.test",
        "a@lab.test\r",
        "a@lab.test\u2028",
        "A <a@lab.test>",
        "",
    ],
)
def test_case_48_a_stored_recipient_that_is_none_gets_no_message(recipient):
    with pytest.raises(InvalidRequest) as caught:
        letters_to(OFFLINE, recipient)
    assert caught.value.field == "recipients"


@pytest.mark.parametrize("sender", ["", "exports", "a@example.com\nBcc: evil@lab.test", "a@example.com, b@example.com"])
def test_case_48_a_sender_that_is_none_is_refused(sender):
    with pytest.raises(InvalidRequest, match="sender: "):
        replace(OFFLINE, sender=sender)


def test_case_48_a_line_of_one_dot_does_not_end_the_message():
    box = Mailbox()
    with mail_server(box) as server:
        (message,) = letters_to(server, "ada@example.com")
        message.get_body(("plain",)).set_content("before\n.\n..\n.after\nQUIT\n")
        assert send(server, [message])[0].verdict is Verdict.DELIVERED
    text = words_of(box.messages[0])
    assert text == "before\n.\n..\n.after\nQUIT\n"
    assert box.messages[0].get_body(("html",)) is not None


# How it is sent


def test_each_recipient_gets_a_message_of_their_own():
    box = Mailbox()
    with mail_server(box) as server:
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test", "c@lab.test"))
    assert [answer.verdict for answer in answers] == [Verdict.DELIVERED] * 3
    assert [letter.rcpt_tos for letter in box.letters] == [["a@lab.test"], ["b@lab.test"], ["c@lab.test"]]
    assert {letter.mail_from for letter in box.letters} == {"exports@example.com"}
    assert [message["To"] for message in box.messages] == ["a@lab.test", "b@lab.test", "c@lab.test"]
    assert len(box.sessions) == 1


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("550 no such user on host7.internal", Verdict.REFUSED),
        ("450 come back later", Verdict.RETRY),
        ("421 too many errors", Verdict.RETRY),
    ],
)
def test_one_refused_recipient_stops_no_other(reply, verdict):
    box = Mailbox({"b@lab.test": reply})
    with mail_server(box) as server:
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test", "c@lab.test"))
    assert [answer.verdict for answer in answers] == [Verdict.DELIVERED, verdict, Verdict.DELIVERED]
    assert answers[1].status == int(reply[:3])
    assert answers[1].detail == reply[4:]
    assert reply[4:] not in answers[1].note
    assert [letter.rcpt_tos for letter in box.letters] == [["a@lab.test"], ["c@lab.test"]]


@pytest.mark.parametrize(("reply", "verdict"), [("554 spam", Verdict.REFUSED), ("452 disk full", Verdict.RETRY)])
def test_a_message_refused_at_its_end(reply, verdict):
    with mail_server(Mailbox(at_data=reply)) as server:
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test"))
    assert [(answer.verdict, answer.status) for answer in answers] == [(verdict, int(reply[:3]))] * 2


def test_a_message_larger_than_the_server_takes():
    with mail_server(Mailbox(), data_size_limit=100) as server:
        (answer,) = send(server, letters_to(server, "a@lab.test"))
    assert (answer.verdict, answer.status) == (Verdict.REFUSED, 552)


@contextmanager
def login_server(authority, *, security, **options):
    """A server that knows TLS and the password of ``ada``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    def authenticate(server, session, envelope, mechanism, data):
        return AuthResult(success=(data.login, data.password) == (b"ada", b"s3cret"), handled=False)

    box = Mailbox()
    own = {"tls": context} if security == "tls" else {"tls_context": context, "require_starttls": True}
    # aiosmtpd counts only STARTTLS as TLS.
    wants = {"authenticator": authenticate, "auth_require_tls": security == "starttls"}
    with mail_server(box, **own, **wants, **options) as server:
        yield replace(server, security=security, user="ada", password="s3cret"), box


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_tls_and_login(security, authority):
    with login_server(authority, security=security) as (server, box):
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test"))
    assert [answer.verdict for answer in answers] == [Verdict.DELIVERED] * 2
    assert box.secure == [(True, True)] * 2


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_wrong_password_refuses_no_recipient(security, authority):
    with login_server(authority, security=security) as (server, box):
        for password in ("wrong", "pässword"):
            answers = send(replace(server, password=password), letters_to(server, "a@lab.test", "b@lab.test"))
            assert [answer.verdict for answer in answers] == [Verdict.RETRY] * 2
            assert "password" in answers[0].note
            assert password not in answers[0].note + answers[0].detail
    assert box.letters == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_server_with_an_untrusted_certificate_gets_nothing(security, authority, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with login_server(authority, security=security) as (server, box):
        (answer,) = send(server, letters_to(server, "a@lab.test"))
    assert box.letters == []
    assert (answer.verdict, answer.note) == (Verdict.RETRY, "the mail server's certificate is not trusted")


def test_a_mail_server_with_a_certificate_for_another_name_gets_nothing(authority):
    with login_server(authority, security="tls") as (server, box):
        (answer,) = send(replace(server, host="127.0.0.1"), letters_to(server, "a@lab.test"))
    assert box.letters == []
    assert answer.note == "the mail server's certificate is not trusted"


def test_without_starttls_nothing_is_sent_in_clear():
    box = Mailbox()
    with mail_server(box) as server:
        (answer,) = send(replace(server, security="starttls"), letters_to(server, "a@lab.test"))
    assert box.letters == []
    assert (answer.verdict, answer.note) == (
        Verdict.RETRY,
        "the mail server lacks what Outhaul is set to use: STARTTLS, or login",
    )


def test_a_login_that_the_operator_forgot_refuses_no_recipient(authority):
    with login_server(authority, security="starttls") as (server, box):
        (answer,) = send(replace(server, security="none", user=""), letters_to(server, "a@lab.test"))
    assert box.letters == []
    assert (answer.verdict, answer.status) == (Verdict.RETRY, 530)


def test_the_password_is_not_shown():
    assert "s3cret" not in repr(replace(OFFLINE, password="s3cret"))


def test_a_mail_server_that_is_not_there():
    with raw(lambda connection: None) as here:
        pass
    answers = send(replace(OFFLINE, host="127.0.0.1", port=here.port), letters_to(OFFLINE, "a@lab.test", "b@lab.test"))
    assert [(answer.verdict, answer.note) for answer in answers] == [
        (Verdict.RETRY, "the mail server refuses connections")
    ] * 2


def test_a_mail_server_that_is_silent_is_asked_once(monkeypatch):
    monkeypatch.setattr(mail, "TIMEOUT_SECONDS", 0.2)
    end = threading.Event()
    with raw(lambda connection: end.wait(30)) as here:
        server = replace(OFFLINE, host="127.0.0.1", port=here.port)
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test"))
        end.set()
    assert [answer.note for answer in answers] == ["the mail server did not answer in time"] * 2
    assert len(here.seen) == 1


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"554 go away\r\n", b"x" * 100_000])
def test_what_is_no_mail_server(greeting):
    with raw(lambda connection: connection.sendall(greeting)) as here:
        server = replace(OFFLINE, host="127.0.0.1", port=here.port)
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test"))
    assert [(answer.verdict, answer.status) for answer in answers] == [(Verdict.RETRY, None)] * 2


def test_a_server_that_hangs_up_on_one_message_gets_the_next_in_a_new_session():
    def behave(connection):
        connection.sendall(b"220 ready\r\n")
        lines = connection.makefile("rb")
        for line in lines:
            if line.upper().startswith(b"RCPT") and b"b@" in line:
                return
            if line.upper().startswith(b"DATA"):
                connection.sendall(b"354 go on\r\n")
                while lines.readline() != b".\r\n":
                    pass
            connection.sendall(b"250 OK\r\n")

    with raw(behave) as here:
        server = replace(OFFLINE, host="127.0.0.1", port=here.port)
        answers = send(server, letters_to(server, "a@lab.test", "b@lab.test", "c@lab.test"))
    assert [answer.verdict for answer in answers] == [Verdict.DELIVERED, Verdict.RETRY, Verdict.DELIVERED]
    assert len(here.seen) == 2


def test_no_line_is_longer_than_a_server_must_take():
    notice = replace(READY, links=["https://files.example.com/" + "x" * 4000], error="y" * 4000)
    (message,) = letters_to(OFFLINE, "a@lab.test", notice=notice)
    assert max(len(line) for line in message.as_bytes().split(b"\r\n")) <= 998
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", message.as_bytes())
