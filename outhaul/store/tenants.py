"""The tenants' rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from outhaul.domain.job import Tenant
from outhaul.errors import InvalidRequest, NotFound, Refused, unknown
from outhaul.store.database import query, transaction

if TYPE_CHECKING:
    from sqlalchemy import Engine

# A name is the first step of its files' object keys.
NAME = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")
PLANS = ("free", "pro", "enterprise")


class TenantStore:
    """Reads and changes tenants. All methods raise Unavailable when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(self, name: str, plan: str, max_concurrent_jobs: int) -> Tenant:
        """Add a tenant. Raises Refused when the name is taken, InvalidRequest when a value is wrong."""
        _check(name, plan, max_concurrent_jobs)
        params = {"name": name, "plan": plan, "max_concurrent_jobs": max_concurrent_jobs}
        with transaction(self.engine) as connection:
            row = connection.execute(query("tenant_add"), params).mappings().one_or_none()
        if row is None:
            raise Refused(f"there is already a tenant {name!r}")
        return Tenant(**row)

    def get(self, name: str) -> Tenant:
        """Read a tenant by name. Raises NotFound with the closest name."""
        with transaction(self.engine) as connection:
            row = connection.execute(query("tenant_get"), {"name": name}).mappings().one_or_none()
        if row is None:
            raise NotFound(unknown("tenant", name, (tenant.name for tenant in self.all())))
        return Tenant(**row)

    def all(self) -> list[Tenant]:
        """All tenants by name."""
        with transaction(self.engine) as connection:
            return [Tenant(**row) for row in connection.execute(query("tenant_list")).mappings()]

    def set(self, name: str, **changes: Any) -> Tenant:
        """Change plan, export_enabled or max_concurrent_jobs; None leaves a value. Raises NotFound, InvalidRequest."""
        _check(name, changes.get("plan"), changes.get("max_concurrent_jobs"))
        params = {"plan": None, "export_enabled": None, "max_concurrent_jobs": None, **changes, "name": name}
        with transaction(self.engine) as connection:
            row = connection.execute(query("tenant_set"), params).mappings().one_or_none()
        return Tenant(**row) if row else self.get(name)


def _check(name: str, plan: str | None, max_concurrent_jobs: int | None) -> None:
    if not NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidRequest("tenant", "a name has 1 to 255 characters, no slash and no control character among them")
    if plan is not None and plan not in PLANS:
        raise InvalidRequest("plan", unknown("plan", plan, PLANS))
    if max_concurrent_jobs is not None and max_concurrent_jobs < 1:
        raise InvalidRequest("max_concurrent_jobs", "must be at least 1; use export_enabled to stop a tenant")
