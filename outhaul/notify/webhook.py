"""Webhooks as the Standard Webhooks specification 1.0 has them: signed, and retried under the same id."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets as randomness
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from outhaul.errors import InvalidRequest
from outhaul.notify.answer import Answer, Verdict
from outhaul.notify.exchange import post

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from outhaul.notify.guard import Guard

PREFIX = "whsec_"
KEY_BYTES = 32
MAX_HEADERS = 20
MAX_HEADER = 4096  # characters of a value

_OWN_HEADERS = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
    "webhook-id", "webhook-signature", "webhook-timestamp",
})  # fmt: skip
# RFC 9110, section 5: a token; visible characters with blanks between them. Kept to ASCII, the rest is obsolete.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?")


def new_secret() -> str:
    """A secret for signing, to be shown to its owner once."""
    return PREFIX + b64encode(randomness.token_bytes(KEY_BYTES)).decode("ascii")


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one signature for each secret, two while a secret is being replaced.

    Args:
        secrets: as ``new_secret`` gives them.
        message_id: the same in every retry.
        timestamp: seconds since 1970 of this attempt.
        body: the very bytes that are sent.

    Raises:
        InvalidRequest: a secret is not one, or there is none.
    """
    if not secrets:
        raise InvalidRequest("secret", "there is none to sign with")
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(_key(secret), signed, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{b64encode(digest).decode('ascii')}" for digest in digests)


def check_headers(headers: Mapping[str, str]) -> None:
    """Check the headers that somebody wants sent along, such as ``Authorization``.

    Raises:
        InvalidRequest: naming ``headers`` or ``headers.NAME``.
    """
    if len(headers) > MAX_HEADERS:
        raise InvalidRequest("headers", f"more than {MAX_HEADERS}")
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidRequest("headers", "one name is given twice")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidRequest("headers", f"{name!r} is not the name of a header")
        if name.lower() in _OWN_HEADERS:
            raise InvalidRequest(f"headers.{name}", "this one is set by Outhaul")
        if not _HEADER_VALUE.fullmatch(value) or len(value) > MAX_HEADER:
            words = f"1 to {MAX_HEADER} visible ASCII characters on one line, with no blank at either end"
            raise InvalidRequest(f"headers.{name}", f"the value must be {words}")


def send(
    url: str,
    *,
    message_id: str,
    at: datetime,
    body: bytes,
    secrets: Sequence[str],
    guard: Guard,
    headers: Mapping[str, str],
) -> Answer:
    """Make one attempt. Raises nothing for what was stored or what the receiver does: the answer tells.

    Args:
        url: checked again here, since stored ones may be older than the check.
        message_id: the same in every retry: the receiver knows by it what it has had already.
        at: the time of this attempt, with its zone. Receivers refuse what is more than some minutes off.
        body: JSON in UTF-8.
        secrets: one, or two while it is being replaced.
        guard: decides which addresses may be connected to.
        headers: to be sent along, as its owner set them.
    """
    timestamp = int(at.timestamp())
    try:
        check_headers(headers)
        signature = sign(secrets, message_id, timestamp, body)
    except InvalidRequest as error:
        return Answer(Verdict.RETRY, error.message)
    own = {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}
    return post(url, {**headers, **own}, body, guard)


def _key(secret: str) -> bytes:
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidRequest("secret", f"must be {PREFIX} and 24 to 64 bytes in base64")
    return key
