"""The addresses that tenants want to be told at: rows of ``webhook_endpoints``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from outhaul.domain.notices import Endpoint, Notice
from outhaul.errors import NotFound
from outhaul.store.database import autocommit, query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Engine, RowMapping

ENDPOINT_FIELDS = tuple(field.name for field in fields(Endpoint))


class EndpointStore:
    """Reads and changes webhooks, of one tenant at a time; another tenant's do not exist.

    Methods that name one raise NotFound; all raise Unavailable when the database does not answer.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(
        self, tenant_id: UUID, url: str, events: Sequence[Notice], *, description: str, secret: str, actor: str
    ) -> Endpoint:
        """Add one."""
        return self._one(
            "endpoint_add",
            tenant_id=tenant_id,
            url=url,
            events=[str(event) for event in events],
            description=description,
            secret=secret,
            actor=actor,
        )

    def all(self, tenant_id: UUID) -> list[Endpoint]:
        """The tenant's, oldest first."""
        with autocommit(self.engine) as connection:
            rows = connection.execute(query("endpoint_list"), {"tenant_id": tenant_id}).mappings()
            return [_read(row) for row in rows]

    def get(self, tenant_id: UUID, endpoint_id: UUID) -> Endpoint:
        """Read one."""
        return self._one("endpoint_get", tenant_id=tenant_id, id=endpoint_id)

    def set(
        self,
        tenant_id: UUID,
        endpoint_id: UUID,
        *,
        url: str | None = None,
        events: Sequence[Notice] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Endpoint:
        """Change what is given; None leaves a value."""
        return self._one(
            "endpoint_set",
            tenant_id=tenant_id,
            id=endpoint_id,
            url=url,
            events=None if events is None else [str(event) for event in events],
            description=description,
            enabled=enabled,
        )

    def rotate(self, tenant_id: UUID, endpoint_id: UUID, secret: str, overlap: timedelta) -> Endpoint:
        """Give it a new key; the one before signs as well for ``overlap``."""
        return self._one(
            "endpoint_rotate", tenant_id=tenant_id, id=endpoint_id, secret=secret, overlap_s=overlap.total_seconds()
        )

    def remove(self, tenant_id: UUID, endpoint_id: UUID) -> None:
        """Remove one; what it was sent stays in the log."""
        with autocommit(self.engine) as connection:
            params = {"tenant_id": tenant_id, "id": endpoint_id}
            if connection.execute(query("endpoint_remove"), params).first() is None:
                raise NotFound(f"there is no webhook {endpoint_id}")

    def disable(self, endpoint_id: UUID, reason: str) -> None:
        """Stop sending to one, whoever's it is."""
        with autocommit(self.engine) as connection:
            connection.execute(query("endpoint_disable"), {"id": endpoint_id, "reason": reason})

    def secrets(self, endpoint_id: UUID) -> tuple[str, ...]:
        """The keys that sign now, newest first."""
        with autocommit(self.engine) as connection:
            return tuple(connection.execute(query("endpoint_secrets"), {"id": endpoint_id}).scalar_one())

    def _one(self, name: str, **params: Any) -> Endpoint:
        with autocommit(self.engine) as connection:
            row = connection.execute(query(name), params).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no webhook {params['id']}")
        return _read(row)


def _read(row: RowMapping) -> Endpoint:
    values: dict[str, Any] = {name: row[name] for name in ENDPOINT_FIELDS}
    return Endpoint(**{**values, "events": tuple(Notice(event) for event in row["events"])})
