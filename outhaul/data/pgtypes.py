"""The one table of PostgreSQL's types: how each leaves the database, what Parquet makes of it, how it is printed.

What ADBC does not decode exactly is turned to text by PostgreSQL itself, which is exact. A type that stands nowhere in
the table travels as text, too. An array is a list in Parquet if ADBC decodes its elements exactly. ``docs/types.md`` is
made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from outhaul.data import text
from outhaul.domain.job import Format

if TYPE_CHECKING:
    from collections.abc import Callable

    Form = Callable[[pl.Series], pl.Series]

MAX_DIGITS = 38  # what readers of Parquet decimals stop at

# The type's own output function, which a cast to text is not for every type: inet, bpchar and bool print differently.
OUTPUT = "CASE WHEN {0} IS NOT NULL THEN pg_catalog.format('%s', {0}) END"
CAST = "CAST({0} AS pg_catalog.text)"
ENDLESS = "`infinity`, `-infinity`"
LATE = "what is later than `294247-01-10 04:00:54.775807`"
# Lists in Parquet have one dimension that starts at 1; other arrays are set aside as text.
FLAT = "pg_catalog.cardinality({0}) = 0 OR pg_catalog.array_ndims({0}) = 1 AND pg_catalog.array_lower({0}, 1) = 1"


def _same(column: pl.Series, target: pl.DataType) -> pl.Series:
    return column.cast(target)


def _decimal(column: pl.Series, target: pl.DataType) -> pl.Series:
    """Digits to decimals; NULL for what has more digits after the point, or before it, than the type."""
    assert isinstance(target, pl.Decimal)
    value = column.cast(target, strict=False)
    places = column.str.len_bytes() - column.str.find(".", literal=True) - 1
    if (places > target.scale).any():
        places = column.str.extract(r"\.(\d*?)0*$").str.len_bytes().fill_null(0)  # zeros at the end are no digits lost
        return value.set(places > target.scale, None)
    return value


def _date(column: pl.Series, target: pl.DataType) -> pl.Series:
    return column.set(column < text.FIRST_DAY, None).cast(target)


def _timestamp(column: pl.Series, target: pl.DataType) -> pl.Series:
    return column.set(column < text.FIRST_US, None).cast(target)


def _time(column: pl.Series, target: pl.DataType) -> pl.Series:
    return (column.set(column >= text.DAY_US, None) * 1000).cast(target)


def _uuid(column: pl.Series, target: pl.DataType) -> pl.Series:
    return text.uuid(column).cast(target)


def _one_line(column: pl.Series) -> pl.Series:
    """Documents without their line breaks, which are raw only between the parts of a document."""
    return column.str.replace_all(r"[\r\n]", " ")


@dataclass(frozen=True, slots=True)
class PgType:
    """How values of one type travel.

    Attributes:
        name: what people call the type.
        arrow: whether ADBC's Arrow type is the expected one; if not, a user's type bears a built-in's name.
        dtype: the Polars type, from the type modifier.
        text: from the wire to what ``COPY`` prints.
        json: from the wire to a value of JSON; with ``in_quotes``, to what stands between its quotes.
        typed: from the wire to a Polars type; NULL stands for values that the type cannot hold.
        operand: the SQL type that filter values are cast to; without one, values are compared as text.
        project: the SQL that puts a column on the wire; ``json_project``, where JSON needs another.
        lacks: the values that the Polars and Parquet type cannot hold, in words.
    """

    name: str
    arrow: Callable[[pa.DataType], bool]
    dtype: Callable[[int], pl.DataType]
    text: Form
    json: Form
    typed: Callable[[pl.Series, pl.DataType], pl.Series] = _same
    operand: str = ""
    project: str = "{0}"
    json_project: str = ""
    lacks: str = ""
    in_quotes: bool = False

    def fragment(self, wire: pl.Series) -> pl.Series:
        """From the wire to whole values of JSON; NULL stays NULL."""
        return text.quoted(self.json(wire)) if self.in_quotes else self.json(wire)

    @property
    def partial(self) -> bool:
        """Whether there are values that the Polars and Parquet type cannot hold."""
        return bool(self.lacks)


def _numeric_dtype(typmod: int) -> pl.DataType:
    if typmod < 0:
        return pl.String()
    precision = (typmod - 4) >> 16 & 0xFFFF
    scale = ((typmod - 4 & 0x7FF) ^ 1024) - 1024  # eleven bits, signed
    precision, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    return pl.Decimal(precision, scale) if precision <= MAX_DIGITS else pl.String()


def _always(dtype: pl.DataType) -> Callable[[int], pl.DataType]:
    return lambda _typmod: dtype


def _integer(name: str, arrow: pa.DataType, dtype: pl.DataType, project: str = "{0}") -> PgType:
    return PgType(name, arrow.equals, _always(dtype), text.plain, text.plain, operand="int8", project=project)


def _textual(name: str, operand: str = "text") -> PgType:
    dtype = _always(pl.String())
    return PgType(name, pa.types.is_string, dtype, text.plain, text.json_text, operand=operand, in_quotes=True)


def _printed(name: str, project: str = OUTPUT) -> PgType:
    dtype = _always(pl.String())
    return PgType(name, lambda _: True, dtype, text.plain, text.json_text, project=project, in_quotes=True)


def _document(name: str) -> PgType:
    return PgType(name, lambda _: True, _always(pl.String()), text.plain, _one_line)


def _nested(name: str, project: str = CAST) -> PgType:
    return PgType(
        name,
        lambda _: True,
        _always(pl.String()),
        text.plain,
        _one_line,
        project=project,
        json_project="CAST(pg_catalog.to_json({0}) AS pg_catalog.text)",
    )


def _moment(name: str, dtype: pl.DataType, form: Form, json: Form, arrow: Callable[[pa.DataType], bool]) -> PgType:
    lacks = f"{ENDLESS}, {LATE}"
    return PgType(name, arrow, _always(dtype), form, json, _timestamp, operand=name, lacks=lacks, in_quotes=True)


TEXT = _printed("text of any other type")
# What ADBC cannot even name: ranges and their arrays, and types without a binary form.
UNNAMED = _nested("unnamed", OUTPUT)
ENUM = _textual("enum", operand="")
COMPOSITE = _nested("composite")
ARRAY = _nested("array")

TYPES: dict[str, PgType] = {
    "bool": PgType("bool", pa.types.is_boolean, _always(pl.Boolean()), text.boolean, text.json_boolean, operand="bool"),
    "int2": _integer("int2", pa.int16(), pl.Int16()),
    "int4": _integer("int4", pa.int32(), pl.Int32()),
    "int8": _integer("int8", pa.int64(), pl.Int64()),
    # ADBC reads the unsigned number as a signed one.
    "oid": _integer("oid", pa.int32(), pl.Int64(), project="CAST({0} AS pg_catalog.int8)"),
    "float4": PgType(
        "float4", pa.types.is_float32, _always(pl.Float32()), text.floating, text.json_floating, operand="float4"
    ),
    "float8": PgType(
        "float8", pa.types.is_float64, _always(pl.Float64()), text.floating, text.json_floating, operand="float8"
    ),
    "numeric": PgType(
        "numeric",
        lambda _: True,
        _numeric_dtype,
        text.numeric,
        text.json_numeric,
        _decimal,
        operand="numeric",
        project=CAST,  # as exact as what ADBC makes of it, in a fraction of the time
        lacks="`NaN`, `Infinity`, `-Infinity`",
    ),
    "text": _textual("text"),
    "varchar": _textual("varchar"),
    "bpchar": _textual("bpchar", operand="bpchar"),
    "name": _textual("name"),
    "char": _printed("char"),
    "bytea": PgType(
        "bytea",
        pa.types.is_binary,
        _always(pl.Binary()),
        text.bytea,
        text.json_bytea,
        operand="bytea",
        in_quotes=True,
    ),
    "uuid": PgType(
        "uuid", lambda _: True, _always(pl.String()), text.uuid, text.uuid, _uuid, operand="uuid", in_quotes=True
    ),
    "date": PgType(
        "date",
        pa.types.is_date32,
        _always(pl.Date()),
        text.date,
        text.date,
        _date,
        operand="date",
        lacks=ENDLESS,
        in_quotes=True,
    ),
    "time": PgType(
        "time",
        pa.types.is_time64,
        _always(pl.Time()),
        text.time,
        text.time,
        _time,
        operand="time",
        lacks="`24:00:00`",
        in_quotes=True,
    ),
    "timestamp": _moment(
        "timestamp", pl.Datetime("us"), text.timestamp, text.json_timestamp, lambda t: t == pa.timestamp("us")
    ),
    "timestamptz": _moment(
        "timestamptz",
        pl.Datetime("us", "UTC"),
        text.timestamptz,
        text.json_timestamptz,
        lambda t: t == pa.timestamp("us", "UTC"),
    ),
    "json": _document("json"),
    "jsonb": _document("jsonb"),
}


@dataclass(frozen=True, slots=True)
class LiveColumn:
    """A column as the source has it now; ``typname`` is PostgreSQL's own name of its type."""

    name: str
    typname: str
    typmod: int
    arrow: pa.DataType

    @classmethod
    def of(cls, field: pa.Field) -> LiveColumn:
        """Read what ADBC says about a column."""
        metadata = field.metadata or {}
        return cls(
            field.name,
            metadata.get(b"POSTGRESQL:type", b"").decode(),
            int(metadata.get(b"POSTGRESQL:typmod", b"-1")),
            field.type,
        )

    @property
    def type(self) -> PgType:
        """The entry of the table that governs this column."""
        if pa.types.is_list(self.arrow):
            return ARRAY
        if pa.types.is_struct(self.arrow):
            return COMPOSITE
        if self.typname.startswith("unnamed<"):
            return UNNAMED
        listed = TYPES.get(self.typname)
        if listed is not None:
            return listed if listed.arrow(self.arrow) else TEXT
        return ENUM if pa.types.is_string(self.arrow) else TEXT

    @property
    def element(self) -> LiveColumn | None:
        """The elements of an array that can be a list; its type modifier is not known."""
        if not pa.types.is_list(self.arrow):
            return None
        element = LiveColumn.of(self.arrow.value_field)
        exact = element.type.project == "{0}" or element.type is TYPES["numeric"]  # alone, it is text for speed only
        return element if exact else None

    @property
    def dtype(self) -> pl.DataType:
        """The Polars type that holds the column's values."""
        return pl.List(self.element.dtype) if self.element else self.type.dtype(self.typmod)

    @property
    def pg(self) -> str:
        """The type in PostgreSQL's words."""
        if self.typname == "numeric" and self.typmod >= 0:
            precision, scale = (self.typmod - 4) >> 16 & 0xFFFF, ((self.typmod - 4 & 0x7FF) ^ 1024) - 1024
            return f"numeric({precision},{scale})"
        if self.type is ARRAY and self.typname.startswith("_"):
            return self.typname[1:] + "[]"
        return self.typname

    def printed(self, sql: str) -> str:
        """The SQL for the column's values as text."""
        exact = pa.types.is_string(self.arrow) or self.type in (ARRAY, COMPOSITE)
        return (CAST if exact else OUTPUT).format(sql)

    def fits(self, promised: pl.DataType) -> bool:
        """Whether every value, or every finite one, can be told exactly in the promised type.

        Text can tell every value. Integers and decimals may be promised wider than they are, and a numeric of any
        precision may be promised as a decimal: a value that then does not fit falls under the policy.
        """
        live = self.dtype
        if promised in (live, pl.String()):
            return True
        if isinstance(promised, pl.List):
            return self.element is not None and self.element.fits(_instance(promised.inner))
        if live.is_integer() and promised.is_signed_integer():
            return _bits(live) <= _bits(promised)
        if isinstance(promised, pl.Decimal) and self.type is TYPES["numeric"]:
            if not isinstance(live, pl.Decimal):
                return True
            return live.scale <= promised.scale and live.precision - live.scale <= promised.precision - promised.scale
        return False

    def convert(self, wire: pl.Series, dtype: pl.DataType) -> pl.Series:
        """From the wire to a type that fits; NULL stands for values that it cannot hold."""
        if dtype == pl.String:
            return self.type.text(wire)
        if not isinstance(dtype, pl.List):
            return self.type.typed(wire, dtype)
        assert self.element is not None
        if wire.dtype == dtype and self.element.type.text is text.plain:
            return wire
        lists = wire.to_arrow()
        elements = pl.Series(lists.values)
        converted = self.element.convert(elements, _instance(dtype.inner))
        offsets, missing = lists.offsets.to_numpy(), lists.is_null().to_numpy(zero_copy_only=False)
        if converted.null_count() > elements.null_count():
            # A list without one of its elements would be another value: it is lost as a whole.
            lost = (converted.is_null() & elements.is_not_null()).arg_true().to_numpy()
            lost = lost[(lost >= offsets[0]) & (lost < offsets[-1])]
            missing = missing.copy()
            missing[np.searchsorted(offsets, lost, side="right") - 1] = True
        rebuilt = pa.LargeListArray.from_arrays(pa.array(offsets), converted.to_arrow(), mask=pa.array(missing))
        return pl.Series(wire.name, rebuilt, dtype=dtype)

    def words(self, wire: pl.Series) -> pl.Series:
        """Values from the wire as text for messages; elements of lists stand there without quotes."""
        if not isinstance(wire.dtype, pl.List):
            return self.type.text(wire)
        texts = self.convert(wire, pl.List(pl.String()))
        return "{" + texts.list.eval(pl.element().fill_null("NULL")).list.join(",") + "}"


def _instance(dtype: Any) -> pl.DataType:
    made: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return made


def _bits(dtype: pl.DataType) -> int:
    return int(str(dtype).removeprefix("Int"))


def projection(column: LiveColumn, format_: Format, sql: str, *, as_list: bool) -> tuple[str, str | None]:
    """The SQL that puts a column on the wire, and the SQL for values that are set aside, as text.

    Args:
        column: what the source has.
        format_: where the values go.
        sql: the column's quoted name.
        as_list: Parquet is to hold a list.
    """
    if as_list:
        return f"CASE WHEN {FLAT.format(sql)} THEN {sql} END", (
            f"CASE WHEN NOT ({FLAT.format(sql)}) THEN {CAST.format(sql)} END"
        )
    form = column.type
    if format_ is Format.JSON and form.json_project:
        return form.json_project.format(sql), None
    return form.project.format(sql), None
