"""What a column of Parquet files is in PostgreSQL's terms, and its way to the wire form that the writers know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from outhaul.data import text
from outhaul.data.pgtypes import LiveColumn
from outhaul.errors import UnrepresentableValue

if TYPE_CHECKING:
    from collections.abc import Callable

# What PostgreSQL puts in quotes inside an array.
QUOTED = r'(?i)^(null)?$|[{}",\\\s]'
PER_US = {"ns": 1000, "us": 1}
TYPES: dict[type[pl.DataType], tuple[str, pa.DataType]] = {
    pl.Boolean: ("bool", pa.bool_()),
    pl.Int16: ("int2", pa.int16()),
    pl.Int32: ("int4", pa.int32()),
    pl.Int64: ("int8", pa.int64()),
    pl.Float32: ("float4", pa.float32()),
    pl.Float64: ("float8", pa.float64()),
    pl.Decimal: ("numeric", pa.string()),
    pl.String: ("text", pa.string()),
    pl.Binary: ("bytea", pa.binary()),
    pl.Date: ("date", pa.date32()),
    pl.Time: ("time", pa.time64("us")),
}
# Types that PostgreSQL lacks, and the one that holds all their values.
HOLDERS: dict[type[pl.DataType], pl.DataType] = {
    pl.Int8: pl.Int16(),
    pl.UInt8: pl.Int16(),
    pl.UInt16: pl.Int32(),
    pl.UInt32: pl.Int64(),
    pl.UInt64: pl.Decimal(20, 0),
    pl.Float16: pl.Float32(),
    pl.Categorical: pl.String(),
    pl.Enum: pl.String(),
    pl.Null: pl.String(),
}


def held(dtype: pl.DataType) -> pl.DataType:
    """The type with a counterpart in PostgreSQL that holds every value of ``dtype``."""
    if isinstance(dtype, (pl.List, pl.Array)):
        return pl.List(held(_instance(dtype.inner)))
    if isinstance(dtype, pl.BaseExtension):
        return held(_instance(dtype.ext_storage()))
    return HOLDERS.get(type(dtype), dtype)


def holding(name: str, dtype: pl.DataType) -> pl.Expr:
    """A column in the type that holds it."""
    column = pl.col(name)
    if isinstance(dtype, pl.BaseExtension):
        column, dtype = column.ext.storage(), _instance(dtype.ext_storage())
    return column if held(dtype) == dtype else column.cast(held(dtype))


def live_column(name: str, dtype: pl.DataType, arrow: pa.DataType | None = None) -> LiveColumn:
    """A column as PostgreSQL would have it; of Arrow's type null if there is no such type.

    Args:
        name: of the column.
        dtype: how Polars reads it.
        arrow: its Arrow type, which alone tells UUIDs and documents from other bytes and text.
    """
    if isinstance(dtype, (pl.List, pl.Array)):
        inner = live_column("element", _instance(dtype.inner))
        if pa.types.is_null(inner.arrow) or pa.types.is_list(inner.arrow):
            return LiveColumn(name, str(dtype), -1, pa.null())
        metadata = {"POSTGRESQL:type": inner.typname, "POSTGRESQL:typmod": str(inner.typmod)}
        return LiveColumn(name, f"_{inner.typname}", -1, pa.list_(pa.field("element", inner.arrow, metadata=metadata)))
    if isinstance(arrow, pa.UuidType):
        return LiveColumn(name, "uuid", -1, pa.binary(16))
    if isinstance(arrow, pa.JsonType):
        return LiveColumn(name, "json", -1, pa.string())
    dtype = held(dtype)
    if isinstance(dtype, pl.Datetime):
        zone = "UTC" if dtype.time_zone else None
        return LiveColumn(name, "timestamptz" if zone else "timestamp", -1, pa.timestamp("us", zone))
    typname, kind = TYPES.get(type(dtype), (str(dtype), pa.null()))
    typmod = (dtype.precision << 16 | dtype.scale) + 4 if isinstance(dtype, pl.Decimal) else -1
    return LiveColumn(name, typname, typmod, kind)


def to_wire(name: str, values: pl.Series) -> pl.Series:
    """Values of a held type as they would arrive from PostgreSQL; lists stay lists.

    Raises:
        UnrepresentableValue: naming the column, for what no PostgreSQL type holds: fractions of microseconds, and days
            before 4714-11-24 BC.
    """
    dtype = values.dtype
    if isinstance(dtype, pl.List):
        return each(values, lambda inner: to_wire(name, inner))
    if isinstance(dtype, pl.Decimal):
        return values.cast(pl.String)
    if dtype == pl.Date:
        days = values.to_physical()
        _refuse(name, values, days < text.FIRST_DAY)
        return days
    if dtype == pl.Time:
        return _micros(name, values, "ns")
    if not isinstance(dtype, pl.Datetime):
        return values
    if dtype.time_unit == "ms":
        finest = values.to_physical()
        _refuse(name, values, (finest < text.FIRST_US // 1000) | (finest > (2**63 - 1) // 1000))
        return finest * 1000
    micros = _micros(name, values, dtype.time_unit)
    _refuse(name, values, micros < text.FIRST_US)
    return micros


def printed(live: LiveColumn, values: pl.Series) -> pl.Series:
    """Values of a held type as PostgreSQL prints them."""
    wire = to_wire(live.name, values)
    element = live.element
    if element is None:
        return live.type.text(wire)

    def item(inner: pl.Series) -> pl.Series:
        words = element.type.text(inner)
        escaped = '"' + words.str.replace_all(r'(["\\])', r"\$1") + '"'
        return escaped.zip_with(words.str.contains(QUOTED), words).fill_null("NULL")

    return _joined(wire, item, "{", "}")


def documents(live: LiveColumn, values: pl.Series) -> pl.Series:
    """Lists as PostgreSQL's ``to_json`` prints arrays."""
    element = live.element
    assert element is not None
    form = element.type.fragment
    if element.typname in {"float4", "float8"}:  # in an array it prints whole numbers without a point
        return _joined(
            to_wire(live.name, values),
            lambda inner: text.json_numeric(text.floating(inner)).fill_null("null"),
            "[",
            "]",
        )
    return _joined(to_wire(live.name, values), lambda inner: form(inner).fill_null("null"), "[", "]")


def each(lists: pl.Series, form: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Lists with their elements changed."""
    array: Any = lists.rechunk().to_arrow()
    made = form(pl.Series(array.values, dtype=lists.dtype.inner))  # type: ignore[attr-defined]
    rebuilt = pa.LargeListArray.from_arrays(array.offsets, made.to_arrow(), mask=array.is_null())
    return pl.Series(lists.name, rebuilt, dtype=pl.List(made.dtype))


def _joined(lists: pl.Series, form: Callable[[pl.Series], pl.Series], start: str, end: str) -> pl.Series:
    return start + each(lists, form).list.join(",") + end


def _micros(name: str, values: pl.Series, unit: str) -> pl.Series:
    finest = values.to_physical()
    per = PER_US[unit]
    _refuse(name, values, finest % per != 0)
    return finest // per


def _refuse(name: str, values: pl.Series, wrong: pl.Series) -> None:
    if wrong.any():
        first = values.filter(wrong).to_physical()[0]
        raise UnrepresentableValue(
            f"Column {name!r} holds a value that no type of PostgreSQL can hold: {first} as {values.dtype}. Times are "
            "exact to the microsecond, and begin in 4714 BC."
        )


def _instance(dtype: Any) -> pl.DataType:
    made: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return made
