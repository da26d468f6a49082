"""What is held back: rows of ``pauses``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outhaul.domain.pause import Pause, Scope
from outhaul.store.database import autocommit, query

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from sqlalchemy import Engine, RowMapping


class PauseStore:
    """Reads and changes the pauses. All methods raise Unavailable when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(self, pause: Pause, lasting: timedelta | None = None) -> bool:
        """Pause something for so long, or until it is lifted; False when it was paused already.

        A person's pause replaces any other; an automatic one only lengthens what is automatic itself.
        """
        params = {
            "scope": str(pause.scope),
            "name": pause.name,
            "reason": pause.reason,
            "detail": pause.detail,
            "actor": pause.actor,
            "automatic": pause.automatic,
            "lasting_s": lasting and lasting.total_seconds(),
        }
        with autocommit(self.engine) as connection:
            return bool(connection.execute(query("pause_add"), params).scalar_one_or_none())

    def lift(self, scope: Scope, name: str, *, automatic_only: bool = False) -> bool:
        """End a pause; False when there was none."""
        params = {"scope": str(scope), "name": name, "automatic_only": automatic_only}
        with autocommit(self.engine) as connection:
            return connection.execute(query("pause_lift"), params).one_or_none() is not None

    def all(self) -> list[Pause]:
        """Those in force, by scope and name."""
        with autocommit(self.engine) as connection:
            return read_pauses(connection.execute(query("pause_list")).mappings())


def read_pauses(rows: Iterable[RowMapping]) -> list[Pause]:
    """Rows of ``pauses``, as Pauses."""
    return [Pause(**{**row, "scope": Scope(row["scope"])}) for row in rows]
