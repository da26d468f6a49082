"""Parquet files, with types from the contract and encodings from the first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from outhaul.data.typed import typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from outhaul.data.scan import PlannedColumn
    from outhaul.data.sink import Sink
    from outhaul.data.typed import Tally
    from outhaul.domain.options import ParquetOptions

# A row group is what readers skip or decode at once: large enough for dictionaries to pay, small enough to hold.
GROUP_ROWS = 100_000
GROUP_BYTES = 64 << 20
DICTIONARY_BYTES = 4 << 20
SAMPLE_ROWS = 65_536


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
        self._options = options
        # Smaller groups let a file end close to the most that it may have.
        self._group_bytes = min(GROUP_BYTES, (options.max_bytes_per_file or GROUP_BYTES * 4) // 4)
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
            or sum(batch.nbytes for batch in self._waiting) >= self._group_bytes
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
                compression=self._options.compression,
                compression_level=self._options.compression_level,
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
