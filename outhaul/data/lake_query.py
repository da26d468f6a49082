"""Filters and sort keys as Polars expressions, with the meaning that ``outhaul.data.query`` states for every source."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import polars as pl

from outhaul.data.lake_types import printed
from outhaul.data.query import BOUNDS, OPPOSITES, operands
from outhaul.domain.request import NULL_OPS, And, Comparison, Not, Op, Or
from outhaul.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from outhaul.data.pgtypes import LiveColumn
    from outhaul.domain.request import Filter

NOTHING = pl.lit(value=False)
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
WORDS = {"true": True, "t": True, "false": False, "f": False}


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles for columns whose values have become ``held`` types.

    Args:
        live: the columns in PostgreSQL's terms.
        types: the types that their values have.
        promised: what each column was promised as; decides how it is compared.
    """

    live: Mapping[str, LiveColumn]
    types: Mapping[str, pl.DataType]
    promised: Mapping[str, pl.DataType]

    def condition(self, node: Filter) -> pl.Expr:
        """A filter; where it is not true, it is false or NULL."""
        match node:
            case Comparison():
                return self._comparison(node)
            case And():
                return pl.all_horizontal(self.condition(child) for child in node.all_of)
            case Or():
                return pl.any_horizontal(self.condition(child) for child in node.any_of)
            case Not():
                return _unless(self.condition(node.negated))

    def equals_tenant(self, column: str, tenant: str) -> pl.Expr:
        """The tenant's predicate, by the type that the column has."""
        return self._among(column, [tenant], path="tenant")

    def ordered(self, column: str) -> pl.Expr:
        """A column as it is sorted and compared."""
        return self._as_text(column) if self.promised[column] == pl.String else pl.col(column)

    def _comparison(self, leaf: Comparison) -> pl.Expr:
        if leaf.op in OPPOSITES:
            return _unless(self._comparison(leaf.model_copy(update={"op": OPPOSITES[leaf.op]})))
        name, column = leaf.column, pl.col(leaf.column)
        if leaf.op in NULL_OPS:
            return column.is_null() if leaf.op is Op.IS_NULL else column.is_not_null()
        given = operands(leaf, self.promised[name])
        if leaf.op in {Op.EQ, Op.IN}:
            return self._among(name, given, path="filters")
        if leaf.op in PATTERNS:
            return PATTERNS[leaf.op](self._as_text(name), given[0])
        if self.promised[name] == pl.String:
            text = self._as_text(name)
            parts = [compare(text, pl.lit(given[i])) for compare, i in BOUNDS[leaf.op]]
        else:
            parts = [_bound(column, self.types[name], compare, given[i]) for compare, i in BOUNDS[leaf.op]]
        return pl.all_horizontal(parts)

    def _as_text(self, name: str) -> pl.Expr:
        live, column = self.live[name], pl.col(name)
        if self.types[name] == pl.String:
            return column
        return column.map_batches(lambda series: printed(live, series), return_dtype=pl.String, is_elementwise=True)

    def _among(self, name: str, given: Sequence[str], *, path: str) -> pl.Expr:
        """Whether a column equals one of the values, by its own type if that has an equality."""
        live, column, dtype = self.live[name], pl.col(name), self.types[name]
        if not live.type.operand:
            column, dtype = self._as_text(name), pl.String()
        try:
            found = [value for text in given for value in _equal_to(text, dtype, live)]
        except (ValueError, InvalidOperation, OverflowError):
            raise InvalidRequest(path, f"a value does not fit column {name!r}, which is {live.pg}") from None
        if len(found) == 1:
            return column == _literal(found[0], dtype)
        return column.is_in(series_of(found, dtype).implode()) if found else NOTHING


def conjuncts(node: Filter | None) -> Iterator[tuple[Filter, set[str]]]:
    """The parts of a filter that must all hold, each with the columns that it needs."""
    if isinstance(node, And):
        for child in node.all_of:
            yield from conjuncts(child)
    elif node is not None:
        yield node, set(columns_of(node))


def columns_of(node: Filter) -> Iterator[str]:
    """The columns that a filter names."""
    match node:
        case Comparison():
            yield node.column
        case And():
            for child in node.all_of:
                yield from columns_of(child)
        case Or():
            for child in node.any_of:
                yield from columns_of(child)
        case Not():
            yield from columns_of(node.negated)


def parse(text: str, dtype: pl.DataType) -> Any:
    """One value from text: as ``series_of`` takes it. Raises ValueError if the type does not hold it exactly."""
    found = _equal_to(text, dtype, None)
    if not found:
        raise ValueError(text)
    return found[0]


def series_of(found: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Values as a column: those of discrete types are given as whole numbers of their smallest unit."""
    if isinstance(dtype, pl.Decimal):
        return pl.Series([None if unit is None else _decimal(unit, dtype) for unit in found], dtype=dtype)
    if dtype.is_temporal():
        return pl.Series(found, dtype=pl.Int64).cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    return pl.Series(found, dtype=dtype)


def _equal_to(text: str, dtype: pl.DataType, live: LiveColumn | None) -> list[Any]:
    """The one value that a text equals, or none if the type holds no such value. Raises ValueError."""
    if dtype == pl.String:
        return [text]
    if dtype == pl.Boolean:
        if text.lower() not in WORDS:
            raise ValueError(text)
        return [WORDS[text.lower()]]
    if dtype == pl.Binary:
        return [UUID(text).bytes if live and live.typname == "uuid" else bytes.fromhex(text.removeprefix("\\x"))]
    if dtype.is_float():
        return [_float(text, dtype)]
    exact = _units(text, dtype)
    least, most = _range(dtype)
    return [int(exact)] if exact.denominator == 1 and least <= exact <= most else []


def _bound(column: pl.Expr, dtype: pl.DataType, compare: Callable[[Any, Any], Any], text: str) -> pl.Expr:
    """A column against one value, which need not be one that the column's type can hold."""
    if dtype.is_float():
        result: pl.Expr = compare(column, pl.lit(_float(text, dtype), dtype=dtype))
        return result
    exact = _units(text, dtype)
    least, most = _range(dtype)
    if compare in {operator.le, operator.lt}:
        bound = math.floor(exact) if compare is operator.le else math.ceil(exact) - 1
        if bound < least:
            return NOTHING
        return column <= _literal(bound, dtype) if bound < most else column.is_not_null()
    bound = math.ceil(exact) if compare is operator.ge else math.floor(exact) + 1
    if bound > most:
        return NOTHING
    return column >= _literal(bound, dtype) if bound > least else column.is_not_null()


def _units(text: str, dtype: pl.DataType) -> Fraction:
    """A value in units of the smallest step of a discrete type, exactly. Raises ValueError."""
    if dtype.is_integer():
        return Fraction(int(text))
    if isinstance(dtype, pl.Decimal):
        number = Decimal(text)
        if not number.is_finite():
            raise ValueError(text)
        return Fraction(number) * Fraction(10**dtype.scale)
    if dtype == pl.Date:
        return Fraction((date.fromisoformat(text) - date(1970, 1, 1)).days)
    if dtype == pl.Time:
        at = time.fromisoformat(text)
        span, unit = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond), "ns"
    else:
        assert isinstance(dtype, pl.Datetime)
        moment = datetime.fromisoformat(text)
        # What names no offset is UTC for PostgreSQL's sessions, and for a column without zone it is a wall clock.
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        span, unit = moment - datetime(1970, 1, 1, tzinfo=UTC), dtype.time_unit
    return Fraction(span // timedelta(microseconds=1) * PER_SECOND[unit], 10**6)


def _range(dtype: pl.DataType) -> tuple[int, int]:
    if isinstance(dtype, pl.Decimal):
        return 1 - 10**dtype.precision, 10**dtype.precision - 1
    bits = int(str(dtype).removeprefix("Int")) if dtype.is_integer() else 32 if dtype == pl.Date else 64
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _float(text: str, dtype: pl.DataType) -> float:
    number = float(text)
    if dtype == pl.Float32 and math.isfinite(number):
        with np.errstate(over="ignore", under="ignore"):
            rounded = float(np.float32(number))
        if math.isinf(rounded) or (rounded == 0) != (number == 0):
            raise InvalidRequest("filters", f"{text} is out of range for a number of single precision")
        return rounded
    return number


def _literal(value: Any, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.Decimal):
        return pl.lit(_decimal(value, dtype), dtype=dtype)
    if dtype.is_temporal():
        return pl.lit(value, dtype=pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    return pl.lit(value, dtype=dtype)


def _decimal(units: int, dtype: pl.Decimal) -> Decimal:
    sign, digits, _ = Decimal(units).as_tuple()
    return Decimal((sign, digits, -dtype.scale))


def _unless(condition: pl.Expr) -> pl.Expr:
    return ~condition.fill_null(value=False)


def _any_case(column: pl.Expr, text: str) -> pl.Expr:
    return column.str.contains(f"(?i){pl.escape_regex(text)}")


PATTERNS: dict[Op, Callable[[pl.Expr, str], pl.Expr]] = {
    Op.CONTAINS: lambda column, text: column.str.contains(text, literal=True),
    Op.ICONTAINS: _any_case,
    Op.STARTS_WITH: lambda column, text: column.str.starts_with(text),
    Op.ENDS_WITH: lambda column, text: column.str.ends_with(text),
}
