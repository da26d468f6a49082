"""Values as PostgreSQL itself prints them, and as fragments of JSON.

Each function takes a column as it arrives on the wire and returns it as text. The usual values of a column are
formatted by Polars at full speed; the few that Polars prints differently, or cannot hold, are formatted one by one.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_US = 86_400_000_000
EPOCH_DAYS = 719_162  # days from 0001-01-01 to 1970-01-01
# ADBC moves PostgreSQL's count from its own epoch, 2000-01-01, to 1970 and lets the integer wrap around. What lies
# below PostgreSQL's first day, 4714-11-24 BC, has therefore wrapped: an infinity, or a year too far for 64 bits.
FIRST_DAY = -2_440_588
FIRST_US = FIRST_DAY * DAY_US
_EPOCH_SHIFT_DAYS = 10_957
_EPOCH_SHIFT_US = _EPOCH_SHIFT_DAYS * DAY_US
INFINITE_US = {
    2**63 - 1 + _EPOCH_SHIFT_US - 2**64: "infinity",
    -(2**63) + _EPOCH_SHIFT_US: "-infinity",
}
INFINITE_DAYS = {
    2**31 - 1 + _EPOCH_SHIFT_DAYS - 2**32: "infinity",
    -(2**31) + _EPOCH_SHIFT_DAYS: "-infinity",
}
YEAR_1_DAY = -EPOCH_DAYS
YEAR_10000_DAY = 2_932_897


def boolean(column: pl.Series) -> pl.Series:
    """Print ``t`` or ``f``."""
    return column.cast(pl.String).str.slice(0, 1)


def plain(column: pl.Series) -> pl.Series:
    """Print what needs no care: integers and text."""
    return column.cast(pl.String)


def numeric(column: pl.Series) -> pl.Series:
    """Spell the three values that are no numbers as PostgreSQL does; digits arrive as they are."""
    odd = column.str.contains("n", literal=True)
    if not odd.any():
        return column
    return column.replace({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"})


def floating(column: pl.Series) -> pl.Series:
    """Print the shortest digits that read back as the same number, with PostgreSQL's exponents."""
    digits = column.cast(pl.String)
    size = column.abs()
    number, upper = (np.float64, 1e15) if column.dtype == pl.Float64 else (np.float32, 1e6)
    usual = ((size >= 1e-4) & (size < upper)) | (size == 0)
    return _replace(digits.str.strip_suffix(".0"), ~usual, column, lambda value: _scientific(value, number))


def bytea(column: pl.Series) -> pl.Series:
    r"""Print ``\x`` and two hexadecimal digits a byte."""
    return "\\x" + column.bin.encode("hex")


def uuid(column: pl.Series) -> pl.Series:
    """Print the usual five groups in lower case."""
    present = column.drop_nulls()
    raw = present.to_arrow().cast(pa.binary(16))
    numbers = np.frombuffer(raw.buffers()[1], dtype=">u2", count=8 * len(raw), offset=16 * raw.offset)
    digits = _HEX[numbers].view(np.uint8).reshape(len(raw), 32)
    out = np.full((len(raw), 36), ord("-"), dtype=np.uint8)
    for at, (start, end) in _UUID_GROUPS.items():
        out[:, at : at + end - start] = digits[:, start:end]
    return _back(_fixed(out), column)


_HEX = np.array([f"{pair:04x}" for pair in range(1 << 16)], dtype="S4").view("<u4").reshape(1 << 16)
_UUID_GROUPS = {0: (0, 8), 9: (8, 12), 14: (12, 16), 19: (16, 20), 24: (20, 32)}


def _fixed(chars: np.ndarray) -> pl.Series:
    """Text of rows of ASCII characters."""
    count, width = chars.shape
    offsets = np.arange(0, width * (count + 1), width, dtype=np.int64)
    array = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(chars))
    return pl.Series(array, dtype=pl.String)


def _back(text: pl.Series, column: pl.Series) -> pl.Series:
    """Text of the values of ``column``, with its NULLs between them."""
    text = text.alias(column.name)
    if len(text) == len(column):
        return text
    where = column.is_not_null().arg_true()
    return pl.Series(column.name, [None], dtype=pl.String).new_from_index(0, len(column)).scatter(where, text)


def date(column: pl.Series) -> pl.Series:
    """Print ``2026-02-03``, ``0044-03-15 BC`` or ``infinity``."""
    usual = column.is_between(YEAR_1_DAY, YEAR_10000_DAY, closed="left")
    text = column.set(~usual, 0).cast(pl.Date).cast(pl.String)
    return _replace(text, ~usual, column, _date)


def time(column: pl.Series) -> pl.Series:
    """Print ``04:05:06.789``, or ``24:00:00``, which PostgreSQL allows."""
    text = _trim(column.cast(pl.Datetime("us")).cast(pl.String).str.slice(11))
    return _replace(text, column >= DAY_US, column, lambda _: "24:00:00")


def timestamp(column: pl.Series) -> pl.Series:
    """Print ``2026-02-03 04:05:06.789``."""
    return _timestamp(column, " ", "")


def timestamptz(column: pl.Series) -> pl.Series:
    """Print ``2026-02-03 04:05:06.789+00``."""
    return _timestamp(column, " ", "+00")


def date_as(column: pl.Series, pattern: str) -> pl.Series:
    """Print dates by a strftime pattern; what has no such form stays as PostgreSQL prints it."""
    usual = column.is_between(YEAR_1_DAY, YEAR_10000_DAY, closed="left")
    text = column.set(~usual, 0).cast(pl.Date).dt.to_string(pattern)
    return _replace(text, ~usual, column, _date)


def timestamp_as(column: pl.Series, pattern: str, *, zoned: bool) -> pl.Series:
    """Print timestamps by a strftime pattern, where ``%f`` is microseconds; ``%z`` is empty without a zone."""
    form = pattern.replace("%f", "%6f") if zoned else re.sub("%[zZ]", "", pattern.replace("%f", "%6f"))
    usual = column.is_between(YEAR_1_DAY * DAY_US, YEAR_10000_DAY * DAY_US, closed="left")
    text = column.set(~usual, 0).cast(pl.Datetime("us", "UTC" if zoned else None)).dt.to_string(form)
    return text.zip_with(usual.fill_null(value=True), timestamptz(column) if zoned else timestamp(column))


def json_boolean(column: pl.Series) -> pl.Series:
    """Print ``true`` or ``false``."""
    return column.cast(pl.String)


def json_numeric(column: pl.Series) -> pl.Series:
    """Print every digit as a bare number; NaN and the infinities are strings."""
    return _quote_words(numeric(column))


def json_floating(column: pl.Series) -> pl.Series:
    """Print a number that reads back the same and stays a float; NaN and the infinities are strings."""
    text = column.cast(pl.String)
    if column.is_finite().all():
        return text
    return _quote_words(text.replace({"inf": "Infinity", "-inf": "-Infinity"}))


def json_text(column: pl.Series) -> pl.Series:
    """Escape what may not stand in a string of JSON."""
    if not column.str.contains(r'["\\\x00-\x1f]').any():
        return column
    encoded = column.alias("t").to_frame().select(pl.struct("t").struct.json_encode()).to_series()
    text = encoded.str.slice(6).str.strip_suffix('"}').alias(column.name)
    return text.set(column.is_null(), None)


def json_timestamp(column: pl.Series) -> pl.Series:
    """Print ``2026-02-03T04:05:06.789``, as PostgreSQL's own JSON does."""
    return _timestamp(column, "T", "")


def json_timestamptz(column: pl.Series) -> pl.Series:
    """Print ``2026-02-03T04:05:06.789+00:00``, as PostgreSQL's own JSON does."""
    return _timestamp(column, "T", "+00:00")


def json_bytea(column: pl.Series) -> pl.Series:
    r"""Print ``\\x00ff``, as PostgreSQL's own JSON does."""
    return "\\\\x" + column.bin.encode("hex")


def quoted(column: pl.Series) -> pl.Series:
    """Put text between the quotes of a string of JSON."""
    return '"' + column + '"'


def _timestamp(column: pl.Series, separator: Literal[" ", "T"], zone: str) -> pl.Series:
    usual = column.is_between(YEAR_1_DAY * DAY_US, YEAR_10000_DAY * DAY_US, closed="left")
    text = _back(_trim(_fixed(_moment(column.set(~usual, 0).drop_nulls().to_numpy(), separator))), column)
    if zone:
        text = text + zone

    def unusual(us: int) -> str:
        if us in INFINITE_US:
            return INFINITE_US[us]
        days, rest = divmod(us if us >= FIRST_US else us + 2**64, DAY_US)
        seconds, micros = divmod(rest, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        day, era = _calendar(days)
        return f"{day}{separator}{clock}{fraction}{zone}{era}"

    return _replace(text, ~usual, column, unusual)


def _moment(us: np.ndarray, separator: str) -> np.ndarray:
    """``2026-02-03 04:05:06.789000`` for years of four digits, as rows of ASCII characters."""
    days = us // DAY_US
    rest = us - days * DAY_US
    seconds = rest // 1_000_000
    micros = rest - seconds * 1_000_000
    minutes, hundreds = seconds // 60, micros // 100
    hours = minutes // 60
    different, places = np.unique(days, return_inverse=True)
    out = np.empty(len(us), dtype=_MOMENT)
    out.view("S26")[:] = f"0000-00-00{separator}00:00:00.000000".encode()
    out["day"] = different.astype("datetime64[D]").astype("S10").view("V10")[places]
    out["hour"] = _PAIRS[hours]
    out["minute"] = _PAIRS[minutes - hours * 60]
    out["second"] = _PAIRS[seconds - minutes * 60]
    out["hundreds"] = _FOURS[hundreds]
    out["micros"] = _PAIRS[micros - hundreds * 100]
    return out.view(np.uint8).reshape(len(us), 26)


_PAIRS = np.array([f"{number:02}" for number in range(100)], dtype="S2").view("<u2")
_FOURS = np.array([f"{number:04}" for number in range(10_000)], dtype="S4").view("<u4")
_MOMENT = np.dtype(
    {
        "names": ["day", "hour", "minute", "second", "hundreds", "micros"],
        "formats": ["V10", "<u2", "<u2", "<u2", "<u4", "<u2"],
        "offsets": [0, 11, 14, 17, 20, 24],
        "itemsize": 26,
    }
)


def _date(days: int) -> str:
    if days in INFINITE_DAYS:
        return INFINITE_DAYS[days]
    return "".join(_calendar(days if days >= FIRST_DAY else days + 2**32))


def _calendar(days: int) -> tuple[str, str]:
    """The proleptic Gregorian day ``days`` after 1970-01-01, and `` BC`` for years before the first."""
    # Count from 1 March of year 0, so that the leap day ends a year and each block of 400 years is alike.
    era, day = divmod(days + 719_468, 146_097)
    year_of_era = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day_of_year = day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    text = f"{year if year > 0 else 1 - year:04}-{month:02}-{day_of_year - (153 * shifted_month + 2) // 5 + 1:02}"
    return text, "" if year > 0 else " BC"


def _scientific(value: float, number: type[np.float64 | np.float32]) -> str:
    """Print a float in PostgreSQL's exponent form: the fewest digits that read back, and among those the closest.

    PostgreSQL leaves out digits that lie exactly between two floats, though most readers would round them right. Below
    2**53 and beyond 1e41 (2**24 and 1e20 for single precision) no such digits are short enough to matter.
    """
    if not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    # Digits of the shortest form, which numpy and Python agree on.
    text = np.format_float_scientific(number(value), trim="-", exp_digits=2)
    least, most = (2**53, 1e41) if number is np.float64 else (2**24, 1e20)
    if least <= abs(value) < most:
        here = number(value)
        below, above = (Fraction(float(np.nextafter(here, number(end)))) for end in (-math.inf, math.inf))
        bounds = {(Fraction(value) + below) / 2, (Fraction(value) + above) / 2}
        digits = len(text.partition("e")[0].strip("-").replace(".", ""))
        while Fraction(text) in bounds:
            text = f"{value:.{digits}e}"
            digits += 1
    return text


def _trim(text: pl.Series) -> pl.Series:
    """Drop trailing zeros of a fraction of seconds, which every value has."""
    return text.str.strip_chars_end("0").str.strip_suffix(".")


def _quote_words(text: pl.Series) -> pl.Series:
    return text.replace({word: f'"{word}"' for word in ("NaN", "Infinity", "-Infinity")})


def _replace(text: pl.Series, where: pl.Series, source: pl.Series, form: Callable[..., str]) -> pl.Series:
    """Put ``form`` of the values of ``source`` in the places where ``where`` holds."""
    places = where.fill_null(value=False).arg_true()
    if places.is_empty():
        return text
    return text.scatter(places, [form(value) for value in source.gather(places)])
