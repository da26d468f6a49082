"""A lake's filters against values that a column's own type cannot hold, judged by exact arithmetic."""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest

from outhaul.data.catalog import Lake
from outhaul.data.lake_files import Listing
from outhaul.data.lake_query import Compiler
from outhaul.data.lake_types import live_column
from outhaul.domain.request import Comparison
from outhaul.errors import InvalidRequest

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
BIG = 10**38 - 1


def found(series: pl.Series, promised: pl.DataType, op: str, value) -> list:
    """The values for which a comparison is true."""
    compiler = Compiler({"v": live_column("v", series.dtype)}, {"v": series.dtype}, {"v": promised})
    frame = series.alias("v").to_frame()
    return frame.filter(compiler.condition(Comparison(column="v", op=op, value=value)))["v"].to_list()


@pytest.mark.parametrize("op", COMPARE)
@pytest.mark.parametrize(
    ("held", "dtype", "values"),
    [
        (["1.10", "0.00", "-1.10", "99.99"], pl.Decimal(4, 2), ["1.1", "1.101", "1.099", "-1.101", "1e30", "-1e-9"]),
        ([str(BIG), str(-BIG), "0"], pl.Decimal(38, 0), [str(BIG), "0.5", f"{BIG}9", f"-{BIG}9"]),
        ([127, -128, 0], pl.Int16(), [127, 128, 2**15, -(2**15), -(2**40), 2**63 - 1]),
        ([2**63 - 1, -(2**63), 0], pl.Int64(), [2**63 - 1, -(2**63), 1]),
    ],
)  # fmt: skip
def test_numbers_beyond_the_column(op, held, dtype, values):
    series = pl.Series([*(value if dtype.is_integer() else Decimal(value) for value in held), None], dtype=dtype)
    for value in values:
        right = [each for each in series.to_list() if each is not None and COMPARE[op](Fraction(each), Fraction(value))]
        missing = [None] if op == "!=" else []
        assert found(series, series.dtype, op, value) == [*right, *missing], value


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("op", COMPARE)
def test_moments_of_every_unit(op, unit):
    moments = [datetime(2026, 3, 29, 1, 0, 0, micros, UTC) for micros in (0, 1_000, 2_000)]
    series = pl.Series(moments, dtype=pl.Datetime(unit, "Europe/Berlin"))
    others = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 0, 0, 1_500, UTC),
    ]
    for value in [*moments, *others]:
        right = [each for each in moments if COMPARE[op](each, value)]
        assert found(series, pl.Datetime("us", "UTC"), op, value.isoformat()) == right, value


def test_a_nanosecond_counts():
    series = pl.Series([0, 1, 999, 1000], dtype=pl.Int64).cast(pl.Datetime("ns"))
    for op, rows in (("=", 1), (">", 3), (">=", 4), ("<=", 1)):
        assert len(found(series, pl.Datetime("us"), op, "1970-01-01T00:00:00")) == rows
    assert len(found(series, pl.Datetime("us"), "<", "1970-01-01T00:00:00.000001")) == 3


def test_a_column_promised_as_text():
    days = pl.Series([date(2026, 3, 29), date(926, 1, 1), None])
    assert found(days, pl.String(), "=", "2026-03-29") == [date(2026, 3, 29)]
    assert found(days, pl.String(), "<", "1") == [date(926, 1, 1)]
    assert found(days, pl.String(), "contains", "26-0") == [date(2026, 3, 29), date(926, 1, 1)]
    with pytest.raises(InvalidRequest, match="does not fit column 'v', which is date"):
        found(days, pl.String(), "=", "yesterday")


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [("ÄÖ", "äö", True), ("ΟΔΟΣ", "οδοσ", True), ("a.b", "A.B", True), ("axb", "A.B", False), ("a\nb", "A\nB", True),
     ("%", "_", False), ("\\", "\\", True), ("#é 😀-", "#É 😀-", True)],
)  # fmt: skip
def test_icontains(value, text, same):
    assert bool(found(pl.Series([value]), pl.String(), "icontains", text)) == same


def test_single_precision_is_rounded_as_postgresql_does():
    series = pl.Series([0.1, float("nan")], dtype=pl.Float32)
    assert len(found(series, pl.Float32(), "=", 0.1)) == 1
    assert len(found(series, pl.Float32(), ">", 0.1)) == 1
    for value in (1e300, 1e-300):
        with pytest.raises(InvalidRequest, match="out of range"):
            found(series, pl.Float32(), "<", value)


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    assert Lake(str(tmp_path / "later")).path
    (tmp_path / "later").mkdir()
    pl.DataFrame({"id": [1]}).write_parquet(tmp_path / "later" / "x.parquet")
    assert len(Listing.of(Lake(str(tmp_path / "later"))).files) == 1
