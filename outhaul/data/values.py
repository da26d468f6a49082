"""Filter values: what a column of each type may be compared with, as text that PostgreSQL and Polars read alike."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import polars as pl

from outhaul.domain.request import DAY_OPS, NULL_OPS, TEXT_OPS, Op
from outhaul.domain.zones import find_zone
from outhaul.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

EQUALITY = frozenset({Op.EQ, Op.NE, Op.IN, Op.NOT_IN})
ORDER = EQUALITY | {Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN}
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def operators(dtype: pl.DataType) -> frozenset[Op]:
    """The operators that a column of this type understands."""
    if dtype == pl.String:
        return NULL_OPS | ORDER | TEXT_OPS
    if dtype == pl.Boolean:
        return NULL_OPS | EQUALITY
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        return NULL_OPS | ORDER | DAY_OPS
    if dtype.is_numeric() or dtype == pl.Time:
        return NULL_OPS | ORDER
    return NULL_OPS


def literal(dtype: pl.DataType, value: Any, path: str) -> str:
    """A value of the request in the column's own notation. Raises InvalidRequest that names ``path``."""
    for fits, read in _READERS:
        if fits(dtype):
            try:
                text = read(value, dtype)
            except (ValueError, TypeError, OverflowError, InvalidOperation):
                break
            if "\x00" in text:
                raise InvalidRequest(path, "holds a NUL character, which no value in PostgreSQL can hold")
            return text
    raise InvalidRequest(path, f"{value!r} is not {_wanted(dtype)}")


def day(value: Any, path: str) -> date:
    """A calendar day of the request. Raises InvalidRequest that names ``path``."""
    return date.fromisoformat(literal(pl.Date(), value, path))


def days(value: Any, op: Op, path: str) -> tuple[date, date]:
    """The first and the last day that a day operator speaks of. Raises InvalidRequest."""
    if op is Op.ON and isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise InvalidRequest(path, "operator on needs a date, or a list of two dates, both inclusive")
        first, last = (day(each, f"{path}[{i}]") for i, each in enumerate(value))
        return first, last
    only = day(value, path)
    return only, only


def zone(name: str | None, path: str) -> ZoneInfo:
    """A time zone by its IANA name; UTC unless named. Raises InvalidRequest with the closest match."""
    return find_zone("UTC" if name is None else name, path)


def start_of(value: date, dtype: pl.DataType, in_zone: ZoneInfo) -> str:
    """The first moment of a day in the notation of a date, timestamp or timestamptz column.

    Only a timestamptz is an instant, so only there does the zone matter. Where a day has no midnight because clocks
    were put forward then, it begins when they were.
    """
    if dtype == pl.Date:
        return value.isoformat()
    midnight = datetime.combine(value, time())
    if dtype == pl.Datetime("us"):
        return midnight.isoformat(sep=" ")
    offset = midnight.replace(tzinfo=in_zone).utcoffset() or timedelta()
    return f"{(midnight - offset).isoformat(sep=' ')}+00"


def next_day(value: date, path: str) -> date:
    """The day after. Raises InvalidRequest at the end of the calendar."""
    try:
        return value + timedelta(days=1)
    except OverflowError:
        raise InvalidRequest(path, f"{value} is the last day that can be asked for with <=, not with on") from None


def _integer(value: Any, dtype: pl.DataType) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    bits = int(str(dtype).removeprefix("Int"))
    # A value beyond a narrow column's range still compares; one beyond 64 bits cannot be sent.
    if not -(2**63) <= value < 2**63:
        raise OverflowError(bits)
    return str(value)


def _decimal(value: Any, _: pl.DataType) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise TypeError
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if not number.is_finite():
        raise ValueError
    return format(number, "f")


def _floating(value: Any, _: pl.DataType) -> str:
    if isinstance(value, str):
        if value not in {"NaN", "Infinity", "-Infinity"}:
            raise ValueError
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def _text(value: Any, _: pl.DataType) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # lone surrogates are no text
    return value


def _boolean(value: Any, _: pl.DataType) -> str:
    if not isinstance(value, bool):
        raise TypeError
    return str(value).lower()


def _date(value: Any, _: pl.DataType) -> str:
    if isinstance(value, str) and _ISO_DATE.fullmatch(value):
        value = date.fromisoformat(value)
    if type(value) is not date:
        raise TypeError
    return value.isoformat()


def _moment(value: Any, dtype: pl.DataType) -> str:
    assert isinstance(dtype, pl.Datetime)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or (moment.tzinfo is None) != (dtype.time_zone is None):
        raise TypeError
    return moment.isoformat(sep=" ")


def _clock(value: Any, _: pl.DataType) -> str:
    clock = time.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(clock, time) or clock.tzinfo is not None:
        raise TypeError
    return clock.isoformat()


def _wanted(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is None:
            return "a date and time without offset, such as 2026-06-30T12:00:00"
        return "a date and time with offset, such as 2026-06-30T12:00:00Z"
    if dtype.is_integer():
        return "a whole number of at most 64 bits"
    return next(words for fits, words in _WANTED if fits(dtype))


_READERS: tuple[tuple[Callable[[pl.DataType], bool], Callable[[Any, pl.DataType], str]], ...] = (
    (lambda t: t.is_integer(), _integer),
    (lambda t: t.is_decimal(), _decimal),
    (lambda t: t.is_float(), _floating),
    (lambda t: t == pl.String, _text),
    (lambda t: t == pl.Boolean, _boolean),
    (lambda t: t == pl.Date, _date),
    (lambda t: isinstance(t, pl.Datetime), _moment),
    (lambda t: t == pl.Time, _clock),
)
_WANTED: tuple[tuple[Callable[[pl.DataType], bool], str], ...] = (
    (lambda t: t.is_numeric(), "a number"),
    (lambda t: t == pl.String, "a text"),
    (lambda t: t == pl.Boolean, "true or false"),
    (lambda t: t == pl.Date, "a date such as 2026-06-30"),
    (lambda t: t == pl.Time, "a time of day such as 12:30:00"),
    (lambda _: True, "a value that this column can be compared with"),
)
