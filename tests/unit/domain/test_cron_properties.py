"""Cron against a clock that is read minute by minute, in every zone, mostly around clock changes."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outhaul.domain.cron import parse_cron
from outhaul.domain.zones import UNFIT

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ZONES = sorted(available_timezones() - UNFIT)
ODD_ZONES = [
    *("Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo", "America/Santiago", "Pacific/Apia"),
    *("America/Nuuk", "America/St_Johns", "America/Havana", "Antarctica/Troll", "Antarctica/Casey", "Asia/Gaza"),
    *("Europe/Dublin", "Pacific/Kiritimati", "Pacific/Kwajalein", "America/Scoresbysund", "Africa/Casablanca"),
    *("Africa/Monrovia", "Atlantic/Azores"),
]


@cache
def changes(name):
    """The local days of 1960 to 2060 that begin and end with different offsets."""
    zone, found = ZoneInfo(name), []
    moments = (datetime(1960, 1, 1, tzinfo=UTC) + n * DAY for n in range(100 * 365))
    for before, after in pairwise(moment.astimezone(zone) for moment in moments):
        if before.utcoffset() != after.utcoffset():
            found.append(before.date())
    return found


@st.composite
def starts(draw, name):
    """An instant, mostly some hours before a clock change."""
    days = changes(name) if draw(st.booleans()) else []
    near = draw(st.sampled_from(days)) - DAY if days else draw(st.dates(date(1960, 1, 1), date(2060, 1, 1)))
    return datetime.combine(near, time(), UTC) + draw(st.integers(0, 2 * 24 * 60 * 60)) * timedelta(seconds=1)


def numbers(low, high):
    few = st.sets(st.integers(low, high), min_size=1, max_size=4)
    return few.map(lambda values: (",".join(map(str, sorted(values))), values))


def stars(low, high):
    steps = st.integers(1, (high - low) // 2)
    return steps.map(lambda step: (f"*/{step}", set(range(low, high + 1, step))))


zone_names = st.sampled_from(ZONES) | st.sampled_from(ODD_ZONES)
repeating = st.tuples(stars(0, 59), stars(0, 23)) | st.tuples(stars(0, 59), numbers(0, 23))
repeating |= st.tuples(numbers(0, 59), stars(0, 23))
fixed = st.tuples(numbers(0, 59), numbers(0, 23))
day_fields = st.sampled_from(["* * *", "* * *", "*/2 * *", "* * 1-5", "13 * 5", "1,L * *", "* 3,4,9-12 0"])


def names_day(fields, day):
    last = (day + DAY).month != day.month
    return {
        "* * *": True,
        "*/2 * *": day.day % 2 == 1,
        "* * 1-5": day.weekday() < 5,
        "13 * 5": day.day == 13 or day.weekday() == 4,
        "1,L * *": day.day == 1 or last,
        "* 3,4,9-12 0": day.month in {3, 4, 9, 10, 11, 12} and day.weekday() == 6,
    }[fields]


def clock(zone, start, days):
    """Each minute of a span with what clocks show then; offsets of a fraction of a minute are not for this test."""
    first = start.replace(second=0)
    minutes = (first + n * MINUTE for n in range(days * 24 * 60))
    return [(minute, minute.astimezone(zone).replace(tzinfo=None)) for minute in minutes]


def whole_minutes(zone, start):
    return all((start + n * DAY).astimezone(zone).utcoffset() % MINUTE == timedelta() for n in range(-3, 9))


@settings(max_examples=100, deadline=None)
@given(st.data(), repeating, day_fields, zone_names)
def test_a_repeating_schedule_is_due_at_every_minute_that_clocks_show(data, times, fields, name):
    (minute, minutes), (hour, hours) = times
    zone, start = ZoneInfo(name), data.draw(starts(name))
    cron = parse_cron(f"{minute} {hour} {fields}", name)
    if not cron.repeats or not whole_minutes(zone, start):
        return
    expected = [
        instant
        for instant, wall in clock(zone, start, 3)
        if instant > start and wall.minute in minutes and wall.hour in hours and names_day(fields, wall.date())
    ]
    end = start.replace(second=0) + 3 * DAY - MINUTE
    assert cron.between(start, end, 10_000) == expected


@settings(max_examples=100, deadline=None)
@given(st.data(), fixed, day_fields, zone_names)
def test_a_fixed_schedule_is_due_once_for_each_time_of_each_day(data, times, fields, name):
    (minute, minutes), (hour, hours) = times
    zone, start = ZoneInfo(name), data.draw(starts(name))
    cron = parse_cron(f"{minute} {hour} {fields}", name)
    if not whole_minutes(zone, start):
        return
    assert not cron.repeats
    shown, skipped = {}, {}
    around = clock(zone, start - 2 * DAY, 7)
    for (instant, wall), (after, wall_after) in pairwise(around):
        shown.setdefault(wall, instant)
        for n in range(1, (wall_after - wall) // MINUTE):
            skipped[wall + n * MINUTE] = after + (n - 1) * MINUTE
    days = {wall.date() for _, wall in around}
    walls = [
        datetime.combine(day, time(h, m)) for day in days for h in hours for m in minutes if names_day(fields, day)
    ]
    due = {shown.get(wall) or skipped.get(wall) for wall in walls} - {None}
    end = start + 3 * DAY
    assert cron.between(start, end, 10_000) == sorted(slot for slot in due if start < slot <= end)


@settings(max_examples=100, deadline=None)
@given(st.data(), fixed | repeating, day_fields, zone_names)
def test_every_way_to_ask_gives_the_same_slots(data, times, fields, name):
    (minute, _), (hour, _) = times
    start = data.draw(starts(name))
    cron = parse_cron(f"{minute} {hour} {fields}", name)
    by_after = [start]
    for _ in range(20):
        by_after.append(cron.after(by_after[-1]))
    slots = by_after[1:]
    assert all(before < after for before, after in pairwise(by_after))
    assert cron.between(start, slots[-1], 1000) == cron.between(start, slots[-1] + DAY, 20) == slots
    assert cron.preview(start, 20) == slots == list(islice(cron.slots(start.astimezone(ZoneInfo(name))), 20))
    assert [cron.latest(slot) for slot in slots] == slots
    assert [cron.latest(slot - timedelta(microseconds=1)) for slot in slots[1:]] == slots[:-1]
    assert all(slot.second == 0 or not whole_minutes(ZoneInfo(name), slot) for slot in slots)


@pytest.mark.parametrize("daily", ["0 0 * * *", "30 2 * * *"])
def test_a_daily_schedule_has_as_many_slots_as_a_year_has_days_in_every_zone(daily):
    start, end = datetime(2026, 1, 15, 12, tzinfo=UTC), datetime(2027, 1, 15, 12, tzinfo=UTC)
    assert {name: len(parse_cron(daily, name).between(start, end, 1000)) for name in ZONES} == dict.fromkeys(ZONES, 365)


@pytest.mark.parametrize("name", ODD_ZONES)
def test_a_daily_schedule_has_one_slot_for_each_day_that_existed(name):
    noon, last = (datetime(year, 1, 10, 12, tzinfo=ZoneInfo(name)).astimezone(UTC) for year in (1993, 2033))
    hours = (noon + n * timedelta(hours=1) for n in range((last - noon) // timedelta(hours=1)))
    days = len({hour.astimezone(ZoneInfo(name)).date() for hour in hours})
    for daily in ("0 0 * * *", "15 2 * * *", "30 23 * * *"):
        assert len(parse_cron(daily, name).between(noon, last, 50_000)) == days - 1, daily
