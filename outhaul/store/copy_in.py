"""Fills a source database from CSV files: for demo data and benchmarks, no part of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from outhaul.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

CHUNK = 1 << 18
# The first eight bytes of the SHA-256 of "outhaul copy in", as a signed 64-bit number.
ADVISORY_LOCK = 1_886_320_420_108_099_933


def copy_in(url: str, schema: str, files: Mapping[str, IO[bytes]], constraints: str, *, null: str) -> bool:
    """Run ``schema``, fill its tables from CSV files and run ``constraints``, all or nothing.

    Each file's first line names the columns; the unquoted word ``null`` stands for NULL. Returns False, having done
    nothing, when the last table is there already.

    Raises:
        Unavailable: the database cannot be reached, or refuses.
    """
    try:
        with psycopg.connect(url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
            if connection.execute("SELECT to_regclass(%s)", [[*files][-1]]).fetchone() != (None,):
                return False
            connection.execute(schema.encode())
            for table, file in files.items():
                _copy(connection, table, file, null)
            connection.execute(constraints.encode())
            for table in files:
                connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table)))
    except psycopg.OperationalError as error:
        raise Unavailable(
            "the source database cannot be reached: check OUTHAUL_SOURCE_URL and that it is running", detail=str(error)
        ) from error
    except psycopg.Error as error:
        raise Unavailable("the source database refuses the demo's tables", detail=str(error)) from error
    return True


def _copy(connection: psycopg.Connection, table: str, file: IO[bytes], null: str) -> None:
    names = file.readline().decode().strip().split(",")
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, NULL {})").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, names)), sql.Literal(null)
    )
    with connection.cursor().copy(statement) as copy:
        while chunk := file.read(CHUNK):
            copy.write(chunk)
