from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outhaul.domain.catchup import CatchUp, Plan, Reason, Skipped, catch_up
from outhaul.domain.cron import parse_cron

HOURLY = parse_cron("0 * * * *", "UTC")
SINCE = datetime(2027, 1, 1, tzinfo=UTC)


def hours(*numbers):
    return tuple(SINCE + timedelta(hours=n) for n in numbers)


def after(hours_, minutes=0):
    return SINCE + timedelta(hours=hours_, minutes=minutes)


@pytest.mark.parametrize("policy", CatchUp)
def test_a_slot_that_is_on_time_runs_under_each_policy(policy):
    assert catch_up(HOURLY, SINCE, after(1), policy) == Plan(hours(1), ())
    assert catch_up(HOURLY, SINCE, after(1, 5), policy) == Plan(hours(1), ())
    assert catch_up(HOURLY, SINCE, after(0, 59), policy) == Plan((), ())
    assert catch_up(HOURLY, SINCE, after(-9), policy) == Plan((), ())  # the clock was set back


def test_none_skips_what_was_missed():
    skipped = (Skipped(Reason.MISSED, *hours(1, 3), 3),)
    assert catch_up(HOURLY, SINCE, after(3, 30), CatchUp.NONE) == Plan((), skipped)
    assert catch_up(HOURLY, SINCE, after(4, 2), CatchUp.NONE) == Plan(hours(4), skipped)


def test_latest_runs_the_newest_that_was_missed():
    skipped = (Skipped(Reason.SUPERSEDED, *hours(1, 2), 2),)
    assert catch_up(HOURLY, SINCE, after(3, 30), CatchUp.LATEST) == Plan(hours(3), skipped)
    assert catch_up(HOURLY, SINCE, after(3, 2), CatchUp.LATEST) == Plan(hours(3), skipped)


def test_all_runs_what_is_neither_too_old_nor_too_many():
    bounds = {"most": 3, "oldest": timedelta(hours=5)}
    assert catch_up(HOURLY, SINCE, after(3, 30), CatchUp.ALL, **bounds) == Plan(hours(1, 2, 3), ())
    assert catch_up(HOURLY, SINCE, after(10, 30), CatchUp.ALL, **bounds) == Plan(
        hours(8, 9, 10), (Skipped(Reason.TOO_OLD, *hours(1, 5), 5), Skipped(Reason.TOO_MANY, *hours(6, 7), 2))
    )
    assert catch_up(HOURLY, SINCE, after(10, 2), CatchUp.ALL, **bounds).run == hours(7, 8, 9, 10)


def test_a_year_away_of_a_schedule_of_every_minute_is_counted_and_not_listed():
    plan = catch_up(parse_cron("* * * * *", "UTC"), SINCE, SINCE + timedelta(days=365), CatchUp.ALL)
    assert len(plan.run) == 24 + 6
    assert sum(skipped.count for skipped in plan.skipped) == 365 * 24 * 60 - len(plan.run)


def test_the_grace_is_of_real_minutes_where_clocks_change():
    cron = parse_cron("58 0 * * *", "Europe/Lisbon")
    now = datetime(2027, 3, 28, 2, 2, tzinfo=ZoneInfo("Europe/Lisbon"))  # four minutes after 00:58
    assert catch_up(cron, datetime(2027, 3, 27, 12, tzinfo=UTC), now, CatchUp.NONE).skipped == ()


@given(st.sampled_from(CatchUp), st.integers(0, 3000), st.integers(0, 9), st.integers(0, 60), st.integers(0, 60))
def test_each_slot_is_in_exactly_one_place(policy, minutes, most, grace, oldest):
    now = after(0, minutes)
    plan = catch_up(
        parse_cron("*/7 3-20 * * *", "Africa/Cairo"),
        *(SINCE, now, policy),
        grace=timedelta(minutes=grace),
        most=most,
        oldest=timedelta(hours=oldest),
    )
    due = parse_cron("*/7 3-20 * * *", "Africa/Cairo").between(SINCE, now, 10_000)
    places = [*plan.run]
    for skipped in plan.skipped:
        span = [slot for slot in due if skipped.first <= slot <= skipped.last]
        assert len(span) == skipped.count
        places += span
    assert sorted(places) == due
    assert list(plan.run) == sorted(plan.run)
