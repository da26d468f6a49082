from datetime import UTC, datetime, timedelta

import pytest

from outhaul.domain import zones
from outhaul.domain.cron import parse_cron
from outhaul.errors import InvalidRequest, Unavailable


def at(text):
    return datetime.fromisoformat(text)


def shown(instants):
    return [f"{instant:%Y-%m-%d %H:%M}Z" for instant in instants]


def refusal(expression, timezone="UTC"):
    with pytest.raises(InvalidRequest) as caught:
        parse_cron(expression, timezone)
    return caught.value


# What becomes of a daily run where clocks go forward over its time, and where they go back over it: the noon before,
# and the next two slots.
CHANGES = [
    ("15 1 * * *", "Europe/Lisbon", "2027-03-27T12:00Z", ["2027-03-28 01:15Z", "2027-03-29 00:15Z"]),
    ("15 1 * * *", "Europe/Lisbon", "2027-10-30T12:00Z", ["2027-10-31 00:15Z", "2027-11-01 01:15Z"]),
    # Half an hour, at 02:00.
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T01:30Z", ["2026-10-03 15:45Z", "2026-10-04 15:15Z"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T01:00Z", ["2027-04-03 14:45Z", "2027-04-04 15:15Z"]),
    # None at all, but three quarters of an hour off.
    ("15 1 * * *", "Asia/Kathmandu", "2027-03-27T12:00Z", ["2027-03-27 19:30Z", "2027-03-28 19:30Z"]),
    # At midnight: forward over the first hour of the day, back over the last.
    ("0 0 * * *", "Africa/Cairo", "2027-04-29T10:00Z", ["2027-04-29 22:00Z", "2027-04-30 21:00Z"]),
    ("30 23 * * *", "Africa/Cairo", "2027-10-28T09:00Z", ["2027-10-28 20:30Z", "2027-10-29 21:30Z"]),
    ("0 0 * * *", "America/Santiago", "2027-09-04T16:00Z", ["2027-09-05 04:00Z", "2027-09-06 03:00Z"]),
    ("30 23 * * *", "America/Santiago", "2027-04-03T15:00Z", ["2027-04-04 02:30Z", "2027-04-05 03:30Z"]),
    # The last hour of Saturday, so the slot comes on Sunday, and Sunday's at its end.
    ("30 23 * * *", "America/Nuuk", "2027-03-27T14:00Z", ["2027-03-28 01:30Z", "2027-03-29 00:30Z"]),
    ("30 0 * * *", "Atlantic/Azores", "2027-03-27T13:00Z", ["2027-03-28 01:30Z", "2027-03-29 00:30Z"]),
    ("30 0 * * *", "Atlantic/Azores", "2027-10-30T12:00Z", ["2027-10-31 00:30Z", "2027-11-01 01:30Z"]),
    # There was no 30 December.
    ("0 9 * * *", "Pacific/Apia", "2011-12-29T22:00Z", ["2011-12-30 19:00Z", "2011-12-31 19:00Z"]),
    ("0 9 30 * *", "Pacific/Apia", "2011-12-01T00:00Z", ["2012-01-29 19:00Z", "2012-03-29 19:00Z"]),
]


@pytest.mark.parametrize(("expression", "timezone", "noon", "slots"), CHANGES)
def test_case_36_a_daily_run_where_clocks_change(expression, timezone, noon, slots):
    cron = parse_cron(expression, timezone)
    assert shown(cron.between(at(noon), at(noon) + timedelta(days=400), 2)) == slots
    assert shown([cron.after(at(noon)), cron.after(cron.after(at(noon)))]) == slots
    assert cron.preview(at(noon), 2) == cron.between(at(noon), at("2100-01-01T00:00Z"), 2)
    assert shown([cron.latest(at(f"{slots[0][:10]}T{slots[0][11:]}"))]) == slots[:1]


def test_case_36_a_schedule_made_or_changed_within_the_hour():
    cron = parse_cron("15 1 * * *", "Europe/Lisbon")
    assert shown([cron.after(at("2027-03-28T00:30Z"))]) == ["2027-03-28 01:15Z"]
    assert shown([cron.after(at("2027-10-31T00:10Z"))]) == ["2027-10-31 00:15Z"]
    for moment in ("00:15Z", "00:45Z", "01:10Z", "01:15Z", "01:30Z"):
        assert shown([cron.after(at(f"2027-10-31T{moment}"))]) == ["2027-11-01 01:15Z"]


def test_case_36_the_preview_shows_offsets_and_words_tell_the_rule():
    cron = parse_cron("15 1 * * *", "Europe/Lisbon")
    forward, back = cron.preview(at("2027-03-27T12:00Z"), 2), cron.preview(at("2027-10-30T12:00Z"), 2)
    assert [slot.isoformat() for slot in forward] == ["2027-03-28T02:15:00+01:00", "2027-03-29T01:15:00+01:00"]
    assert [slot.isoformat() for slot in back] == ["2027-10-31T01:15:00+01:00", "2027-11-01T01:15:00+00:00"]
    assert len(cron.preview(at("2027-03-27T12:00Z"))) == 5
    assert "still counts once" in cron.clock_changes(at("2027-01-01T00:00Z"))
    assert "twice at times that come twice" in parse_cron("0 * * * *", "Africa/Cairo").clock_changes(
        at("2027-01-01T00Z")
    )
    assert parse_cron("15 1 * * *", "Asia/Kathmandu").clock_changes(at("2027-01-01T00:00Z")) == ""


@pytest.mark.parametrize(
    ("expression", "timezone", "start", "slots"),
    [
        ("*/30 * * * *", "Europe/Lisbon", "2027-03-28T00:00Z", "00:30 02:00 02:30 03:00"),
        ("30 * * * *", "Europe/Lisbon", "2027-10-30T23:00Z", "00:30 01:30 01:30 02:30"),
        ("0 0-23 * * *", "Europe/Lisbon", "2027-10-30T23:30Z", "01:00 01:00 02:00 03:00"),
        ("0 * * * *", "Australia/Lord_Howe", "2027-04-03T13:30Z", "01:00 02:00 03:00 04:00"),
        ("45 * * * *", "Australia/Lord_Howe", "2027-04-03T13:30Z", "00:45 01:45 01:45 02:45"),
        ("0 * * * *", "Pacific/Apia", "2011-12-30T08:30Z", "23:00 00:00 01:00 02:00"),
    ],
)
def test_case_36_a_repeating_run_goes_by_what_clocks_show(expression, timezone, start, slots):
    cron = parse_cron(expression, timezone)
    assert cron.repeats
    assert " ".join(f"{slot:%H:%M}" for slot in cron.preview(at(start), 4)) == slots


def test_times_of_one_schedule_that_a_change_makes_one_instant_are_one_slot():
    cron = parse_cron("0,30 1,2 * * *", "Europe/Lisbon")
    assert shown(cron.between(at("2027-03-28T00:00Z"), at("2027-03-28T12:00Z"), 9)) == [
        "2027-03-28 01:00Z",
        "2027-03-28 01:30Z",
    ]


def test_clocks_that_go_back_over_midnight():
    # From 00:01 on Sunday to 23:01 on Saturday, so Sunday begins twice.
    fixed, hourly, twice_hourly = (
        parse_cron(each, "America/St_Johns") for each in ("0 0 * * *", "30 * * * *", "*/30 * * * *")
    )
    night = (at("2010-11-07T01:30Z"), at("2010-11-07T03:45Z"), 9)
    assert shown(fixed.between(*night)) == ["2010-11-07 02:30Z"]
    assert shown(hourly.between(*night)) == ["2010-11-07 02:00Z", "2010-11-07 03:00Z"]
    assert [f"{slot:%H:%M}" for slot in twice_hourly.between(*night)] == ["02:00", "02:30", "03:00", "03:30"]
    assert shown([twice_hourly.latest(at("2010-11-07T03:15Z"))]) == ["2010-11-07 03:00Z"]
    assert shown([fixed.latest(at("2010-11-07T02:45Z"))]) == ["2010-11-07 02:30Z"]


def test_clocks_that_go_forward_over_midnight():
    # From 23:30 on Sunday to 00:30 on Monday: the late slot of Sunday comes after Monday's first, or is the same.
    cron = parse_cron("45 23,0 * * *", "America/Toronto")
    assert shown(cron.between(at("1919-03-31T04:00Z"), at("1919-04-01T04:00Z"), 9)) == [
        "1919-03-31 04:45Z",
        "1919-04-01 03:45Z",
    ]
    assert shown([parse_cron("30 23 * * *", "America/Nuuk").after(at("2027-03-28T01:10Z"))]) == ["2027-03-28 01:30Z"]


def test_a_star_that_leaves_one_value_is_a_fixed_time():
    assert not parse_cron("0 */24 * * *", "Africa/Cairo").repeats
    assert not parse_cron("*/60 3 * * *", "Africa/Cairo").repeats
    assert shown([parse_cron("0 */24 * * *", "Africa/Cairo").after(at("2027-04-29T10:00Z"))]) == ["2027-04-29 22:00Z"]


def test_case_38_either_day_field_is_enough():
    cron = parse_cron("30 7 11 * 2", "UTC")
    year = cron.between(at("2027-01-01T00:00Z"), at("2027-12-31T23:59Z"), 1000)
    assert len(year) == 63
    assert all(slot.day == 11 or slot.weekday() == 1 for slot in year)


def test_case_38_steps_start_anew_with_the_hour():
    cron = parse_cron("*/7 * * * *", "UTC")
    slots = cron.between(at("2027-01-01T10:41Z"), at("2027-01-01T11:07Z"), 9)
    assert [f"{slot:%H:%M}" for slot in slots] == ["10:42", "10:49", "10:56", "11:00", "11:07"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("30 7 11 * 2", "at 07:30 on day 11 or on Tuesday"),
        ("*/7 * * * *", "at minutes 0, 7, ... 56 of every hour"),
        ("*/15 * * * *", "at minutes 0, 15, 30 and 45 of every hour"),
        ("1,2,4-9 * * * *", "at minutes 1, 2 and 4 to 9 of every hour"),
        ("* * * * *", "every minute"),
        ("* 1 * * *", "every minute of hour 1 every day"),
        ("15 1 * * *", "at 01:15 every day"),
        ("@daily", "at 00:00 every day"),
        ("@HOURLY", "at minute 0 of every hour"),
        ("0 0-23 * * *", "at minute 0 of every hour"),
        ("*/60 * * * *", "at minute 0 of every hour"),
        ("0 */24 * * *", "at 00:00 every day"),
        ("0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day"),
        ("0 */2 * * *", "at minute 0 of hours 0, 2, ... 22 every day"),
        ("0 9-17 * * mon-fri", "at minute 0 of hours 9 to 17 on Monday to Friday"),
        ("0 0 * * 0,1", "at 00:00 on Monday and Sunday"),
        ("0 0 * * 5-7", "at 00:00 on Friday to Sunday"),
        ("0 0 */2 * 1,4", "at 00:00 on days 1, 3, ... 31 when that is Monday or Thursday"),
        ("0 0 1 * 1,4", "at 00:00 on day 1 or on Monday or Thursday"),
        ("0 0 1-31 * 1", "at 00:00 every day"),
        ("0 6 L * *", "at 06:00 on the last day of the month"),
        ("0 6 1,15,L * *", "at 06:00 on days 1 and 15 and the last day of the month"),
        ("0 6 LW * *", "at 06:00 on the last Monday to Friday of the month"),
        ("0 6 * * 5L", "at 06:00 on the last Friday of the month"),
        ("0 6 * * 1,5#2", "at 06:00 on Monday and the 2nd Friday of the month"),
        ("15 4 29 2 *", "at 04:15 on day 29, in February only"),
        ("0 0 1 jan,apr,jul,oct *", "at 00:00 on day 1, in January, April, July and October only"),
        ("0 * * 6-8 *", "at minute 0 of every hour, in June to August only"),
    ],
)
def test_case_38_words_say_what_is_due(expression, words):
    assert parse_cron(expression, "Asia/Kathmandu").describe() == f"{words}, in time zone Asia/Kathmandu"


def test_case_38_sunday_is_0_and_7():
    span = (at("2027-01-01T00:00Z"), at("2028-01-01T00:00Z"), 99)
    slots = [parse_cron(f"0 0 * * {sunday}", "Pacific/Apia").between(*span) for sunday in ("0", "7", "SUN", "sun")]
    assert slots[0] == slots[1] == slots[2] == slots[3]
    assert len(slots[0]) == 52


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("*/90 * * * *", "the minute '*/90' has a step of 90; the longest is 60"),
        ("0 */36 * * *", "the hour '*/36' has a step of 36; the longest is 24"),
        ("60 * * * *", "'60' is no minute: 0-59"),
        ("0 22-6 * * *", "'22-6' is no hour: 0-23; also *, lists, rising ranges and steps"),
        ("0 0 0 * *", "'0' is no day-of-month"),
        ("0 0 L-3 * *", "'L-3' is no day-of-month"),
        ("0 0 1 13 *", "'13' is no month"),
        ("0 0 * * fri-sun", "'fri-sun' is no day-of-week: 0-7, SUN-SAT"),
        ("0/0 * * * *", "'0/0' is no minute"),
        ("0 0 * * *  2027", "needs five fields (minute, hour, day-of-month, month, day-of-week)"),
        ("30 0 0 * * *", "has 6"),
        ("", "has 0"),
        ("@reboot", "'@reboot' is not a known alias"),
        ("@dayly", "Did you mean '@daily'?"),
        (f"{'9' * 5000} * * * *", "longer than 255 characters"),
    ],
)
def test_case_38_what_cannot_be_read_is_refused_by_its_field(expression, words):
    error = refusal(expression)
    assert error.field == "cron_expression"
    assert words in error.message


def test_case_39_29_february_comes_with_leap_years():
    cron = parse_cron("15 4 29 2 *", "UTC")
    far = at("2110-01-01T00:00Z")
    assert shown(cron.between(at("2026-03-01T00:00Z"), far, 2)) == ["2028-02-29 04:15Z", "2032-02-29 04:15Z"]
    assert shown([cron.after(at("2096-03-01T00:00Z"))]) == ["2104-02-29 04:15Z"]
    assert shown([cron.latest(at("2104-02-29T04:14Z"))]) == ["2096-02-29 04:15Z"]
    assert shown([parse_cron("0 0 29 2 */7", "UTC").after(at("2088-03-01T00:00Z"))]) == ["2128-02-29 00:00Z"]


@pytest.mark.timeout(5)
@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4,6 *", "0 0 */31 2 1#5", "0 0 LW * */7"])
def test_case_39_days_that_never_come_are_refused_at_once(expression):
    assert "names no day that ever comes" in refusal(expression, "Europe/Lisbon").message


def test_case_39_day_31_comes_in_months_that_have_one():
    slots = parse_cron("0 6 31 * *", "UTC").between(at("2027-01-31T07:00Z"), at("2027-09-30T00:00Z"), 9)
    assert [f"{slot:%d %b}" for slot in slots] == ["31 Mar", "31 May", "31 Jul", "31 Aug"]


def test_case_39_the_last_day_of_the_month():
    cron = parse_cron("0 6 L * *", "Pacific/Apia")
    assert shown([cron.after(at("2027-02-01T00:00Z"))]) == ["2027-02-27 17:00Z"]  # 06:00 on the 28th, 13 hours ahead
    assert shown([cron.after(at("2028-02-01T00:00Z"))]) == ["2028-02-28 17:00Z"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("europe/lisbon", "Did you mean 'Europe/Lisbon'?"),
        ("Lisbon", "Did you mean 'Europe/Lisbon'?"),
        ("Europe/Lisbon ", "Did you mean 'Europe/Lisbon'?"),
        ("Europe", "is not a known time zone"),  # a folder of zones
        ("localtime", "is not a known time zone"),  # that of this machine
        ("Factory", "is not a known time zone"),
        ("posixrules", "is not a known time zone"),
        ("right/Europe/Lisbon", "is not a known time zone"),  # counts leap seconds
        ("posix/Europe/Lisbon", "is not a known time zone"),
        ("../UTC", "is not a known time zone"),
        ("/etc/localtime", "is not a known time zone"),
        ("zone.tab", "is not a known time zone"),
        ("U\0TC", "is not a known time zone"),
        ("+05:45", "One is called 'Europe/Berlin'."),
        ("", "One is called 'Europe/Berlin'."),
    ],
)
def test_case_40_zones_that_are_none_are_refused_with_the_closest(name, words):
    error = refusal("* * * * *", name)
    assert error.field == "timezone"
    assert words in error.message


@pytest.fixture
def no_zones():
    import zoneinfo

    zones._names.cache_clear()
    zoneinfo.reset_tzpath(to=[])
    yield
    zoneinfo.reset_tzpath()
    zones._names.cache_clear()


def test_case_40_without_the_system_s_zones_the_package_has_them(no_zones):
    assert shown([parse_cron("@daily", "Asia/Kathmandu").after(at("2027-01-01T00:00Z"))]) == ["2027-01-01 18:15Z"]


def test_case_40_without_any_zones_the_operator_is_told(no_zones, monkeypatch):
    monkeypatch.setattr(zones, "available_timezones", set)
    with pytest.raises(Unavailable, match="install the tzdata package"):
        parse_cron("@daily", "UTC")


def test_the_calendar_ends():
    cron = parse_cron("@daily", "Asia/Kathmandu")
    assert cron.after(at("9999-12-30T00:00Z")) is None
    assert cron.latest(at("0001-01-02T00:00Z")) is None
    assert cron.between(at("9999-12-20T00:00Z"), at("9999-12-31T00:00Z"), 99)


def test_a_moment_without_offset_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="no instant without its offset"):
        parse_cron("@daily", "UTC").after(datetime(2027, 1, 1))  # noqa: DTZ001


def test_two_of_the_same_are_equal():
    assert parse_cron(" 0  0 * * *", "UTC") == parse_cron("0 0 * * *", "UTC") != parse_cron("0 0 * * *", "Etc/UTC")
    assert parse_cron("0 0 * * *", "UTC").after(datetime(2027, 1, 1, tzinfo=UTC)).tzinfo is UTC
