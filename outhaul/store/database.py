"""The control database: one small pool for queue, panel and API, never used to read exported data."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from sqlalchemy import TextClause, create_engine, exc, make_url, text

from outhaul.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

CONNECT_TIMEOUT_S = 5


@cache
def query(name: str) -> TextClause:
    """The statement in ``sql/queries/<name>.sql``."""
    return text(files("sql").joinpath("queries", f"{name}.sql").read_text())


def connect(url: str, *, application_name: str = "outhaul") -> Engine:
    """An engine for ``url``, a libpq-style PostgreSQL URL. Nothing is opened until first use.

    Raises:
        Unavailable: the URL cannot be read.
    """
    try:
        parsed = make_url(url)
    except exc.ArgumentError:
        raise Unavailable("OUTHAUL_DATABASE_URL is not a database URL such as postgresql://user@host/name") from None
    if parsed.get_backend_name() != "postgresql":
        raise Unavailable(f"OUTHAUL_DATABASE_URL must be a PostgreSQL URL, not {parsed.drivername}://")
    return create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=5,
        max_overflow=5,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": application_name,
            "options": "-c timezone=UTC -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s",
            # A pooler in transaction mode hands each transaction another session, which knows no prepared statement.
            "prepare_threshold": None,
        },
    )


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into plain lines.

    Raises:
        Unavailable: the database cannot be reached or has not been migrated.
    """
    try:
        yield
    except exc.TimeoutError as error:
        raise Unavailable("all connections to the queue database are busy: try again", detail=str(error)) from error
    except exc.OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == "55P03":
            raise Unavailable(
                "a table of the queue database stays locked by another session: try again",
                detail=str(error.orig),
            ) from error
        raise Unavailable(
            "the queue database cannot be reached: check OUTHAUL_DATABASE_URL and that it is running",
            detail=str(error.orig),
        ) from error
    except exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) in {"42P01", "42703", "3F000"}:
            raise Unavailable(
                "the queue database is not migrated to this release: run `outhaul migrate up`",
                detail=str(error.orig),
            ) from error
        raise


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that commits at the end or leaves no trace. Raises Unavailable."""
    with translated(), engine.begin() as connection:
        yield connection


@contextmanager
def autocommit(engine: Engine) -> Iterator[Connection]:
    """A connection whose statements are a transaction each: a third of the round trips. Raises Unavailable."""
    with translated(), engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")
