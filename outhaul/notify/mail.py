"""E-mail: what is said about an export, and the sending of it over one SMTP session."""

from __future__ import annotations

import smtplib
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import parseaddr
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from httpcore import default_ssl_context

from outhaul.domain.recipients import check_address
from outhaul.errors import InvalidRequest, Unavailable
from outhaul.notify.answer import Answer, Verdict, shorten
from outhaul.notify.letter import html_of, subject_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from outhaul.notify.letter import Letter

TIMEOUT_SECONDS = 30.0  # for each step of a session

# Seven bits, so that no server has to offer more.
_POLICY = SMTP_POLICY.clone(cte_type="7bit")

# The first class that fits counts, so the special come before the general.
_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (smtplib.SMTPAuthenticationError, "the mail server does not accept Outhaul's user and password"),
    (smtplib.SMTPNotSupportedError, "the mail server lacks what Outhaul is set to use: STARTTLS, or login"),
    (TimeoutError, "the mail server did not answer in time"),
    (ssl.SSLCertVerificationError, "the mail server's certificate is not trusted"),
    (ssl.SSLError, "no secure connection to the mail server could be made"),
    (ConnectionRefusedError, "the mail server refuses connections"),
    (smtplib.SMTPConnectError, "the mail server is not ready"),
    (UnicodeError, "the mail server's name, user or password has characters that cannot be sent"),
    (OSError, "the connection to the mail server broke off"),  # and what else smtplib raises
)
_FAILURE_KINDS = tuple(kind for kind, _ in _FAILURES)


@dataclass(frozen=True, slots=True)
class MailServer:
    """The operator's mail server.

    Attributes:
        host: its name; its certificate must be for this name.
        port: 1 to 65535.
        security: ``none``, ``starttls`` (and nothing is sent if the server lacks it) or ``tls`` from the first byte.
        user: to log in as, or empty for no login.
        password: of that user.
        sender: whom messages are from: ``exports@example.com`` or ``Outhaul <exports@example.com>``.

    Raises:
        InvalidRequest: the sender is not an address.
    """

    host: str
    port: int
    security: Literal["none", "starttls", "tls"]
    user: str
    password: str = field(repr=False)
    sender: str

    def __post_init__(self) -> None:
        name, address = parseaddr(self.sender)
        try:
            check_address(address)
        except InvalidRequest:
            address = ""
        # Of several addresses, or of text after a line break, the parser keeps the first and says nothing.
        if not address or self.sender not in {address, f"{name} <{address}>", f'"{name}" <{address}>'}:
            raise InvalidRequest("sender", f"{self.sender!r} is not an e-mail address")

    @property
    def address(self) -> str:
        """The sender without a display name."""
        return parseaddr(self.sender)[1]


SECURITY: dict[str, tuple[Literal["none", "starttls", "tls"], int]] = {
    "smtp": ("none", 25),
    "smtp+starttls": ("starttls", 587),
    "smtps": ("tls", 465),
}


def read_server(url: str, sender: str) -> MailServer:
    """The server at ``smtps://USER:PASSWORD@HOST:PORT`` and its like; names and passwords are percent-encoded.

    Raises:
        Unavailable: the URL or the sender cannot be read.
    """
    parsed = urlsplit(url)
    try:
        port = parsed.port
    except ValueError:
        port = 0
    if parsed.scheme not in SECURITY or not parsed.hostname or port == 0 or parsed.path.strip("/"):
        known = ", ".join(f"{scheme}://" for scheme in SECURITY)
        raise Unavailable(f"OUTHAUL_MAIL_URL must be like smtps://USER:PASSWORD@HOST:PORT, with one of {known}")
    security, usual_port = SECURITY[parsed.scheme]
    user, password = unquote(parsed.username or ""), unquote(parsed.password or "")
    try:
        return MailServer(parsed.hostname, port or usual_port, security, user, password, sender)
    except InvalidRequest as error:
        raise Unavailable(f"OUTHAUL_MAIL_FROM: {error.message}") from None


def compose(notice: Letter, *, server: MailServer, recipient: str, message_id: str, at: datetime) -> EmailMessage:
    """The message to one recipient, in plain text and in HTML.

    Args:
        notice: what is said.
        server: whose ``sender`` it is from.
        recipient: one address, checked again here, since stored ones may be older than the check.
        message_id: the same in every retry, of letters, digits, ``-`` and ``_``.
        at: its date, with a zone.

    Raises:
        InvalidRequest: the recipient is not one plain address.
    """
    message = EmailMessage(_POLICY)
    message["From"] = server.sender
    message["To"] = check_address(recipient)
    message["Subject"] = subject_of(notice)
    message["Date"] = at
    message["Message-ID"] = f"<{message_id}@{server.address.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no holiday notes in return
    message.set_content(text_of(notice))
    message.add_alternative(html_of(notice), subtype="html")
    return message


def send(server: MailServer, messages: Sequence[EmailMessage]) -> list[Answer]:
    """Make one attempt at each message, in one session where the server lets it, and answer for each, in order.

    A refused recipient stops no other, nor does a server that hangs up on it. Where there is no session, or the server
    falls silent, the rest is to be tried again. Raises nothing that the server can cause.
    """
    session = _Session(server)
    try:
        return [session.deliver(message) for message in messages]
    finally:
        session.close()


class _Session:
    """A connection that is opened when it is needed, and again when the server has hung up."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._smtp: smtplib.SMTP | None = None
        self._ended: Answer | None = None  # why no message has a chance any more

    def deliver(self, message: EmailMessage) -> Answer:
        if self._ended:
            return self._ended
        recipient = message["To"].addresses[0].addr_spec
        try:
            if self._smtp is None:
                self._smtp = self._open()
            self._smtp.sendmail(self._server.address, [recipient], message.as_bytes())
        except smtplib.SMTPRecipientsRefused as error:
            code, reply = error.recipients[recipient]
            return self._refusal(code, reply, final=code >= 500)
        except smtplib.SMTPDataError as error:
            return self._refusal(error.smtp_code, error.smtp_error, final=error.smtp_code >= 500)
        except smtplib.SMTPSenderRefused as error:
            # Of what a server objects to before it knows the recipient, only the size (552) is beyond its operator.
            return self._refusal(error.smtp_code, error.smtp_error, final=error.smtp_code == 552)
        except _FAILURE_KINDS as error:
            # smtplib tells of a lost connection both when the server hangs up and when it is silent for too long.
            reason = error.__context__ if isinstance(error.__context__, TimeoutError) else error
            words = next(words for kind, words in _FAILURES if isinstance(reason, kind))
            answer = Answer(Verdict.RETRY, words, detail=shorten(f"{type(error).__name__}: {error}"))
            if self._smtp is None or isinstance(reason, TimeoutError):
                self._ended = answer
            self.close()
            return answer
        return Answer(Verdict.DELIVERED, "the mail server has taken it (250)", 250)

    def _refusal(self, code: int, reply: str | bytes, *, final: bool) -> Answer:
        if self._smtp and self._smtp.sock is None:  # code 421: the server has hung up, and smtplib followed
            self._smtp = None
        if final:
            return Answer(Verdict.REFUSED, f"the mail server refuses it ({code})", code, detail=shorten(reply))
        return Answer(Verdict.RETRY, f"the mail server does not take it now ({code})", code, detail=shorten(reply))

    def _open(self) -> smtplib.SMTP:
        server, context = self._server, default_ssl_context()
        # By default smtplib would ask the resolver for this machine's name, for as long as that takes.
        name = server.address.rpartition("@")[2]
        smtp = (
            smtplib.SMTP_SSL(server.host, server.port, name, timeout=TIMEOUT_SECONDS, context=context)
            if server.security == "tls"
            else smtplib.SMTP(server.host, server.port, name, timeout=TIMEOUT_SECONDS)
        )
        try:
            if server.security == "starttls":
                smtp.starttls(context=context)
            if server.user:
                smtp.login(server.user, server.password)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def close(self) -> None:
        if self._smtp:
            with suppress(OSError):
                self._smtp.quit()
            self._smtp.close()
            self._smtp = None
