"""What became of one message that was sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

MAX_DETAIL = 500  # characters


class Verdict(StrEnum):
    """What is to be done about the message next."""

    DELIVERED = "delivered"  # nothing
    RETRY = "retry"  # send it again later
    GONE = "gone"  # the receiver wants no more of any message: HTTP 410
    REFUSED = "refused"  # this message will never be taken: SMTP 5xx


@dataclass(frozen=True, slots=True)
class Answer:
    """How one attempt ended.

    Attributes:
        verdict: what is to be done next.
        note: the same in words for the asker, of one line: nothing that the receiver wrote, no machine's address.
        status: the HTTP status or SMTP code, or None if there was no answer.
        retry_after: how long the receiver wants to be left alone, at most a day, or None if it did not say.
        detail: for operators: the receiver's own words or the error, of one line and at most 500 characters.
    """

    verdict: Verdict
    note: str
    status: int | None = None
    retry_after: timedelta | None = None
    detail: str = ""


def shorten(words: str | bytes) -> str:
    """What a stranger wrote as a ``detail``: cut, and without what could steer a terminal or forge a line of a log."""
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return "".join(char if char.isprintable() else " " for char in text[:MAX_DETAIL]).strip()
