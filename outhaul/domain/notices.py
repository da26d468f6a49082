"""What is told of a job, of which moves, and when a notice that was not taken is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from outhaul.domain.transitions import Event

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from outhaul.domain.job import Job


class Notice(StrEnum):
    """What can be told of a job, as webhooks name it."""

    COMPLETED = "export.completed"
    FAILED = "export.failed"  # an attempt failed, a retry follows
    DEAD = "export.dead"
    CANCELLED = "export.cancelled"
    EXPIRING = "export.expiring"  # its files will be deleted soon


NOTICES: dict[Event, Notice] = {
    Event.COMPLETE: Notice.COMPLETED,
    Event.FAIL: Notice.FAILED,
    Event.BURY: Notice.DEAD,
    Event.CANCEL: Notice.CANCELLED,
}
# A webhook gets these unless it asks otherwise, and recipients of e-mail always: what becomes of a job in the end.
OUTCOMES = tuple(notice for notice in Notice if notice is not Notice.FAILED)

# Before the second try, the third and so on: soon after a hiccup, over a day in all.
DELAYS = (
    *(timedelta(seconds=seconds) for seconds in (5, 60, 300, 1800)),
    *(timedelta(hours=hours) for hours in (2, 5, 8, 8)),
)


class Outcome(StrEnum):
    """What became of a try."""

    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD = "dead"  # nothing can come of another try


def next_try(tries: int, *, asked: timedelta | None = None) -> timedelta | None:
    """How long to wait after that many tries, at least as long as the receiver ``asked``; None to give up."""
    if tries > len(DELAYS):
        return None
    return max(DELAYS[tries - 1], asked or timedelta())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of ``webhook_endpoints``, without its secrets."""

    id: UUID
    tenant_id: UUID
    url: str
    events: tuple[Notice, ...]
    description: str
    enabled: bool
    disabled_reason: str | None
    created_by: str
    created_at: datetime
    former_secret_until: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One row of ``deliveries``."""

    id: UUID
    job_id: UUID
    event_id: int
    notice: Notice
    endpoint_id: UUID | None
    recipient: str | None
    status: str
    tries: int
    next_try_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Try:
    """One line of the delivery log; ``answer`` is the status of the HTTP or SMTP answer."""

    at: datetime
    outcome: Outcome
    answer: int | None
    note: str
    detail: str


@dataclass(frozen=True, slots=True)
class Message:
    """All that a notice is made of: the same at every try, so that a retry has the same bytes.

    Attributes:
        delivery: the notice.
        at: when the job moved.
        said: what the line of history holds beside: counts of a success, or the code and message of an error.
        url: the webhook's address; None for an e-mail.
        secrets: the keys that sign, newest first.
        closed: why the addressee takes nothing any more, if that is so.
    """

    delivery: Delivery
    job: Job
    at: datetime
    said: dict[str, Any]
    url: str | None
    secrets: tuple[str, ...]
    closed: str | None
