"""Turns frames from the wire into the bytes of one file: one writer a format, all with the same three verbs."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, Literal, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from outhaul.data.sink import compressed
from outhaul.data.typed import Tally, named, typed
from outhaul.domain.options import CsvOptions, JsonOptions, ParquetOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from outhaul.data.scan import PlannedColumn
    from outhaul.data.sink import Sink
    from outhaul.domain.options import FormatOptions

SUFFIXES = {"none": "", "gzip": ".gz", "zstd": ".zst"}
# Raw, they are legal in JSON, but line-wise readers of more than one language cut there.
LINE_BREAKS = {"\u2028": rb"\u2028", "\u2029": rb"\u2029", "\u0085": rb"\u0085"}


# A row group is what readers skip or decode at once: large enough for dictionaries to pay, small enough to hold.
GROUP_ROWS = 100_000
GROUP_BYTES = 64 << 20
DICTIONARY_BYTES = 4 << 20
SAMPLE_ROWS = 65_536


class Writer(Protocol):
    """One file in the making; ``rows`` is how many it holds."""

    rows: int

    def write(self, frame: pl.DataFrame) -> None:
        """Append the rows of a frame in wire form. Raises UnrepresentableValue and StoreError."""

    def close(self) -> None:
        """End the file properly. Raises StoreError."""


class CsvWriter:
    """CSV as ``COPY ... TO STDOUT (FORMAT csv, HEADER)`` prints it, unless the options say otherwise."""

    def __init__(self, sink: Sink, columns: Sequence[PlannedColumn], options: CsvOptions) -> None:
        self.rows = 0
        self._columns = columns
        self._delimiter = options.delimiter
        self._out = compressed(sink, options.compression)
        if options.header:
            self._append(pl.DataFrame(schema={column.name: pl.String for column in columns}), header=True)

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows."""
        printed = [
            named(column, column.live.type.text, frame[column.wire]).alias(column.name) for column in self._columns
        ]
        # A line of nothing but these two characters ends the data for COPY FROM, so COPY TO quotes them there.
        if len(printed) == 1 and (printed[0] == "\\.").any():
            self._append(pl.DataFrame([self._quote(printed[0])]), quote_style="never")
        else:
            self._append(pl.DataFrame(printed))
        self.rows += len(frame)

    def close(self) -> None:
        """End the file."""
        self._out.close()

    def _quote(self, column: pl.Series) -> pl.Series:
        special = column.str.contains(f'["\r\n{re.escape(self._delimiter)}]') | column.is_in(["", "\\."])
        return column.zip_with(~special, '"' + column.str.replace_all('"', '""', literal=True) + '"')

    def _append(
        self, frame: pl.DataFrame, *, header: bool = False, quote_style: Literal["necessary", "never"] = "necessary"
    ) -> None:
        buffer = io.BytesIO()
        frame.write_csv(buffer, include_header=header, separator=self._delimiter, quote_style=quote_style)
        self._out.write(buffer.getbuffer())


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
            pieces.append(pl.lit(f"{before}{json.dumps(column.name, ensure_ascii=False)}:"))
            pieces.append(named(column, column.live.type.json, frame[column.wire]).fill_null("null"))
            before = ","
        pieces.append(pl.lit("}" if self._array else "}\n"))
        text = memoryview(_bytes(pl.select(pl.concat_str(pieces)).to_series()))
        if self._array and not self.rows:
            self._out.write(b"[\n")
            text = text[2:]
        self._out.write(text)
        self.rows += len(frame)

    def close(self) -> None:
        """End the file."""
        if self._array:
            self._out.write(b"\n]\n" if self.rows else b"[]\n")
        self._out.close()


class ParquetWriter:
    """Parquet whose schema follows from the contract alone, so that an empty file has the same one."""

    def __init__(
        self,
        sink: Sink,
        columns: Sequence[PlannedColumn],
        options: ParquetOptions,
        metadata: Mapping[str, str],
        tally: Tally,
    ) -> None:
        self.rows = 0
        self._columns = columns
        self._tally = tally
        self._schema = pa.schema([_field(column, tally) for column in columns], metadata=dict(metadata))
        self._sink = sink
        self._compression = options.compression
        self._waiting: list[pa.RecordBatch] = []
        self._writer: pq.ParquetWriter | None = None

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows; those of several frames make one row group."""
        if frame.is_empty():
            return
        arrays = [self._array(column, field, frame) for column, field in zip(self._columns, self._schema, strict=True)]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.rows += len(frame)
        if (
            sum(len(batch) for batch in self._waiting) >= GROUP_ROWS
            or sum(batch.nbytes for batch in self._waiting) >= GROUP_BYTES
        ):
            self._flush()

    def close(self) -> None:
        """Write what waits, and the footer."""
        self._flush()
        assert self._writer is not None
        self._writer.close()

    def _flush(self) -> None:
        group = pa.Table.from_batches(self._waiting, schema=self._schema)
        self._waiting.clear()
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=self._compression,
                store_decimal_as_integer=True,
                dictionary_pagesize_limit=DICTIONARY_BYTES,
                **encodings(group),
            )
        if len(group):
            self._writer.write_table(group, row_group_size=len(group))

    def _array(self, column: PlannedColumn, field: pa.Field, frame: pl.DataFrame) -> pa.Array:
        if isinstance(field.type, pa.UuidType):
            return pa.ExtensionArray.from_storage(field.type, frame[column.wire].to_arrow().cast(pa.binary(16)))
        array = typed(column, frame, self._tally).to_arrow()
        if isinstance(field.type, pa.JsonType):
            return pa.ExtensionArray.from_storage(field.type, array.cast(field.type.storage_type))
        return array.cast(field.type)


def encodings(group: pa.Table) -> dict[str, Any]:
    """How to encode each column, judged by the first rows: as ParquetWriter's arguments.

    A dictionary pays for values that repeat. For others it costs half of all encoding time and makes files larger;
    integers and instants that differ are near their neighbours, and their differences are small.
    """
    dictionary, encoding = [], {}
    for field in group.schema:
        sample = group[field.name].slice(0, SAMPLE_ROWS)
        kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
        if pa.types.is_list(kind):
            dictionary.append(f"{field.name}.list.element")
        elif pc.count_distinct(sample.cast(kind)).as_py() * 2 <= len(sample):
            dictionary.append(field.name)
        elif pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
            encoding[field.name] = "DELTA_BINARY_PACKED"
    return {"use_dictionary": dictionary or False, "column_encoding": encoding or None}


def open_writer(
    sink: Sink, columns: Sequence[PlannedColumn], options: FormatOptions, metadata: Mapping[str, str], tally: Tally
) -> Writer:
    """The writer for the options' format."""
    match options:
        case CsvOptions():
            return CsvWriter(sink, columns, options)
        case JsonOptions():
            return JsonWriter(sink, columns, options)
        case ParquetOptions():
            return ParquetWriter(sink, columns, options, metadata, tally)
    raise TypeError(options)


def file_kind(options: FormatOptions) -> tuple[str, str]:
    """The extension and the content type of a file."""
    match options:
        case CsvOptions():
            extension, content = "csv", "text/csv; charset=utf-8"
        case JsonOptions(layout="array"):
            extension, content = "json", "application/json"
        case JsonOptions():
            extension, content = "jsonl", "application/x-ndjson"
        case ParquetOptions():
            return "parquet", "application/vnd.apache.parquet"
        case _:
            raise TypeError(options)
    outer = {"gzip": "application/gzip", "zstd": "application/zstd"}.get(options.compression, content)
    return extension + SUFFIXES[options.compression], outer


def _field(column: PlannedColumn, tally: Tally) -> pa.Field:
    metadata = {"description": column.description} if column.description else None
    if column.dtype == pl.String:
        kind: Any = {"uuid": pa.uuid(), "json": pa.json_(), "jsonb": pa.json_()}.get(column.live.type.name, pa.string())
    else:
        kind = _arrow(column.dtype)
    # A column whose odd values become NULL cannot promise to hold none.
    loses = tally.policy == "null" and (column.live.type.partial or column.aside is not None)
    return pa.field(column.name, kind, nullable=column.nullable or loses, metadata=metadata)


def _arrow(dtype: pl.DataType) -> Any:
    if dtype == pl.Time:
        return pa.time64("us")
    if isinstance(dtype, pl.List):
        return pa.list_(_arrow(pl.Series([], dtype=dtype.inner).dtype))
    kind = pl.Series([], dtype=dtype).to_arrow().type
    return {
        pa.large_string(): pa.string(),
        pa.string_view(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.binary_view(): pa.binary(),
    }.get(kind, kind)


def _bytes(lines: pl.Series) -> Any:
    """The text of all lines, one after the other, with the odd line breaks escaped."""
    array = lines.to_arrow().cast(pa.large_string())
    data = array.buffers()[2]
    for char, escape in LINE_BREAKS.items():
        if lines.str.contains(char, literal=True).any():
            data = bytes(data).replace(char.encode(), escape)
    return data
