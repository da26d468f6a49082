"""Cron fields in words that are exact: what is due, not how it was written."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from cronsim import CronSim

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

EVERY_DAY = "every day"
MOST_TIMES = 6  # that are written out
NUMBERS = [str(n) for n in range(60)]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
MONTHS += ["November", "December"]
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 5: "5th", CronSim.LAST: "last"}


def describe(rule: CronSim) -> str:
    """When ``rule`` is due: "at 07:30 on day 11 or on Tuesday, in June only"."""
    days = _days(rule)
    # What is due in every hour need not be said to be due every day.
    words = " ".join([_times(rule.minutes, rule.hours)] + [days] * (days != EVERY_DAY or len(rule.hours) < 24))
    return words if len(rule.months) == 12 else f"{words}, in {_values(rule.months, MONTHS)} only"


def _times(minutes: Collection[int], hours: Collection[int]) -> str:
    if len(minutes) * len(hours) <= MOST_TIMES:
        times = [f"{hour:02}:{minute:02}" for hour in sorted(hours) for minute in sorted(minutes)]
        return f"at {_join(times)}"
    every = len(minutes) == 60
    if every and len(hours) == 24:
        return "every minute"
    past = "every minute" if every else f"at {_plural('minute', minutes)} {_values(minutes)}"
    return f"{past} of every hour" if len(hours) == 24 else f"{past} of {_plural('hour', hours)} {_values(hours)}"


def _days(rule: CronSim) -> str:
    """The days; both day fields must agree if either began with a star, else one is enough."""
    all_of_month = rule.days.issuperset(range(1, 32))
    all_of_week = {n % 7 for n in rule.weekdays if isinstance(n, int)} == set(range(7))
    if (all_of_month and all_of_week) or ((all_of_month or all_of_week) and not rule.day_and):
        return EVERY_DAY
    if all_of_month:
        return f"on {_weekdays(rule, 'and')}"
    if all_of_week:
        return f"on {_of_month(rule)}"
    if rule.day_and:
        return f"on {_of_month(rule)} when that is {_weekdays(rule, 'or')}"
    return f"on {_of_month(rule)} or on {_weekdays(rule, 'or')}"


def _of_month(rule: CronSim) -> str:
    numbers = {n for n in rule.days if n > 0}
    words = [f"{_plural('day', numbers)} {_values(numbers)}"] if numbers else []
    words += ["the last day of the month"] if CronSim.LAST in rule.days else []
    words += ["the last Monday to Friday of the month"] if CronSim.LAST_WEEKDAY in rule.days else []
    return _join(words)


def _weekdays(rule: CronSim, joint: str) -> str:
    """Weekdays from Monday on, then those of which a month has only one."""
    plain = {(n - 1) % 7 for n in rule.weekdays if isinstance(n, int)}
    single = sorted((nth, (n - 1) % 7) for n, nth in (each for each in rule.weekdays if isinstance(each, tuple)))
    words = [_values(plain, WEEKDAYS, joint)] if plain else []
    words += [f"the {ORDINALS[nth]} {WEEKDAYS[n]} of the month" for nth, n in single]
    return _join(words, joint)


def _values(values: Collection[int], names: Sequence[str] = NUMBERS, joint: str = "and") -> str:
    """Numbers or their names: "1, 3 to 5 and 9", or "0, 7, ... 56" for five or more at even distances."""
    ordered = sorted(values)
    steps = {after - before for before, after in pairwise(ordered)}
    if len(ordered) > 4 and len(steps) == 1 and steps != {1}:
        return f"{names[ordered[0]]}, {names[ordered[1]]}, ... {names[ordered[-1]]}"
    words: list[str] = []
    while ordered:
        run = next(n for n in range(len(ordered), 0, -1) if ordered[n - 1] - ordered[0] == n - 1)
        run = run if run > 2 else 1
        words.append(f"{names[ordered[0]]} to {names[ordered[run - 1]]}" if run > 1 else f"{names[ordered[0]]}")
        ordered = ordered[run:]
    return _join(words, joint)


def _plural(noun: str, values: Collection[int]) -> str:
    return noun if len(values) == 1 else f"{noun}s"


def _join(words: Sequence[str], joint: str = "and") -> str:
    *rest, last = words
    return f"{', '.join(rest)} {joint} {last}" if rest else last
