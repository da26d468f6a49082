"""Who asks: the key of each request, what it may do, for which tenant, and how often."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from cachetools import TTLCache
from fastapi import Depends, Header, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from api.problems import ApiError
from outhaul.domain.access import ApiKey, Scope
from outhaul.errors import InvalidRequest
from outhaul.wiring import App

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

KNOWN_FOR_S = 5.0  # one look-up serves a client that polls; a revoked key works for as long
MAX_KNOWN = 10_000
TENANT_HEADER = "Outhaul-Tenant"


class Gate:
    """What one process of the API knows about the keys that come by. Belongs to the event loop: threads keep off."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._known: TTLCache[str, ApiKey] = TTLCache(MAX_KNOWN, KNOWN_FOR_S)
        self._limit = RateLimitItemPerMinute(app.settings.requests_per_minute)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def key(self, text: str) -> ApiKey | None:
        """The key that ``text`` is, if it is in force."""
        key = self._known.get(text)
        if key is None:
            key = await run_in_threadpool(self._app.access.check, text)
            if key is not None:
                self._known[text] = key
        return key

    def count(self, key: ApiKey) -> float | None:
        """Count a request; the time at which there is room again if it is one too many."""
        if self._limiter.hit(self._limit, str(key.id)):
            return None
        return self._limiter.get_window_stats(self._limit, str(key.id)).reset_time


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent the request.

    Attributes:
        key: its key.
        name: of the tenant it speaks for; None for an admin who named none.
        tenant_id: the same tenant.
    """

    key: ApiKey
    name: str | None
    tenant_id: UUID | None

    @property
    def actor(self) -> str:
        """How it stands in the history of jobs."""
        return f"key {self.key.name}"

    @property
    def tenant(self) -> str:
        """The tenant it speaks for. Raises InvalidRequest when it is an admin who named none."""
        if self.name is None:
            raise InvalidRequest(TENANT_HEADER, "an admin's key must say with this header for which tenant it asks")
        return self.name


# What needs no database stays on the event loop: a hop to a thread costs more than the work.
async def app_of(request: Request) -> App:
    """Outhaul, as it was set up when the server started."""
    app: App = request.app.state.outhaul
    return app


Outhaul = Annotated[App, Depends(app_of)]
bearer = HTTPBearer(auto_error=False, description="A key made with `outhaul keys add`.")


def caller(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """A dependency that lets through keys with this scope, and says who they are."""

    async def check(
        request: Request,
        app: Outhaul,
        given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
        tenant: Annotated[
            str | None, Header(alias=TENANT_HEADER, description="For an admin's key: the tenant it speaks for.")
        ] = None,
    ) -> Caller:
        gate: Gate = request.app.state.gate
        key = await gate.key(given.credentials) if given else None
        if key is None:
            words = "this key is not valid: it is unknown, revoked or has expired" if given else "a key is needed"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", f"Authorization: {words}", headers=headers)
        _hold_to_limit(gate, key)
        if not key.may(scope):
            raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", f"this key lacks the scope {scope}")
        if tenant is None or tenant == key.tenant:
            return Caller(key, key.tenant, key.tenant_id)
        if key.tenant is not None:
            raise ApiError(HTTPStatus.NOT_FOUND, "not_found", f"{TENANT_HEADER}: there is no such tenant")
        owner = await run_in_threadpool(app.tenants.get, tenant)
        return Caller(key, owner.name, owner.id)

    return check


def _hold_to_limit(gate: Gate, key: ApiKey) -> None:
    reset = gate.count(key)
    if reset is None:
        return

    wait = max(1, round(reset - time.time()))
    raise ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        "too_many",
        "this key has made as many requests as it may in a minute",
        headers={"Retry-After": str(wait)},
    )


Reader = Annotated[Caller, Depends(caller(Scope.READ))]
Writer = Annotated[Caller, Depends(caller(Scope.WRITE))]
