from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outhaul.data import values
from outhaul.domain.cron import parse_cron
from outhaul.domain.windows import STARTS, Window, resolve
from outhaul.errors import InvalidRequest

ODD_ZONES = [
    *("Europe/Lisbon", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo", "America/Santiago", "Pacific/Apia"),
    *("America/Nuuk", "Atlantic/Azores", "America/St_Johns"),
]


def at(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("window", "zone", "slot", "start", "end"),
    [
        # Months, weeks, quarters and years end where they should; a slot at the very end counts as after it.
        ("previous_day", "UTC", "2028-03-01T06:00Z", "2028-02-29T00:00Z", "2028-03-01T00:00Z"),
        ("previous_day", "UTC", "2028-03-01T00:00Z", "2028-02-29T00:00Z", "2028-03-01T00:00Z"),
        ("previous_week", "UTC", "2027-01-03T12:00Z", "2026-12-21T00:00Z", "2026-12-28T00:00Z"),  # a Sunday
        ("previous_week", "UTC", "2027-01-04T00:00Z", "2026-12-28T00:00Z", "2027-01-04T00:00Z"),  # a Monday
        ("previous_month", "UTC", "2027-03-31T06:00Z", "2027-02-01T00:00Z", "2027-03-01T00:00Z"),
        ("previous_month", "UTC", "2027-01-01T00:00Z", "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        ("previous_quarter", "UTC", "2027-05-31T06:00Z", "2027-01-01T00:00Z", "2027-04-01T00:00Z"),
        ("previous_quarter", "UTC", "2027-02-28T06:00Z", "2026-10-01T00:00Z", "2027-01-01T00:00Z"),
        ("previous_year", "UTC", "2029-02-28T06:00Z", "2028-01-01T00:00Z", "2029-01-01T00:00Z"),
        # The zone says which day it is.
        ("previous_day", "Asia/Kathmandu", "2027-03-27T18:15Z", "2027-03-26T18:15Z", "2027-03-27T18:15Z"),
        ("previous_day", "Asia/Kathmandu", "2027-03-27T18:14Z", "2027-03-25T18:15Z", "2027-03-26T18:15Z"),
        ("previous_hour", "Asia/Kathmandu", "2027-03-27T18:20Z", "2027-03-27T17:15Z", "2027-03-27T18:15Z"),
        # Days of 23 and 25 hours, and of 23 and a half.
        ("previous_day", "Europe/Lisbon", "2027-03-29T05:00Z", "2027-03-28T00:00Z", "2027-03-28T23:00Z"),
        ("previous_day", "Europe/Lisbon", "2027-11-01T05:00Z", "2027-10-30T23:00Z", "2027-11-01T00:00Z"),
        ("previous_day", "Australia/Lord_Howe", "2026-10-04T20:00Z", "2026-10-03T13:30Z", "2026-10-04T13:00Z"),
        ("previous_week", "Europe/Lisbon", "2027-03-29T05:00Z", "2027-03-22T00:00Z", "2027-03-28T23:00Z"),
        ("previous_month", "Europe/Lisbon", "2027-11-01T05:00Z", "2027-09-30T23:00Z", "2027-11-01T00:00Z"),
        # A day without its first hour, at its end and at its start.
        ("previous_day", "America/Santiago", "2027-09-05T12:00Z", "2027-09-04T04:00Z", "2027-09-05T04:00Z"),
        ("previous_day", "Africa/Cairo", "2027-05-01T12:00Z", "2027-04-29T22:00Z", "2027-04-30T21:00Z"),
        # There was no 30 December; an hour later it was the 31st.
        ("previous_day", "Pacific/Apia", "2011-12-30T19:00Z", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),
        ("previous_hour", "Pacific/Apia", "2011-12-30T10:30Z", "2011-12-30T09:00Z", "2011-12-30T10:00Z"),
        # An hour that comes twice is two; where only half of it does, it is one of 90 minutes.
        ("previous_hour", "Europe/Lisbon", "2027-10-31T01:15Z", "2027-10-31T00:00Z", "2027-10-31T01:00Z"),
        ("previous_hour", "Australia/Lord_Howe", "2027-04-03T15:35Z", "2027-04-03T14:00Z", "2027-04-03T15:30Z"),
    ],
)
def test_case_24_a_window_ends_with_the_unit_before_the_slot(window, zone, slot, start, end):
    assert resolve(Window(window), at(slot), zone) == (at(start), at(end))
    assert resolve(Window(window), at(slot).astimezone(ZoneInfo(zone)), zone) == (at(start), at(end))


def test_case_24_the_day_before_is_the_day_that_a_filter_means():
    for zone in ODD_ZONES:
        for n in range(800):
            day = date(2026, 6, 1) + n * timedelta(days=1)
            noon = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone))
            first, after = (
                at(values.start_of(each, pl.Datetime("us", "UTC"), ZoneInfo(zone)))
                for each in (day - timedelta(days=1), day)
            )
            assert resolve(Window.PREVIOUS_DAY, noon, zone) == (first, after)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(STARTS)),
    st.sampled_from(ODD_ZONES),
    st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_windows_of_successive_units_meet(window, zone, instant):
    slots = parse_cron(STARTS[window], zone).between(instant, instant + timedelta(days=3 * 366), 6)
    spans = [resolve(window, slot, zone) for slot in slots]
    assert all(start < end == slot for (start, end), slot in zip(spans, slots, strict=True))
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    start, end = resolve(window, instant, zone)
    assert start < end <= instant
    assert slots == [] or end == spans[0][0]


def test_since_the_last_run_is_from_its_end_to_the_slot():
    mark, slot = at("2027-03-27T01:15Z"), at("2027-03-28T01:15Z")
    assert resolve(Window.SINCE_LAST_RUN, slot, "Europe/Lisbon", mark) == (mark, slot)
    assert resolve(Window.SINCE_LAST_RUN, slot, "Europe/Lisbon", slot) == (slot, slot)
    for none in (None, slot + timedelta(seconds=1)):
        with pytest.raises(InvalidRequest, match="there is none before 2027-03-28"):
            resolve(Window.SINCE_LAST_RUN, slot, "Europe/Lisbon", none)


def test_a_window_needs_a_zone_and_a_calendar():
    with pytest.raises(InvalidRequest, match=r"timezone: 'Lisbon' .* Did you mean 'Europe/Lisbon'"):
        resolve(Window.PREVIOUS_DAY, at("2027-03-28T01:15Z"), "Lisbon")
    with pytest.raises(InvalidRequest, match="window: there is no previous year before 0001-05-01"):
        resolve(Window.PREVIOUS_YEAR, at("0001-05-01T00:00Z"), "UTC")
