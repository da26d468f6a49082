"""The usual script: pandas reads with ``read_sql`` in chunks and appends each to the file."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import create_engine

ROWS = 100_000
IDS = ["order_id", "customer_id"]


def export(url: str, table: str, format_: str, file: str) -> None:
    """Write all rows of the table to the file."""
    engine = create_engine(urlsplit(url)._replace(scheme="postgresql+psycopg").geturl())
    with engine.connect().execution_options(stream_results=True, max_row_buffer=ROWS) as connection:
        chunks = pd.read_sql(f"SELECT * FROM {table}", connection, chunksize=ROWS)
        WRITERS[format_](chunks, Path(file))


def write_csv(chunks: Iterator[pd.DataFrame], file: Path) -> None:
    """CSV; documents would otherwise be printed as Python prints them."""
    with file.open("w", encoding="utf-8", newline="") as out:
        for number, chunk in enumerate(chunks):
            chunk["attributes"] = chunk["attributes"].map(json.dumps)
            chunk.to_csv(out, header=number == 0, index=False)


def write_parquet(chunks: Iterator[pd.DataFrame], file: Path) -> None:
    """Parquet; the first chunk decides the types."""
    frames = (
        pa.Table.from_pandas(
            chunk.assign(attributes=chunk["attributes"].map(json.dumps), **chunk[IDS].astype(str)),
            preserve_index=False,
        )
        for chunk in chunks
    )
    first = next(frames)
    with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for frame in frames:
            writer.write_table(frame.cast(first.schema))


def write_json(chunks: Iterator[pd.DataFrame], file: Path) -> None:
    """JSON lines."""
    with file.open("w", encoding="utf-8") as out:
        for chunk in chunks:
            chunk[IDS] = chunk[IDS].astype(str)
            chunk.to_json(out, orient="records", lines=True, date_format="iso", date_unit="us", force_ascii=False)


WRITERS = {"csv": write_csv, "parquet": write_parquet, "json": write_json}

if __name__ == "__main__":
    export(*sys.argv[1:])
