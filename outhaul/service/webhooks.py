"""The tenants' webhooks: add, change, try and remove them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from outhaul.domain.notices import OUTCOMES, Endpoint, Notice
from outhaul.errors import InvalidRequest, Refused, unknown
from outhaul.notify import webhook

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from outhaul.notify.answer import Answer
    from outhaul.notify.guard import Guard
    from outhaul.store.endpoints import EndpointStore
    from outhaul.store.tenants import TenantStore

MAX_ENDPOINTS = 20
MAX_DESCRIPTION = 200
MAX_OVERLAP = timedelta(days=7)
OVERLAP = timedelta(days=1)
TEST = "outhaul.test"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Webhooks of one tenant at a time.

    Methods raise NotFound for what does not exist, InvalidRequest for what cannot be, and Unavailable without database.
    """

    endpoints: EndpointStore
    tenants: TenantStore
    guard: Guard

    def add(
        self, tenant: str, url: str, *, events: Sequence[str] | None = None, description: str = "", actor: str
    ) -> tuple[Endpoint, str]:
        """Add one; returns it and the secret that signs, which is shown this once. Raises Refused beyond a number."""
        wanted = self._check(url, events, description)
        owner = self.tenants.get(tenant)
        if len(self.endpoints.all(owner.id)) >= MAX_ENDPOINTS:
            raise Refused(f"tenant {tenant} has {MAX_ENDPOINTS} webhooks, which is the most it may have")
        secret = webhook.new_secret()
        endpoint = self.endpoints.add(
            owner.id, url, wanted or OUTCOMES, description=description, secret=secret, actor=actor
        )
        return endpoint, secret

    def all(self, tenant: str) -> list[Endpoint]:
        """The tenant's, oldest first."""
        return self.endpoints.all(self.tenants.get(tenant).id)

    def get(self, tenant: str, endpoint_id: UUID) -> Endpoint:
        """One of the tenant's."""
        return self.endpoints.get(self.tenants.get(tenant).id, endpoint_id)

    def set(
        self,
        tenant: str,
        endpoint_id: UUID,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Endpoint:
        """Change what is given. Switched on again, it is told of what happens from then on."""
        wanted = self._check(url, events, description)
        return self.endpoints.set(
            self.tenants.get(tenant).id,
            endpoint_id,
            url=url,
            events=wanted,
            description=description,
            enabled=enabled,
        )

    def rotate(self, tenant: str, endpoint_id: UUID, overlap: timedelta = OVERLAP) -> tuple[Endpoint, str]:
        """Make a new secret, shown this once; the one before signs as well for ``overlap``."""
        if not timedelta(0) <= overlap <= MAX_OVERLAP:
            raise InvalidRequest("overlap_seconds", f"must be 0 to {MAX_OVERLAP.total_seconds():.0f}")
        secret = webhook.new_secret()
        return self.endpoints.rotate(self.tenants.get(tenant).id, endpoint_id, secret, overlap), secret

    def remove(self, tenant: str, endpoint_id: UUID) -> None:
        """Remove one; what it was sent stays in the log."""
        self.endpoints.remove(self.tenants.get(tenant).id, endpoint_id)

    def test(self, tenant: str, endpoint_id: UUID) -> Answer:
        """Send a signed message of the type ``outhaul.test`` now, once, and say what became of it."""
        endpoint = self.get(tenant, endpoint_id)
        now = datetime.now(UTC)
        body: dict[str, Any] = {"type": TEST, "timestamp": now.isoformat(), "data": {"webhook": str(endpoint.id)}}
        return webhook.send(
            endpoint.url,
            message_id=f"test_{uuid4().hex}",
            at=now,
            body=json.dumps(body).encode(),
            secrets=self.endpoints.secrets(endpoint.id),
            guard=self.guard,
            headers={},
        )

    def _check(
        self, url: str | None, events: Sequence[str] | None, description: str | None
    ) -> tuple[Notice, ...] | None:
        if url is not None:
            self.guard.check_url(url)
        if description is not None and (len(description) > MAX_DESCRIPTION or not description.isprintable()):
            raise InvalidRequest("description", f"may have {MAX_DESCRIPTION} printable characters")
        if events is None:
            return None
        if not events:
            raise InvalidRequest("events", "name at least one; switch the webhook off to be told of nothing")
        for event in events:
            if event not in list(Notice):
                raise InvalidRequest("events", unknown("event", event, Notice))
        return tuple(Notice(event) for event in dict.fromkeys(events))
