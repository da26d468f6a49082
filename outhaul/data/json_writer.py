"""JSON files: one object a line, or one array of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from outhaul.data import text
from outhaul.data.sink import compressed
from outhaul.data.typed import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outhaul.data.scan import PlannedColumn
    from outhaul.data.sink import Sink
    from outhaul.domain.options import JsonOptions

# Raw, they are legal in JSON, but line-wise readers of more than one language cut there.
LINE_BREAKS = {"\u2028": rb"\u2028", "\u2029": rb"\u2029", "\u0085": rb"\u0085"}


class JsonWriter:
    """One object a row, on lines of their own or in one array; documents stay documents, numbers keep their digits."""

    def __init__(self, sink: Sink, columns: Sequence[PlannedColumn], options: JsonOptions) -> None:
        self.rows = 0
        self._columns = columns
        self._array = options.layout == "array"
        self._out = compressed(sink, options.compression)

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows."""
        if frame.is_empty():
            return
        pieces: list[pl.Series | pl.Expr] = []
        before = ",\n{" if self._array else "{"
        for column in self._columns:
            form = column.live.type
            value = named(column, form.json, frame[column.wire])
            quote = ""
            if form.in_quotes and not value.null_count():
                quote = '"'  # joined to what stands around it, the value need not be copied into quotes first
            elif form.in_quotes:
                value = text.quoted(value)
            before = f"{before}{json.dumps(column.name, ensure_ascii=False)}:{quote}"
            pieces += [pl.lit(before), value.fill_null("null")]
            before = quote + ","
        pieces.append(pl.lit(before[:-1] + ("}" if self._array else "}\n")))
        lines = memoryview(_bytes(pl.select(pl.concat_str(pieces)).to_series()))
        if self._array and not self.rows:
            self._out.write(b"[\n")
            lines = lines[2:]
        self._out.write(lines)
        self.rows += len(frame)

    def close(self) -> None:
        """End the file."""
        if self._array:
            self._out.write(b"\n]\n" if self.rows else b"[]\n")
        self._out.close()


def _bytes(lines: pl.Series) -> Any:
    """The text of all lines, one after the other, with the odd line breaks escaped."""
    array = lines.to_arrow().cast(pa.large_string())
    data = array.buffers()[2]
    for char, escape in LINE_BREAKS.items():
        if lines.str.contains(char, literal=True).any():
            data = bytes(data).replace(char.encode(), escape)
    return data
