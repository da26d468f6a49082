"""When a schedule is due: cron fields read on the wall clock of a time zone.

Fields and days are those of Debian's crontab(5): five fields, names of months and days, lists, ranges, steps that start
anew with each range, Sunday as 0 and as 7. If both day fields are restricted, either is enough, unless one begins with
a star. cronsim reads them and adds ``L`` (the last day), ``LW`` (the last Monday to Friday), ``5L`` (the last Friday)
and ``5#2`` (the second Friday).

Where clocks change, the rule is that of Debian's cron(8), which also tells two kinds apart, but said of instants:

- A **fixed** schedule names its times. Each is one slot on each day that the fields name. A time that the clocks skip
  is read on the clock as it went before: 01:15 becomes 02:15, where Debian's cron takes 02:00. A time that comes twice
  counts the first time. Two times that become one instant are one slot.
- A **repeating** schedule has a minute or an hour that begins with a star, or names every value, and is not a single
  value. It is due whenever the wall clock shows one of its times: in both passes of an hour that comes twice, and never
  at a time that is skipped.

A day that a zone left out whole, as Apia did 2011-12-30, has no slots, as 30 February has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from cronsim import CronSim, CronSimError

from outhaul.domain.cron_words import describe
from outhaul.domain.zones import find_zone
from outhaul.errors import InvalidRequest, unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from zoneinfo import ZoneInfo

FIELD = "cron_expression"
LONGEST = 255
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# Each field's name, its number of values, and what it takes.
PARTS = (
    ("minute", 60, "0-59"),
    ("hour", 24, "0-23"),
    ("day-of-month", 31, "1-31, L, LW"),
    ("month", 12, "1-12, JAN-DEC"),
    ("day-of-week", 7, "0-7, SUN-SAT, 5L, 5#2"),
)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone; made by :func:`parse_cron`.

    Every instant is an aware datetime. Those that come back are in UTC but for ``preview``.

    Attributes:
        expression: as it was given, with single spaces.
        timezone: the IANA name.
        repeats: whether clock changes are treated as for a repeating schedule, not as for fixed times.
    """

    expression: str
    timezone: str
    repeats: bool
    _rule: CronSim = field(repr=False, compare=False)
    _zone: ZoneInfo = field(repr=False, compare=False)
    _times: Sequence[timedelta] = field(repr=False, compare=False)  # of a day by the wall clock, in order

    def slots(self, instant: datetime) -> Iterator[datetime]:
        """All slots strictly after ``instant``, in order, to the end of the calendar."""
        carried: set[datetime] = set()
        for day in self._days(self._local(instant).date() - DAY, DAY):
            slots = sorted(carried.union(self._slots(day)))
            # Where clocks change around midnight, a slot of this day can come after the first of the next.
            end = min(self._first(day + DAY, fold) for fold in (0, 1))
            yield from (slot for slot in slots if instant < slot < end)
            carried = {slot for slot in slots if slot >= end}
        yield from sorted(slot for slot in carried if slot > instant)

    def after(self, instant: datetime) -> datetime | None:
        """The first slot strictly after ``instant``; None if the calendar, which ends with year 9999, has none."""
        return next(self.slots(instant), None)

    def latest(self, instant: datetime) -> datetime | None:
        """The last slot at or before ``instant``; None before the first of the calendar."""
        best: tuple[datetime, date] | None = None
        for day in self._days(self._local(instant).date() + DAY, -DAY):
            if best and day < best[1] - DAY:
                break
            due = [slot for slot in self._slots(day) if slot <= instant]
            if due and (best is None or due[-1] > best[0]):
                best = due[-1], day
        return best and best[0]

    def between(self, start: datetime, end: datetime, limit: int) -> list[datetime]:
        """The first ``limit`` slots after ``start`` and up to ``end``, a slot at ``end`` included."""
        return list(islice(takewhile(lambda slot: slot <= end, self.slots(start)), limit))

    def preview(self, now: datetime, count: int = 5) -> list[datetime]:
        """The next ``count`` slots on the schedule's own clock, each with the offset that it has then."""
        # With the zone itself in it, a datetime that comes twice equals none of another zone (PEP 495).
        offsets = ((slot, self._local(slot).utcoffset() or timedelta()) for slot in islice(self.slots(now), count))
        return [slot.astimezone(timezone(offset)) for slot, offset in offsets]

    def describe(self) -> str:
        """What the fields say, in words, with the zone; :meth:`clock_changes` tells of the days that differ."""
        return f"{describe(self._rule)}, in time zone {self.timezone}"

    def clock_changes(self, now: datetime) -> str:
        """What happens when clocks change, in words; empty if this zone changes none in the year after ``now``."""
        start = self._local(now)
        if all(self._plain(start.date() + n * DAY) is not None for n in range(366)):
            return ""
        if self.repeats:
            return (
                "When clocks change, it goes by what they show: "
                "it runs twice at times that come twice, and not at times that are skipped."
            )
        return (
            "When clocks change, each of its times still counts once: "
            "the first of one that comes twice, and one that is skipped by as much later as clocks went forward."
        )

    def _slots(self, day: date) -> list[datetime]:
        """The slots of a day of the calendar, in order."""
        midnight = datetime.combine(day, time())
        if (offset := self._plain(day)) is not None:
            start = (midnight - offset).replace(tzinfo=UTC)
            return [start + since_midnight for since_midnight in self._times]
        walls = [midnight + time_ for time_ in self._times]
        if not self.repeats:
            exists = self._local(self._first(day, 0)).date() == day
            return sorted({_instant(wall, self._zone, 0) for wall in walls}) if exists else []
        passes = {(_instant(wall, self._zone, fold), wall) for wall in walls for fold in (0, 1)}
        return sorted(slot for slot, wall in passes if self._local(slot).replace(tzinfo=None) == wall)

    def _plain(self, day: date) -> timedelta | None:
        """The offset from UTC of a day on which it does not change, or None."""
        midnight = datetime.combine(day, time(), self._zone)
        offsets = {at.replace(fold=fold).utcoffset() for at in (midnight, midnight + DAY) for fold in (0, 1)}
        return offsets.pop() if len(offsets) == 1 else None

    def _first(self, day: date, fold: int) -> datetime:
        return _instant(datetime.combine(day, time()), self._zone, fold)

    def _local(self, instant: datetime) -> datetime:
        if instant.tzinfo is None:
            raise ValueError(f"{instant} is no instant without its offset")
        return instant.astimezone(self._zone)

    def _days(self, day: date, step: timedelta) -> Iterator[date]:
        """The days that the fields name, from ``day`` on by ``step``, to the end of the calendar."""
        rule = self._rule
        try:
            while date.min + 2 * DAY < day < date.max - 2 * DAY:
                if day.month not in rule.months:
                    first = day.replace(day=1)
                    day = (first + 31 * DAY).replace(day=1) if step > timedelta() else first - DAY
                    continue
                if rule.match_day(day):
                    yield day
                day += step
        except OverflowError:
            return


def parse_cron(expression: str, timezone: str) -> Cron:
    """Read five cron fields, or an alias such as ``@daily``, and the name of the zone whose clock they are read on.

    Raises:
        InvalidRequest: names ``cron_expression`` or ``timezone`` and what would be right.
        Unavailable: this machine has no time zone data.
    """
    zone = find_zone(timezone, "timezone")
    text = " ".join(expression.split())
    if len(text) > LONGEST:
        raise InvalidRequest(FIELD, f"longer than {LONGEST} characters")
    if text.startswith("@") and text.lower() not in ALIASES:
        raise InvalidRequest(FIELD, unknown("alias", text, ALIASES))
    rule = _read(ALIASES.get(text.lower(), text))
    return Cron(
        text,
        timezone,
        repeats=_repeats(rule.parts[1], rule.minutes, 60) or _repeats(rule.parts[2], rule.hours, 24),
        _rule=rule,
        _zone=zone,
        _times=[timedelta(hours=h, minutes=m) for h in sorted(rule.hours) for m in sorted(rule.minutes)],
    )


def _repeats(part: str, values: Collection[int], size: int) -> bool:
    return len(values) == size or (part.startswith("*") and len(values) > 1)


def _read(text: str) -> CronSim:
    parts = text.split()
    if len(parts) != len(PARTS):
        names = ", ".join(name for name, _, _ in PARTS)
        raise InvalidRequest(FIELD, f"needs five fields ({names}), or one of {', '.join(ALIASES)}; has {len(parts)}")
    for part, (name, size, _) in zip(parts, PARTS, strict=True):
        for step in re.findall(r"/([0-9]+)", part):
            if int(step) > size:
                raise InvalidRequest(FIELD, f"the {name} {part!r} has a step of {step}; the longest is {size}")
    rule = _rule(text)
    if rule is None:
        for i, (part, (name, _, takes)) in enumerate(zip(parts, PARTS, strict=True)):
            if _rule(" ".join(["*"] * i + [part] + ["*"] * (4 - i))) is None:
                raise InvalidRequest(FIELD, f"{part!r} is no {name}: {takes}; also *, lists, rising ranges and steps")
    # Weekdays and leap days meet in every way that they can within 28 years, as long as no odd century comes between.
    days = (date(2000, 1, 1) + n * DAY for n in range(28 * 366))
    if rule is None or not any(day.month in rule.months and rule.match_day(day) for day in days):
        raise InvalidRequest(FIELD, f"{text!r} names no day that ever comes")
    return rule


def _rule(text: str) -> CronSim | None:
    try:
        return CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return None


def _instant(wall: datetime, zone: ZoneInfo, fold: int) -> datetime:
    """What time it is, in UTC, when clocks show ``wall``; one that they skip is read on the clock as it went before."""
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
