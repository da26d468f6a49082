"""Spans of time relative to a slot: "the day before", whenever a worker gets round to it."""

from __future__ import annotations

from datetime import UTC, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from outhaul.domain.cron import parse_cron
from outhaul.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import datetime


class Window(StrEnum):
    """Which span a schedule exports.

    All but the last are whole units of the calendar that ended at the slot or before it. Weeks begin on Monday
    (ISO 8601), quarters in January, April, July and October.
    """

    PREVIOUS_HOUR = "previous_hour"
    PREVIOUS_DAY = "previous_day"
    PREVIOUS_WEEK = "previous_week"
    PREVIOUS_MONTH = "previous_month"
    PREVIOUS_QUARTER = "previous_quarter"
    PREVIOUS_YEAR = "previous_year"
    SINCE_LAST_RUN = "since_last_run"


# Units begin where these are due, so windows and slots agree on what a clock change does to a day.
STARTS = {
    Window.PREVIOUS_HOUR: "0 * * * *",
    Window.PREVIOUS_DAY: "0 0 * * *",
    Window.PREVIOUS_WEEK: "0 0 * * 1",
    Window.PREVIOUS_MONTH: "0 0 1 * *",
    Window.PREVIOUS_QUARTER: "0 0 1 1,4,7,10 *",
    Window.PREVIOUS_YEAR: "0 0 1 1 *",
}


def resolve(window: Window, slot: datetime, timezone: str, mark: datetime | None = None) -> tuple[datetime, datetime]:
    """The half-open span ``[start, end)`` that ``window`` means for a slot, as instants in UTC.

    The spans of successive units meet: none of them misses or shares an instant, also where a day has 23 or 25 hours.

    Args:
        window: which span.
        slot: when the schedule was due, not when its job runs.
        timezone: whose days and hours are meant.
        mark: for ``since_last_run``, the end of what was exported last.

    Raises:
        InvalidRequest: names ``timezone``, or ``window`` if ``since_last_run`` has no mark before the slot.
        Unavailable: this machine has no time zone data.
    """
    if window is Window.SINCE_LAST_RUN:
        if mark is None or mark > slot:
            raise InvalidRequest("window", f"{window} needs the end of an earlier run; there is none before {slot}")
        return mark.astimezone(UTC), slot.astimezone(UTC)
    unit = parse_cron(STARTS[window], timezone)
    end = unit.latest(slot)
    start = unit.latest(end - timedelta(microseconds=1)) if end else None
    if end is None or start is None:
        raise InvalidRequest("window", f"there is no {window.replace('_', ' ')} before {slot}")
    return start, end
