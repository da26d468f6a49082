"""The table that is measured: made once, kept for the next run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from outhaul.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Orders:
    """A table of orders in a database."""

    url: str
    table: str
    rows: int

    def prepare(self) -> str:
        """Have the table in the database and in its caches, and return the server's version.

        Raises:
            Unavailable: the server does not answer or refuses.
        """
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                self._ensure(connection)
                # Reads every page, so that whoever is measured first does not pay for it.
                connection.execute(sql.SQL("SELECT sum(hashtext(note)) FROM {}").format(sql.Identifier(self.table)))
                return str(connection.info.parameter_status("server_version"))
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise Unavailable(f"the table {self.table} cannot be prepared: {reason}") from error

    def _ensure(self, connection: psycopg.Connection) -> None:
        """Make the table unless the very same one is there; its comment tells."""
        template = (Path(__file__).parent / "orders.sql").read_text()
        script = template.replace("{table}", self.table).replace("{rows}", str(self.rows))
        mark = hashlib.sha256(script.encode()).hexdigest()
        there = connection.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", [self.table]).fetchone()
        if there == (mark,):
            return
        with connection.transaction():  # the server need not log what it fills a table with that it made itself
            connection.execute(script)
        name = sql.Identifier(self.table)
        connection.execute(sql.SQL("VACUUM (FREEZE, ANALYZE) {}").format(name))
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, mark))
