"""From a request to SQL: checked against the dataset's contract first, then compiled with every value as a parameter.

What a filter means, the same for every source:

- A comparison with NULL is false. ``!=``, ``not_in`` and ``not`` are the exact opposite of ``=``, ``in`` and of what
  they negate, so they keep rows whose value is NULL.
- Text is compared and sorted by code point (PostgreSQL's collation "C"), case-sensitively but for ``icontains``. Which
  letters beyond ASCII ``icontains`` takes for the same is up to the database's collation; for a lake, to Unicode. A
  column promised as text whose live type is another one is compared as the text it prints.
- NaN equals itself and is larger than every other number.
- ``on``, ``before`` and ``after`` speak of whole days of ``zone`` (UTC unless named); a column without time zone is
  read as wall clock, whatever the zone.
- NULLs sort last, in both directions, unless asked otherwise.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql import quoted_name

from outhaul.data import values
from outhaul.data.catalog import Lake, Select, Table
from outhaul.data.sqltext import one_select
from outhaul.domain.options import CsvOptions
from outhaul.domain.request import DAY_OPS, NULL_OPS, And, Comparison, Not, Op, Or
from outhaul.errors import InvalidRequest, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from outhaul.data.catalog import Dataset
    from outhaul.data.pgtypes import LiveColumn
    from outhaul.domain.options import FormatOptions
    from outhaul.domain.request import ExportRequest, Filter, Query

# A paramstyle that leaves percent signs alone; no parameter is ever left in the text.
DIALECT = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]

OPPOSITES = {Op.NE: Op.EQ, Op.NOT_IN: Op.IN}
PATTERNS = {Op.CONTAINS: "%*%", Op.STARTS_WITH: "*%", Op.ENDS_WITH: "%*"}
# How the column compares with which of the operands; all must hold. A day's operands are its start and the next day's.
BOUNDS: dict[Op, list[tuple[Callable[[Any, Any], Any], int]]] = {
    Op.EQ: [(operator.eq, 0)],
    Op.LT: [(operator.lt, 0)],
    Op.LE: [(operator.le, 0)],
    Op.GT: [(operator.gt, 0)],
    Op.GE: [(operator.ge, 0)],
    Op.BETWEEN: [(operator.ge, 0), (operator.le, 1)],
    Op.ON: [(operator.ge, 0), (operator.lt, 1)],
    Op.BEFORE: [(operator.lt, 0)],
    Op.AFTER: [(operator.ge, 1)],
}


def check_request(dataset: Dataset, request: ExportRequest) -> None:
    """Hold a request against the dataset's contract, before anything is stored.

    Raises:
        InvalidRequest: with the path of what is wrong: a column that is not there, an operator that does not fit the
            column's type, a value of the wrong type, a time zone or date that does not exist.
    """
    dtypes = {column.name: column.dtype for column in dataset.columns}
    check_query(dtypes, request.query)
    check_options(request.query.columns or list(dtypes), request.options)


def check_options(names: Collection[str], options: FormatOptions) -> None:
    """Hold the columns that options name against those of the result. Raises InvalidRequest."""
    if isinstance(options, CsvOptions) and isinstance(options.guard_formulas, list):
        for name in options.guard_formulas:
            if name not in names:
                raise InvalidRequest("options.guard_formulas", unknown("column", name, names))


def check_query(dtypes: Mapping[str, pl.DataType], query: Query) -> None:
    """Hold a query against columns and their types. Raises InvalidRequest."""
    for i, name in enumerate(query.columns or []):
        _known(dtypes, name, f"columns[{i}]")
    for i, key in enumerate(query.sort):
        _known(dtypes, key.column, f"sort[{i}].column")
        if dtypes[key.column].is_nested():
            raise InvalidRequest(f"sort[{i}].column", f"{key.column!r} cannot be sorted by; it holds lists")
    if query.filters is None:
        return
    for path, leaf in _leaves(query.filters, "filters"):
        _known(dtypes, leaf.column, f"{path}.column")
        dtype = dtypes[leaf.column]
        fitting = values.operators(dtype)
        if leaf.op not in fitting:
            raise InvalidRequest(
                f"{path}.op",
                f"{leaf.op} does not fit column {leaf.column!r} of type {dtype}. "
                f"Allowed: {', '.join(sorted(fitting))}.",
            )
        operands(leaf, dtype, path)


def operands(leaf: Comparison, dtype: pl.DataType, path: str = "filters") -> list[str]:
    """The values of a comparison in the column's notation; of a day operator, the bounds. Raises InvalidRequest."""
    where = f"{path}.value"
    if leaf.op in DAY_OPS:
        first, last = values.days(leaf.value, leaf.op, where)
        in_zone = values.zone(leaf.zone, f"{path}.zone")
        after = values.next_day(last, where)
        return [values.start_of(first, dtype, in_zone), values.start_of(after, dtype, in_zone)]
    if isinstance(leaf.value, list):
        return [values.literal(dtype, value, f"{where}[{i}]") for i, value in enumerate(leaf.value)]
    return [] if leaf.value is None else [values.literal(dtype, leaf.value, where)]


@dataclass(frozen=True, slots=True)
class Compiled:
    """SQL text without parameters, and the settings that must hold in its transaction: they carry the values."""

    sql: str
    settings: dict[str, str]


def compile_source(source: Table | Select | Lake) -> str:
    """All columns of a source, for describing it."""
    return str(sa.select(sa.text("*")).select_from(_relation(source)).compile(dialect=DIALECT))


def quote_name(name: str) -> str:
    """A column's name as SQL."""
    return DIALECT.identifier_preparer.quote_identifier(name)


def compile_read(
    dataset: Dataset,
    query: Query,
    live: Mapping[str, LiveColumn],
    dtypes: Mapping[str, pl.DataType],
    projections: Sequence[str],
    *,
    tenant: str | None,
) -> Compiled:
    """Compile the whole read.

    Args:
        dataset: brings the source and the tenant's predicate, which no filter can loosen: it stands beside them all.
        query: a checked query.
        live: the source's columns as they are now.
        dtypes: what each column was promised as; decides how it is compared.
        projections: SQL for each column of the result.
        tenant: the asking tenant; None for a dataset that is shared.
    """
    compiler = _Compiler(live, dtypes)
    results: list[sa.ColumnElement[Any]] = [sa.literal_column(sql) for sql in projections]
    statement = sa.select(*results).select_from(_relation(dataset.source))
    if dataset.tenant is not None:
        if tenant is None:
            raise InvalidRequest("tenant", f"dataset {dataset.name} needs one")
        statement = statement.where(compiler.equals_tenant(dataset.tenant, tenant))
    if query.filters is not None:
        statement = statement.where(compiler.condition(query.filters))
    for key in query.sort:
        column = compiler.ordered(key.column)
        column = column.desc() if key.descending else column.asc()
        statement = statement.order_by(column.nulls_first() if key.nulls == "first" else column.nulls_last())
    if query.limit is not None:
        statement = statement.limit(sa.literal_column(str(query.limit)))
    text = str(statement.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True}))
    return Compiled(text, compiler.settings)


class _SqlType(sa.types.UserDefinedType[Any]):
    """A type of PostgreSQL's own, by name, whatever the search path says; never with a length or precision."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return f"pg_catalog.{self.name}"


@dataclass
class _Compiler:
    live: Mapping[str, LiveColumn]
    dtypes: Mapping[str, pl.DataType]
    settings: dict[str, str] = field(default_factory=dict)

    def condition(self, node: Filter) -> sa.ColumnElement[bool]:
        match node:
            case Comparison():
                return self._comparison(node)
            case And():
                return sa.and_(*(self.condition(child) for child in node.all_of))
            case Or():
                return sa.or_(*(self.condition(child) for child in node.any_of))
            case Not():
                return _unless(self.condition(node.negated))

    def equals_tenant(self, column: str, tenant: str) -> sa.ColumnElement[bool]:
        operand = self.live[column].type.operand or "text"
        subject: sa.ColumnElement[Any] = sa.column(column)
        return (subject if self.live[column].type.operand else self._as_text(column)) == self._value(tenant, operand)

    def ordered(self, column: str) -> sa.ColumnElement[Any]:
        return self._as_text(column) if self.dtypes[column] == pl.String else sa.column(column)

    def _comparison(self, leaf: Comparison) -> sa.ColumnElement[bool]:
        if leaf.op in OPPOSITES:
            return _unless(self._comparison(leaf.model_copy(update={"op": OPPOSITES[leaf.op]})))
        bare: sa.ColumnElement[Any] = sa.column(leaf.column)
        if leaf.op in NULL_OPS:
            return bare.is_(None) if leaf.op is Op.IS_NULL else bare.is_not(None)
        dtype = self.dtypes[leaf.column]
        given = operands(leaf, dtype)
        subject, operand = self.ordered(leaf.column), self.live[leaf.column].type.operand
        if dtype == pl.String:
            if leaf.op in values.EQUALITY and operand:
                subject = bare  # equality can use the live type, and with it an index
            else:
                operand = "text"
        if leaf.op is Op.IN:
            return self._any_of(subject, given, operand)
        if leaf.op is Op.ICONTAINS:
            # In the database's own idea of upper and lower case: "C" knows ASCII letters only.
            return self._as_text(leaf.column, collate=False).op("ILIKE", is_comparison=True)(
                self._value(f"%{_escape_like(given[0])}%", "text")
            )
        if leaf.op in PATTERNS:
            pattern = PATTERNS[leaf.op].replace("*", _escape_like(given[0]))
            return subject.op("LIKE", is_comparison=True)(self._value(pattern, "text"))
        bounds = [(compare, self._value(given[i], operand)) for compare, i in BOUNDS[leaf.op]]
        return sa.and_(*(compare(subject, value) for compare, value in bounds))

    def _as_text(self, column: str, *, collate: bool = True) -> sa.ColumnElement[Any]:
        subject: sa.ColumnElement[Any] = sa.column(column)
        if self.live[column].typname not in {"text", "varchar"}:
            subject = sa.literal_column(self.live[column].printed(quote_name(column)), type_=sa.Text())
        return sa.collate(subject, "C") if collate else subject

    def _any_of(self, subject: sa.ColumnElement[Any], given: Sequence[str], operand: str) -> sa.ColumnElement[bool]:
        items = ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in given)
        array = self._value(f"{{{items}}}", f"{_quote_type(operand)}[]", quote=False)
        return subject == sa.func.any(array)

    def _value(self, text: str, operand: str, *, quote: bool = True) -> sa.ColumnElement[Any]:
        name = f"outhaul.p{len(self.settings) + 1}"
        self.settings[name] = text
        carried = sa.func.pg_catalog.current_setting(sa.literal_column(f"'{name}'"))
        return sa.cast(carried, _SqlType(_quote_type(operand) if quote else operand))


def _unless(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.type_coerce(condition.self_group(), sa.Boolean()).is_not(sa.true())


def _escape_like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _quote_type(name: str) -> str:
    return f'"{name}"'


def _relation(source: Table | Select | Lake) -> sa.FromClause:
    if isinstance(source, Lake):
        raise InvalidRequest("source", "a lake is not read with SQL")
    if isinstance(source, Table):
        schema, _, name = source.name.rpartition(".")
        return sa.table(quoted_name(name, quote=True), schema=quoted_name(schema, quote=True) if schema else None)
    # The closing parenthesis stands on a line of its own: the text may end in a comment.
    return sa.table(quoted_name(f"(\n{one_select(source.sql)}\n)", quote=False)).alias("source")


def _known(dtypes: Mapping[str, pl.DataType], name: str, path: str) -> None:
    if name not in dtypes:
        raise InvalidRequest(path, unknown("column", name, dtypes))


def _leaves(node: Filter, path: str) -> Iterator[tuple[str, Comparison]]:
    match node:
        case Comparison():
            yield path, node
        case And():
            for i, child in enumerate(node.all_of):
                yield from _leaves(child, f"{path}.and[{i}]")
        case Or():
            for i, child in enumerate(node.any_of):
                yield from _leaves(child, f"{path}.or[{i}]")
        case Not():
            yield from _leaves(node.negated, f"{path}.not")
