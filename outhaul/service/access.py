"""Keys of the HTTP API: make, check, list and revoke them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from outhaul.domain.access import ApiKey, Scope, fingerprint, new_key
from outhaul.errors import InvalidRequest, NotFound, unknown

if TYPE_CHECKING:
    from collections.abc import Collection

    from outhaul.store.api_keys import KeyStore
    from outhaul.store.tenants import TenantStore

MIN_DIGITS = 4
MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask over HTTP. Methods raise InvalidRequest, NotFound, and Unavailable without the database."""

    keys: KeyStore
    tenants: TenantStore

    def create(
        self, tenant: str | None, name: str, scopes: Collection[str], *, lasting: timedelta | None = None, actor: str
    ) -> tuple[ApiKey, str]:
        """Make a key of a tenant, or, without one, of an admin; returns it and its text, which is shown this once."""
        for scope in scopes:
            if scope not in list(Scope):
                raise InvalidRequest("scopes", unknown("scope", scope, Scope))
        if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
            raise InvalidRequest("name", f"needs 1 to {MAX_NAME} printable characters")
        if (Scope.ADMIN in scopes) != (tenant is None):
            raise InvalidRequest("scopes", "admin is for all tenants: give either a tenant or the scope admin")
        if lasting is not None and lasting <= timedelta(0):
            raise InvalidRequest("expires", "a key must last for a while")
        text = new_key()
        hash_ = fingerprint(text)
        assert hash_ is not None
        owner = None if tenant is None else self.tenants.get(tenant)
        return self.keys.add(owner, name, hash_, {Scope(s) for s in scopes}, lasting=lasting, actor=actor), text

    def check(self, text: str) -> ApiKey | None:
        """The key that ``text`` is, if it is in force."""
        hash_ = fingerprint(text)
        return None if hash_ is None else self.keys.use(hash_)

    def all(self, tenant: str | None = None) -> list[ApiKey]:
        """The keys of a tenant, or all."""
        return self.keys.all(self.tenants.get(tenant).id if tenant else None)

    def revoke(self, start: str) -> ApiKey:
        """End the key whose id is, or begins with, ``start``."""
        found = [key for key in self.keys.all() if str(key.id).startswith(start.lower())]
        if len(start) < MIN_DIGITS or len(found) != 1:
            raise NotFound(f"{start!r} is not the id of a key, nor its first {MIN_DIGITS} or more digits")
        self.keys.revoke(found[0].id)
        return found[0]
