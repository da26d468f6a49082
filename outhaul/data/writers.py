"""One writer a format, all with the same two verbs: which one, and what its files are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from outhaul.data.csv_writer import CsvWriter
from outhaul.data.json_writer import JsonWriter
from outhaul.data.parquet_writer import ParquetWriter
from outhaul.domain.options import CsvOptions, JsonOptions, ParquetOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from outhaul.data.scan import PlannedColumn
    from outhaul.data.sink import Sink
    from outhaul.data.typed import Tally
    from outhaul.domain.options import FormatOptions

SUFFIXES = {"none": "", "gzip": ".gz", "zstd": ".zst"}


class Writer(Protocol):
    """One file in the making; ``rows`` is how many it holds."""

    rows: int

    def write(self, frame: pl.DataFrame) -> None:
        """Append the rows of a frame in wire form. Raises UnrepresentableValue and StoreError."""

    def close(self) -> None:
        """End the file properly. Raises StoreError."""


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
