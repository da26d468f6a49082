"""CSV files, by default byte for byte what PostgreSQL's ``COPY`` prints (RFC 4180 but for the line ending)."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import polars as pl

from outhaul.data import text
from outhaul.data.sink import compressed
from outhaul.data.typed import named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outhaul.data.scan import PlannedColumn
    from outhaul.data.sink import Sink
    from outhaul.domain.options import CsvOptions

BOM = b"\xef\xbb\xbf"
LINE_ENDINGS = {"lf": "\n", "crlf": "\r\n"}
FRACTIONS = frozenset({"numeric", "float4", "float8"})
# Types whose text is made of digits and fixed words; what a person may have typed can only be in the others.
HARMLESS = FRACTIONS | {
    *("bool", "int2", "int4", "int8", "oid", "xid", "money", "bytea", "bit", "varbit", "uuid", "pg_lsn"),
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval", "inet", "cidr", "macaddr", "macaddr8"),
    *("point", "line", "lseg", "box", "path", "polygon", "circle"),
}
# What spreadsheets take for the beginning of a formula, after any apostrophes, which make the guard reversible.
# Source: OWASP, "CSV Injection"; the wide forms are what East Asian keyboards type.
FORMULA = r"^'*[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"


class CsvWriter:
    """One CSV file."""

    def __init__(self, sink: Sink, columns: Sequence[PlannedColumn], options: CsvOptions) -> None:
        self.rows = 0
        self._columns = columns
        self._options = options
        self._guarded = set(guarded(columns, options))
        self._forms = [self._form(column) for column in columns]
        self._out = compressed(sink, options.compression)
        if options.bom:
            self._out.write(BOM)
        if options.header:
            guard_all = options.guard_formulas is True  # a name is free text, whatever its column holds
            names = [pl.Series(column.name, [column.name]) for column in columns]
            self._append([self._guard(name) if guard_all or name.name in self._guarded else name for name in names])

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows."""
        self._append(
            [
                named(column, form, frame[column.wire]).alias(column.name)
                for column, form in zip(self._columns, self._forms, strict=True)
            ]
        )
        self.rows += len(frame)

    def close(self) -> None:
        """End the file."""
        self._out.close()

    def _form(self, column: PlannedColumn) -> Callable[[pl.Series], pl.Series]:
        """How a column is printed: as PostgreSQL does, but for what the options say."""
        kind, form, options = column.live.type.name, column.live.type.text, self._options
        if kind in FRACTIONS and options.decimal != ".":
            return lambda series: form(series).str.replace(".", options.decimal, literal=True)
        if kind == "date" and options.date_format:
            pattern = options.date_format
            return lambda series: text.date_as(series, pattern)
        if kind in {"timestamp", "timestamptz"} and options.timestamp_format:
            pattern, zoned = options.timestamp_format, kind == "timestamptz"
            return lambda series: text.timestamp_as(series, pattern, zoned=zoned)
        if column.name in self._guarded:
            return lambda series: self._guard(form(series))
        return form

    def _guard(self, column: pl.Series) -> pl.Series:
        return column.zip_with(~column.str.contains(FORMULA).fill_null(value=False), "'" + column)

    def _append(self, columns: list[pl.Series]) -> None:
        options = self._options
        # A line of nothing but these two characters ends the data for COPY FROM, so COPY TO quotes them there.
        special = [options.null, "\\."] if len(columns) == 1 else [options.null]
        # Polars quotes what needs it, but knows neither of this end nor that a value may read like NULL.
        quoted = options.quote == "all" or options.null != "" or (special[1:] and (columns[0] == "\\.").any())
        buffer = io.BytesIO()
        pl.DataFrame([self._quote(column, special) for column in columns] if quoted else columns).write_csv(
            buffer,
            include_header=False,
            separator=options.delimiter,
            line_terminator=LINE_ENDINGS[options.line_ending],
            null_value=options.null or None,
            quote_style="never" if quoted else "necessary",
        )
        self._out.write(buffer.getvalue())

    def _quote(self, column: pl.Series, words: list[str]) -> pl.Series:
        text = ('"' + column.str.replace_all('"', '""', literal=True) + '"').alias(column.name)
        if self._options.quote == "all":
            return text
        special = column.str.contains(f'["\r\n{re.escape(self._options.delimiter)}]') | column.is_in(words)
        return column.zip_with(~special, text)


def guarded(columns: Sequence[PlannedColumn], options: CsvOptions) -> list[str]:
    """The columns whose values and names are kept from being formulas."""
    if isinstance(options.guard_formulas, list):
        return options.guard_formulas
    return [column.name for column in columns if options.guard_formulas and column.live.typname not in HARMLESS]
