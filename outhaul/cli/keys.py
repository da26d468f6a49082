"""Commands for the keys of the HTTP API."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

from cyclopts import App, Parameter

from outhaul import console
from outhaul.cli.parameters import Json, read_span
from outhaul.domain.access import ApiKey, Scope
from outhaul.wiring import outhaul

keys = App(name="keys", help="Make, list and revoke the keys of the HTTP API.")
COMMANDS = (keys,)


@keys.command(name="add")
def keys_add(
    name: str,
    /,
    *,
    tenant: Annotated[str | None, Parameter(help="Whose exports it sees. Without one the key is an admin's.")] = None,
    scopes: Annotated[str | None, Parameter(help="read, write, or both with a comma. Default: both.")] = None,
    expires: Annotated[str | None, Parameter(help="How long it works, such as 12h or 90d. Default: for ever.")] = None,
    json: Json = False,
) -> None:
    """Make a key called NAME and print it; it is shown this once and stored nowhere."""
    wanted = [scope.strip() for scope in scopes.split(",")] if scopes else [Scope.READ, Scope.WRITE]
    with outhaul() as oh:
        key, text = oh.access.create(
            tenant,
            name,
            wanted if tenant else [Scope.ADMIN],
            lasting=read_span("expires", expires),
            actor=getpass.getuser(),
        )
    if json:
        console.print_json({**_document(key), "key": text})
    else:
        sys.stdout.write(f"{text}\n")


@keys.command(name="list")
def keys_list(*, tenant: str | None = None, json: Json = False) -> None:
    """List the keys, of one tenant or all."""
    with outhaul() as oh:
        found = oh.access.all(tenant)
    if json:
        console.print_json([_document(key) for key in found])
    else:
        console.table(
            ["id", "name", "tenant", "scopes", "created (UTC)", "expires (UTC)", "last used (UTC)", "state"],
            [
                (
                    str(key.id)[:8],
                    key.name,
                    key.tenant or "(all)",
                    ", ".join(sorted(key.scopes)),
                    *(at and f"{at:%Y-%m-%d %H:%M}" for at in (key.created_at, key.expires_at, key.last_used_at)),
                    "revoked" if key.revoked_at else "",
                )
                for key in found
            ],
        )


@keys.command(name="revoke")
def keys_revoke(key_id: str, /) -> None:
    """End the key whose id is, or begins with, KEY-ID; servers know of it within seconds."""
    with outhaul() as oh:
        key = oh.access.revoke(key_id)
    sys.stdout.write(f"revoked {key.name} ({key.id})\n")


def _document(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "tenant": key.tenant,
        "scopes": sorted(key.scopes),
        "created_by": key.created_by,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }
