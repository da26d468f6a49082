"""The queue's tables with a past of any length: made once, kept for the next run."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from outhaul.errors import Unavailable
from outhaul.store import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outhaul.stack.postgres import EmbeddedPostgres

FOLDER = Path(__file__).parent
MAX_TENANTS = 10_000


@dataclass(frozen=True, slots=True)
class Tables:
    """A database of its own with the tables of this release, holding ``jobs`` jobs that have ended."""

    server: EmbeddedPostgres
    jobs: int

    @property
    def database(self) -> str:
        """The database's name."""
        return f"queue_{self.jobs}"

    @property
    def url(self) -> str:
        """Where it is; the server must run."""
        return self.server.url(self.database)

    @property
    def tenants(self) -> int:
        """How many tenants share the jobs."""
        return min(MAX_TENANTS, self.jobs)

    def prepared(self) -> bool:
        """Whether the past is there, made by this very script; the database's comment tells."""
        with translated(), psycopg.connect(self.server.url("postgres")) as connection:
            found = connection.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [self.database]
            ).fetchone()
        return found == (self._mark(),)

    def prepare(self) -> None:
        """Make the database and its past anew. Raises Unavailable."""
        fresh_database(self.server, self.database)
        migrate.upgrade(self.url)
        with translated(), psycopg.connect(self.url, autocommit=True) as connection:
            with connection.transaction():
                connection.execute(self._script("queue_seed.sql"))
            connection.execute("VACUUM (FREEZE, ANALYZE)")
            connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(self.database), self._mark())
            )

    def refresh(self) -> None:
        """Bring the schema up to date and put the present back as every run finds it. Raises Unavailable."""
        migrate.upgrade(self.url)
        with translated(), psycopg.connect(self.url, autocommit=True) as connection:
            with connection.transaction():
                connection.execute(self._script("queue_live.sql"))
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    def _script(self, name: str) -> bytes:
        template = (FOLDER / name).read_text()
        return template.replace("{jobs}", str(self.jobs)).replace("{tenants}", str(self.tenants)).encode()

    def _mark(self) -> str:
        return hashlib.sha256(self._script("queue_seed.sql")).hexdigest()


def fresh_database(server: EmbeddedPostgres, name: str) -> str:
    """Make an empty database, dropping the one of that name, and return its URL. Raises Unavailable."""
    with translated(), psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url(name)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into one line. Raises Unavailable."""
    try:
        yield
    except psycopg.Error as error:
        reason = str(error).partition("\n")[0]
        raise Unavailable(f"the benchmark's database refuses: {reason}", detail=str(error)) from error
