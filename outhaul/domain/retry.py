"""What a failure means for the job: try again, give up, or hand back."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from outhaul.domain.job import MAX_RETRIES
from outhaul.errors import (
    Cancelled,
    ExportError,
    Interrupted,
    InvalidRequest,
    LeaseLost,
    NotFound,
    SourceError,
    SourceUnreachable,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

JITTER = 0.1  # so that what failed together does not come back together
MAX_SILENT_DEATHS = 2  # then the job is suspected of killing its workers
DEFAULT_DELAYS = (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))


class Verdict(Enum):
    """How a failure is to be settled."""

    TRANSIENT = auto()  # a retry may succeed
    PERMANENT = auto()  # no retry can mend it
    INTERRUPTED = auto()  # not the job's fault: hand it back without charge
    SOURCE_DOWN = auto()  # nor this: hand it back, and hold back all others that read the source
    CANCELLED = auto()  # it was meant to stop
    FENCED = auto()  # another attempt owns the job: touch nothing


# SQLSTATE classes, PostgreSQL manual appendix A. A full code wins over its class.
# 57014 (query cancelled) covers statement_timeout, which a less busy moment can mend.
TRANSIENT_SQLSTATES = ("08", "25P03", "40", "53", "55P03", "57", "58", "XX")
PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 405, 411, 412, 501})


def classify(error: BaseException) -> Verdict:
    """Say how ``error`` is to be settled.

    An error of a kind nobody foresaw counts as transient: the retries are bounded, and giving up a job that
    a second try would have finished is worse.
    """
    match error:
        case Cancelled():
            return Verdict.CANCELLED
        case LeaseLost():
            return Verdict.FENCED
        case Interrupted():
            return Verdict.INTERRUPTED
        case InvalidRequest() | NotFound():
            return Verdict.PERMANENT
        case SourceUnreachable():
            return Verdict.SOURCE_DOWN
        case SourceError(sqlstate=str(state)):
            return Verdict.TRANSIENT if state.startswith(TRANSIENT_SQLSTATES) else Verdict.PERMANENT
        case StoreError(status=int(status)):
            return Verdict.PERMANENT if status in PERMANENT_STATUSES else Verdict.TRANSIENT
        case ExportError() if error.permanent:
            return Verdict.PERMANENT
        case _:
            return Verdict.TRANSIENT


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often and how late a failed job is tried again."""

    delays: Sequence[timedelta] = DEFAULT_DELAYS

    def delay(self, retry_count: int) -> timedelta | None:
        """The wait before the next try of a job that was retried ``retry_count`` times, or None if none is left.

        Up to a tenth longer than the rule says, by chance.
        """
        allowed = min(MAX_RETRIES, len(self.delays))
        return self.delays[retry_count] * random.uniform(1, 1 + JITTER) if retry_count < allowed else None  # noqa: S311
