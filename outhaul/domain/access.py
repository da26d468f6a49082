"""Who asks over HTTP: keys, what they may do, and what they look like."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

PREFIX = "outhaul_"  # lets scanners of leaked secrets know ours
_KEY = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")


class Scope(StrEnum):
    """What a key may do."""

    READ = "read"  # look at the tenant's exports, files and webhooks
    WRITE = "write"  # ask, cancel, retry, and change webhooks
    ADMIN = "admin"  # all of it, of every tenant


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One row of ``api_keys``; ``tenant`` is None for an admin's key."""

    id: UUID
    tenant_id: UUID | None
    tenant: str | None
    name: str
    scopes: frozenset[Scope]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def may(self, scope: Scope) -> bool:
        """Whether the key allows this; an admin's allows all."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def new_key() -> str:
    """A key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def fingerprint(key: str) -> bytes | None:
    """The SHA-256 that is stored of a key, or None for what cannot be one.

    A slow hash would add nothing: nobody guesses 256 random bits.
    """
    return hashlib.sha256(key.encode()).digest() if _KEY.fullmatch(key) else None
