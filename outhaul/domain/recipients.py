"""Who is told by e-mail: a list of plain addresses, checked before anything is stored and again before it is sent."""

from __future__ import annotations

import re

from outhaul.errors import InvalidRequest

MAX_RECIPIENTS = 50
MAX_ADDRESS = 254  # characters: what a path of RFC 5321 leaves, section 4.5.3.1.3
MAX_LOCAL = 64

# RFC 5321, section 4.1.2, without quoted names and addresses in brackets: those are where headers and other recipients
# hide. ASCII only, since whether the server can do more (SMTPUTF8) is not known when a request is stored.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@(?:{_LABEL}\.)+(?![0-9]+\Z){_LABEL}")


def check_recipients(text: str) -> list[str]:
    """Read addresses separated by commas, with spaces around them if need be; each is kept once.

    Raises:
        InvalidRequest: naming the field ``recipients``.
    """
    parts = (part.strip(" ") for part in text.split(","))  # of all that is blank only a space is harmless in a header
    addresses = list(dict.fromkeys(check_address(part) for part in parts if part))
    if len(addresses) > MAX_RECIPIENTS:
        raise InvalidRequest("recipients", f"{len(addresses)} addresses; at most {MAX_RECIPIENTS} are told")
    return addresses


def check_address(text: str) -> str:
    """Return ``text`` if it is one plain e-mail address, without a display name.

    Raises:
        InvalidRequest: naming the field ``recipients``.
    """
    shown = ascii(text if len(text) <= 80 else f"{text[:80]}...")
    if not text.isascii():
        words = f"{shown} is not an e-mail address in ASCII; write the part after the @ in its xn-- form"
        raise InvalidRequest("recipients", words)
    match = _ADDRESS.fullmatch(text)
    if not match:
        hint = "; separate addresses with commas" if ";" in text or text.count("@") > 1 else ""
        raise InvalidRequest("recipients", f"{shown} is not an e-mail address such as ada@example.com{hint}")
    if len(text) > MAX_ADDRESS or len(match["local"]) > MAX_LOCAL:
        words = f"{shown} is too long: at most {MAX_ADDRESS} characters, {MAX_LOCAL} of them before the @"
        raise InvalidRequest("recipients", words)
    return text
