"""DuckDB with its PostgreSQL extension, which reads a table in ranges of pages on all cores."""

import sys
from importlib.resources import files

import duckdb

OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd", "json": "FORMAT json"}


def export(url: str, table: str, format_: str, file: str) -> None:
    """Write all rows of the table to the file."""
    database = duckdb.connect()
    # The extension lies in its wheel, made for exactly this version; DuckDB would download it.
    wheel = files("duckdb_extension_postgres_scanner") / "extensions" / f"v{duckdb.__version__}"
    database.execute(f"LOAD '{quoted(str(wheel / 'postgres_scanner.duckdb_extension'))}'")
    database.execute(f"ATTACH '{quoted(url)}' AS source (TYPE postgres, READ_ONLY)")
    # The extension hands jsonb over as text; without the cast, documents would be strings in JSON.
    columns = "* REPLACE (attributes::JSON AS attributes)" if format_ == "json" else "*"
    database.execute(f"COPY (SELECT {columns} FROM source.{table}) TO '{quoted(file)}' ({OPTIONS[format_]})")


def quoted(text: str) -> str:
    """The text as it stands between single quotes in SQL."""
    return text.replace("'", "''")


if __name__ == "__main__":
    export(*sys.argv[1:])
