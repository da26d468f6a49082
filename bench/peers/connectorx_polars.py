"""ConnectorX into a Polars frame, which then writes the file: all rows are in memory at once."""

import sys
from urllib.parse import parse_qs, quote, urlsplit

import connectorx
import polars as pl


def export(url: str, table: str, format_: str, file: str) -> None:
    """Write all rows of the table to the file."""
    frame = connectorx.read_sql(with_host(url), f"SELECT * FROM {table}", return_type="polars")
    match format_:
        case "csv":
            frame.write_csv(file)
        case "parquet":
            frame.write_parquet(file, compression="zstd")
        case "json":
            frame.with_columns(pl.col("amount").cast(pl.Float64)).write_ndjson(file)


def with_host(url: str) -> str:
    """The URL with the socket's folder where ConnectorX looks for it: it refuses an empty host."""
    parts = urlsplit(url)
    hosts = parse_qs(parts.query).get("host")
    if parts.hostname or not hosts:
        return url
    return parts._replace(netloc=parts.netloc + quote(hosts[0], safe=""), query="").geturl()


if __name__ == "__main__":
    export(*sys.argv[1:])
