"""A mail server on loopback that keeps what it takes, and refuses as a test wants."""

from __future__ import annotations

import email.policy
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import TYPE_CHECKING

from aiosmtpd.controller import Controller

from outhaul.notify.mail import MailServer

if TYPE_CHECKING:
    from aiosmtpd.smtp import Envelope


@dataclass
class Mailbox:
    """What a mail server has taken, and how it is to answer: ``refusals`` by recipient, ``at_data`` to all.

    ``secure`` says of each message whether it came over TLS, and after a login.
    """

    refusals: dict[str, str] = field(default_factory=dict)
    at_data: str = ""
    letters: list[Envelope] = field(default_factory=list)
    sessions: list[object] = field(default_factory=list)
    secure: list[tuple[bool, bool]] = field(default_factory=list)

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802 - aiosmtpd's name
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd's name
        if self.at_data:
            return self.at_data
        self.letters.append(envelope)
        tls = server.transport.get_extra_info("ssl_object") is not None
        self.secure.append((tls, bool(session.authenticated)))
        if session not in self.sessions:
            self.sessions.append(session)
        return "250 OK"

    @property
    def messages(self):
        return [BytesParser(policy=email.policy.default).parsebytes(letter.original_content) for letter in self.letters]


@contextmanager
def mail_server(box, *, tls=None, **options):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port, ssl_context=tls, **options)
    controller.start()
    try:
        yield MailServer("localhost", port, "none", "", "", "Outhaul <exports@example.com>")
    finally:
        controller.stop()
