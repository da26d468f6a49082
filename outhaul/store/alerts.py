"""What operators have to be told: read from jobs and notices, remembered in ``alerts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outhaul.domain.alerts import AGAIN, PATIENCE, QUIET, Kind, Trouble
from outhaul.store.database import autocommit, query

if TYPE_CHECKING:
    from sqlalchemy import Engine, RowMapping

SPANS = {"quiet_s": QUIET.total_seconds(), "patience_s": PATIENCE.total_seconds(), "again_s": AGAIN.total_seconds()}


class AlertStore:
    """Finds trouble. All methods raise Unavailable when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def find(self) -> list[Trouble]:
        """What has not been told of, one for each cause."""
        with autocommit(self.engine) as connection:
            return [
                _read(kind, row)
                for kind in Kind
                for row in connection.execute(query(f"alert_{kind}"), SPANS).mappings()
            ]

    def take(self, trouble: Trouble) -> bool:
        """Take it, to tell of it; False when another has."""
        params = {"kind": str(trouble.kind), "key": trouble.key, "last_at": trouble.last_at, **SPANS}
        with autocommit(self.engine) as connection:
            return connection.execute(query("alert_take"), params).first() is not None

    def give_back(self, trouble: Trouble) -> None:
        """It could not be told: it is found again in a few minutes."""
        with autocommit(self.engine) as connection:
            connection.execute(query("alert_return"), {"kind": str(trouble.kind), "key": trouble.key, **SPANS})


def _read(kind: Kind, row: RowMapping) -> Trouble:
    facts: dict[str, Any] = dict(row)
    return Trouble(
        kind,
        facts["key"],
        facts.get("jobs") or facts["notices"],
        facts["first_at"],
        facts["last_at"],
        facts["newest"],
        tuple(facts.get("tenants", ())),
        facts.get("dataset") or facts.get("addressee") or "",
        facts.get("code", ""),
        facts.get("message", ""),
        facts.get("run"),
    )
