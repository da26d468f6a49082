"""The keys of the HTTP API: rows of ``api_keys``, which hold their fingerprints only."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from outhaul.domain.access import ApiKey, Scope
from outhaul.errors import NotFound
from outhaul.store.database import autocommit, query

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Engine, RowMapping

    from outhaul.domain.job import Tenant

KEY_FIELDS = tuple(field.name for field in fields(ApiKey))


class KeyStore:
    """Reads and changes keys. All methods raise Unavailable when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(
        self,
        tenant: Tenant | None,
        name: str,
        hash_: bytes,
        scopes: Collection[Scope],
        *,
        lasting: timedelta | None,
        actor: str,
    ) -> ApiKey:
        """Store a key of one tenant, or, with None, of an admin; it ends after ``lasting`` if given."""
        params = {
            "tenant_id": tenant and tenant.id,
            "name": name,
            "hash": hash_,
            "scopes": sorted(scopes),
            "actor": actor,
            "lasting_s": lasting and lasting.total_seconds(),
        }
        with autocommit(self.engine) as connection:
            row = connection.execute(query("key_add"), params).mappings().one()
        return _read({**row, "tenant": tenant and tenant.name})

    def use(self, hash_: bytes) -> ApiKey | None:
        """The key with this fingerprint, if it is neither revoked nor past its end."""
        with autocommit(self.engine) as connection:
            row = connection.execute(query("key_use"), {"hash": hash_}).mappings().one_or_none()
        return _read(row) if row else None

    def all(self, tenant_id: UUID | None = None) -> list[ApiKey]:
        """The keys of one tenant or all, oldest first."""
        with autocommit(self.engine) as connection:
            return [_read(row) for row in connection.execute(query("key_list"), {"tenant_id": tenant_id}).mappings()]

    def revoke(self, key_id: UUID) -> None:
        """End a key now. Raises NotFound, also for one that was revoked before."""
        with autocommit(self.engine) as connection:
            if connection.execute(query("key_revoke"), {"id": key_id}).first() is None:
                raise NotFound(f"there is no key {key_id} in force")


def _read(row: RowMapping | dict[str, Any]) -> ApiKey:
    values = {name: row[name] for name in KEY_FIELDS}
    return ApiKey(**{**values, "scopes": frozenset(Scope(scope) for scope in row["scopes"])})
