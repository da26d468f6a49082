"""ADBC into Arrow batches, which PyArrow writes as they come."""

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from adbc_driver_postgresql import dbapi

WRITERS: dict[str, Callable[[str, pa.Schema], Any]] = {
    "csv": pyarrow.csv.CSVWriter,
    "parquet": lambda file, schema: pyarrow.parquet.ParquetWriter(file, schema, compression="zstd"),
}
# PyArrow prints no binary as CSV.
CSV_COLUMNS = (
    "id, order_id::text, customer_id::text, email, status, amount, currency, quantity, ordered_at, ship_date, note, "
    "attributes, is_gift, risk_score"
)


def export(url: str, table: str, format_: str, file: str) -> None:
    """Write all rows of the table to the file."""
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {CSV_COLUMNS if format_ == 'csv' else '*'} FROM {table}")
        reader = cursor.fetch_record_batch()
        schema = pa.schema([(field.name, stored(field.type)) for field in reader.schema])
        with WRITERS[format_](file, schema) as writer:
            for batch in reader:
                arrays = [c.storage if isinstance(c, pa.ExtensionArray) else c for c in batch.columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def stored(kind: pa.DataType) -> pa.DataType:
    """The plain type under ADBC's names for numeric, uuid and jsonb."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


if __name__ == "__main__":
    export(*sys.argv[1:])
