"""One connection to the source: read-only, of one snapshot, bounded in time, and gone at the end."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager._reader import AdbcRecordBatchReader

from outhaul.errors import SourceError, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLAIN_WORDS = {
    "08": "the connection to the source database broke",
    "22": "the source database could not compute a value",
    "22012": "the dataset's SQL divides by zero",
    "22P02": "a filter's value does not fit the type of its column",
    "22003": "a number is out of range for its type",
    "25001": "the dataset's SQL tries to leave its transaction; only reading is allowed",
    "25006": "the dataset's SQL tries to write; only reading is allowed",
    "25P03": "the source database ended the session for being idle",
    "2D": "the dataset's SQL tries to leave its transaction; only reading is allowed",
    "28": "the source database refused the login",
    "3D000": "the source database does not exist",
    "40": "the source database broke off the transaction",
    "42501": "the source database's role may not read what the dataset needs",
    "0A": "the source database does not support what the dataset's SQL asks for",
    "42883": "a function or operator of the dataset's SQL does not exist in the source database",
    "42601": "the dataset's SQL has a syntax error",
    "42703": "a column of the dataset no longer exists in the source database",
    "42P01": "the dataset's table no longer exists in the source database",
    "53": "the source database is short of resources",
    "53300": "the source database has no free connection",
    "57014": "the query was cancelled or ran longer than it may",
    "57P": "the source database ended the connection",
}
# The session speaks one dialect, whatever the server's or the role's defaults are.
DIALECT = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
}
# A table that is locked by now, but was rewritten, emptied or made after the snapshot was taken. To the snapshot it has
# no rows, as PostgreSQL's manual warns of ALTER TABLE and TRUNCATE. pg_class is read as of the snapshot, the functions
# answer as of now.
REPLACED = """
SELECT pg_catalog.min(held.relation::pg_catalog.regclass::pg_catalog.text)
FROM pg_catalog.pg_locks AS held
LEFT JOIN pg_catalog.pg_class AS known ON known.oid = held.relation
WHERE held.pid = pg_catalog.pg_backend_pid()
    AND held.locktype = 'relation'
    AND (
        known.oid IS NULL
        OR (known.relkind IN ('r', 'm') AND known.relfilenode <> 0
            AND known.relfilenode IS DISTINCT FROM pg_catalog.pg_relation_filenode(known.oid))
    )
"""
# A connection that is refused comes with the server's words only, and no SQLSTATE.
FULL = ("too many connections", "too many clients", "remaining connection slots")
CHECK_CLIENT = "client_connection_check_interval"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the source may be kept busy by one export."""

    statement_timeout: timedelta = timedelta(hours=6)
    idle_timeout: timedelta = timedelta(minutes=10)
    connect_timeout: timedelta = timedelta(seconds=15)


class Session:
    """A read-only transaction on the source, as a context manager.

    Args:
        url: the source's libpq URI.
        name: shown by the server as ``application_name``; the next attempt and the sweep look for it.
        limits: how long the source may be kept busy.

    Raises:
        SourceUnreachable: on entering, when no session is to be had; no job that reads this source could do better.
        SourceError: from every method, with the SQLSTATE if the server gave one.
    """

    def __init__(self, url: str, *, name: str, limits: Limits) -> None:
        self._limits = limits
        self._reading: adbc.AdbcStatement | None = None
        self._guard = threading.Lock()
        self._cancelled = False
        parameters = {
            "application_name": name,
            "connect_timeout": str(int(limits.connect_timeout.total_seconds())),
            "keepalives": "1",
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "keepalives_count": "3",
        }
        joint = "&" if "?" in url else "?"
        self._uri = url + joint + "&".join(f"{key}={quote(value, safe='')}" for key, value in parameters.items())

    def __enter__(self) -> Self:
        with _translated("The source database cannot be reached", SourceUnreachable):
            self._database = adbc_driver_postgresql.connect(self._uri)
            try:
                self._connection = adbc.AdbcConnection(self._database)
            except BaseException:
                self._database.close()
                raise
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the transaction and the connection, whatever state they are in."""
        for handle in (self._connection, self._database):
            with contextlib.suppress(adbc.Error):
                handle.close()

    def cancel(self) -> None:
        """Interrupt what runs now and refuse what would follow. Another thread may call it."""
        with self._guard:
            self._cancelled = True
            if self._reading is not None:
                with contextlib.suppress(adbc.Error):
                    self._reading.cancel()

    def set(self, settings: Mapping[str, str]) -> None:
        """Set values for this transaction. They travel as bound parameters and are never read as SQL."""
        if not settings:
            return
        names, values = list(settings), list(settings.values())
        with self._statement("SELECT pg_catalog.set_config($1, $2, true)") as statement:
            statement.bind(pa.record_batch({"name": names, "value": values}))
            self._fetch(statement)

    def describe(self, sql: str) -> pa.Schema:
        """The Arrow schema of a query, with PostgreSQL's type names, without running it."""
        with self._statement(sql) as statement:
            handle = statement.execute_schema()  # owns what is imported
            return pa.Schema._import_from_c(handle.address)  # noqa: SLF001 - Arrow's C interface

    def value(self, sql: str) -> Any:
        """Run a statement that answers with one value."""
        with self._statement(sql) as statement:
            # Not everything that answers may stand inside a COPY.
            statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            return self._fetch(statement).column(0)[0].as_py()

    def read(self, sql: str, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query that has no bound parameters, in batches of about ``batch_bytes``."""
        with self._statement(sql) as statement:
            statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(batch_bytes)})
            stream, _ = statement.execute_query()
            yield from AdbcRecordBatchReader._import_from_c(stream.address)  # noqa: SLF001

    def now(self) -> datetime:
        """The start of the transaction: whatever was committed before it is in the snapshot."""
        value = self.value("SELECT pg_catalog.now()")
        assert isinstance(value, datetime)
        return value.astimezone(UTC)

    def prepare(self, sql: str) -> int | None:
        """Plan a query, which locks every table it reads until the end.

        Returns:
            About how many rows it will give, by the planner's reckoning; None if it does not say.

        Raises:
            SourceError: also when the snapshot is older than what a table holds now; a new session has a newer one.
        """
        plan = json.loads(self.value(f"EXPLAIN (FORMAT JSON) {sql}"))
        replaced = self.value(REPLACED)
        if replaced is not None:
            raise SourceError(
                "A table was altered, emptied or replaced just before it was read: try again (SQLSTATE 40001).",
                sqlstate="40001",
                detail=f"relation {replaced}",
            )
        rows = plan[0]["Plan"].get("Plan Rows")
        return None if rows is None else int(rows)

    def _begin(self) -> None:
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Not before PostgreSQL 14, and not on every platform: then the keepalives must do.
        self._run("SAVEPOINT s")
        try:
            self.set({CHECK_CLIENT: "10s"})
        except SourceError:
            self._run("ROLLBACK TO SAVEPOINT s")
        self.set(
            {
                **DIALECT,
                "statement_timeout": _milliseconds(self._limits.statement_timeout),
                "idle_in_transaction_session_timeout": _milliseconds(self._limits.idle_timeout),
            }
        )

    def _run(self, sql: str) -> None:
        with self._statement(sql) as statement:
            statement.execute_update()

    def _fetch(self, statement: adbc.AdbcStatement) -> pa.Table:
        stream, _ = statement.execute_query()
        return AdbcRecordBatchReader._import_from_c(stream.address).read_all()  # noqa: SLF001

    @contextlib.contextmanager
    def _statement(self, sql: str) -> Iterator[adbc.AdbcStatement]:
        with _translated("The source database refused the query"):
            statement = adbc.AdbcStatement(self._connection)
            try:
                statement.set_sql_query(sql)
                with self._guard:
                    if self._cancelled:
                        raise SourceError("the query was cancelled", sqlstate="57014")
                    self._reading = statement
                yield statement
            finally:
                with self._guard:
                    self._reading = None
                statement.close()


@contextlib.contextmanager
def _translated(fallback: str, kind: type[SourceError] = SourceError) -> Iterator[None]:
    """Name an error of the driver; ``kind`` is what it is when it comes without a SQLSTATE."""
    try:
        yield
    except adbc.Error as error:
        state = error.sqlstate or ("53300" if any(words in str(error) for words in FULL) else None)
        words = next(
            (PLAIN_WORDS[key] for key in (state or "", (state or "")[:3], (state or "")[:2]) if key in PLAIN_WORDS),
            None,
        )
        message = words or fallback[0].lower() + fallback[1:]
        message = message[0].upper() + message[1:] + (f" (SQLSTATE {state})" if state else "") + "."
        raise (SourceError if state else kind)(message, sqlstate=state, detail=str(error)) from None


def _milliseconds(span: timedelta) -> str:
    return str(int(span.total_seconds() * 1000))
