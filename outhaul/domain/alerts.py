"""What operators are alerted to, and in which words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

QUIET = timedelta(hours=1)  # at least so long between two messages about one cause
PATIENCE = timedelta(minutes=10)  # so long may jobs wait while nobody works
AGAIN = timedelta(minutes=5)  # after a message that could not be sent
NAMED = 5  # tenants that a message names


class Kind(StrEnum):
    """Kinds of trouble."""

    DEAD = "dead"
    STUCK = "stuck"
    UNDELIVERED = "undelivered"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Everything that failed for one cause since that was last told of.

    Attributes:
        kind: what happened.
        key: the cause, the same each time.
        count: how many jobs, or notices.
        first_at: the oldest of them.
        last_at: the newest.
        newest: the newest one's job.
        tenants: whose jobs.
        about: the dataset, or the addressee; empty for the queue.
        code: of the error that jobs died of.
        message: of the newest.
        run: the newest one's Prefect run.
    """

    kind: Kind
    key: str
    count: int
    first_at: datetime
    last_at: datetime
    newest: UUID
    tenants: tuple[str, ...] = ()
    about: str = ""
    code: str = ""
    message: str = ""
    run: UUID | None = None

    @property
    def text(self) -> str:
        """The first line of a message."""
        several = self.count > 1
        match self.kind:
            case Kind.DEAD:
                jobs = f"{self.count:,} exports of {self.about} have" if several else f"An export of {self.about} has"
                return f"{jobs} failed for good: {self.code}: {self.message}"
            case Kind.STUCK:
                jobs = f"{self.count:,} exports wait" if several else "An export waits"
                return f"{jobs} and nobody works, since {self.first_at:%Y-%m-%d %H:%M} UTC: is a worker running?"
            case Kind.UNDELIVERED:
                notices = f"{self.count:,} notices" if several else "A notice"
                return f"{notices} to {self.about} could not be delivered and {'are' if several else 'is'} given up"

    @property
    def whose(self) -> str:
        """The tenants hit, the first few by name."""
        more = len(self.tenants) - NAMED
        return ", ".join(self.tenants[:NAMED]) + (f" and {more} more" if more > 0 else "")
