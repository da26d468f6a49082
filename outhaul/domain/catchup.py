"""Which slots to run when a scheduler comes back and finds several of them due."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, timedelta
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from outhaul.domain.cron import Cron

GRACE = timedelta(minutes=5)  # a scheduler looks each minute; a slot it is this late for was not missed
MOST = 24
OLDEST = timedelta(days=7)


class CatchUp(StrEnum):
    """What becomes of missed slots. Those that are due within the grace run under each policy."""

    NONE = "none"  # no missed slot runs
    LATEST = "latest"  # the newest missed slot runs, if there is none within the grace
    ALL = "all"  # they all run, oldest first, up to a number and an age


class Reason(StrEnum):
    """Why a slot is skipped."""

    MISSED = "missed"  # the policy runs no missed slots
    SUPERSEDED = "superseded"  # a newer one runs in its place
    TOO_OLD = "too_old"
    TOO_MANY = "too_many"  # newer ones fill the number


@dataclass(frozen=True, slots=True)
class Skipped:
    """Successive slots that will not run. There may be very many, so they are told by their ends and their number."""

    reason: Reason
    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about the slots that are due: those to run, oldest first, and those to skip, oldest first."""

    run: tuple[datetime, ...]
    skipped: tuple[Skipped, ...]


def catch_up(
    cron: Cron,
    since: datetime,
    now: datetime,
    policy: CatchUp,
    *,
    grace: timedelta = GRACE,
    most: int = MOST,
    oldest: timedelta = OLDEST,
) -> Plan:
    """Decide on every slot after ``since`` and up to ``now``; each is in exactly one place of the plan.

    Args:
        cron: the schedule.
        since: the last slot that was decided on, or when the schedule was made, resumed or changed.
        now: the present.
        policy: what becomes of missed slots.
        grace: how late a slot may be and still count as on time.
        most: how many missed slots ``all`` runs.
        oldest: how old a missed slot may be for ``all`` to run it.
    """
    now = now.astimezone(UTC)  # in its own zone, a span of time would be one of the wall clock
    room, reason = {
        CatchUp.NONE: (0, Reason.MISSED),
        CatchUp.LATEST: (1, Reason.SUPERSEDED),
        CatchUp.ALL: (most, Reason.TOO_MANY),
    }[policy]
    on_time: list[datetime] = []
    missed: deque[datetime] = deque()
    skipped: dict[Reason, Skipped] = {}

    def skip(slot: datetime, reason: Reason) -> None:
        before = skipped.get(reason)
        skipped[reason] = Skipped(reason, before.first if before else slot, slot, before.count + 1 if before else 1)

    for slot in takewhile(lambda slot: slot <= now, cron.slots(since)):
        if slot >= now - grace:
            on_time.append(slot)
        elif policy is CatchUp.ALL and slot < now - oldest:
            skip(slot, Reason.TOO_OLD)
        else:
            missed.append(slot)
            if len(missed) > room:
                skip(missed.popleft(), reason)
    if policy is CatchUp.LATEST and on_time and missed:
        skip(missed.pop(), reason)
    return Plan((*missed, *on_time), tuple(skipped.values()))
