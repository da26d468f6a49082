"""Sessions of attempts on their source: how they are named, and how those that outlived their attempt are ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outhaul.data.session import Limits, Session

if TYPE_CHECKING:
    from uuid import UUID

# Sessions of the same role only: those of others, nobody may end but a superuser.
END = r"""
SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(activity.pid))
FROM pg_catalog.pg_stat_activity AS activity
WHERE
    activity.usename = CURRENT_USER
    AND activity.datname = pg_catalog.current_database()
    AND activity.application_name ~ ('^outhaul:' || pg_catalog.current_setting('outhaul.job') || ':[0-9]+$')
    AND pg_catalog.split_part(activity.application_name, ':', 3)::pg_catalog.int8
        < pg_catalog.current_setting('outhaul.attempt')::pg_catalog.int8
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who produces: the job's id, and its fencing numbers."""

    job: str
    attempt: int = 1
    generation: int = 1

    @property
    def session_name(self) -> str:
        """The ``application_name`` of its session on the source."""
        return f"outhaul:{self.job}:{self.attempt}"


def end_earlier(session: Session, attempt: Attempt) -> int:
    """End the sessions that earlier attempts at the same job have left, by one of its own; returns how many.

    Raises:
        SourceError: the source refuses.
    """
    if attempt.attempt <= 1:
        return 0
    session.set({"outhaul.job": attempt.job, "outhaul.attempt": str(attempt.attempt)})
    return int(session.value(END))


def end_readers(url: str, job: UUID, attempt: int) -> int:
    """End the sessions of a job's attempts up to ``attempt``; returns how many. Raises SourceError."""
    with Session(url, name="outhaul:sweep", limits=Limits()) as session:
        return end_earlier(session, Attempt(str(job), attempt + 1))


def probe(url: str) -> None:
    """See whether the source takes a session. Raises SourceError."""
    with Session(url, name="outhaul:sweep", limits=Limits()):
        return
