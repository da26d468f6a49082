"""Commands that hold things back and let them go."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

from cyclopts import Parameter

from outhaul import console
from outhaul.cli.parameters import Json, read_span
from outhaul.domain.pause import Scope
from outhaul.errors import InvalidRequest, unknown
from outhaul.wiring import outhaul

ScopeName = Annotated[str, Parameter(help="queue, tenant, dataset or source.")]
Name = Annotated[str, Parameter(help="Which one; the queue has no name.")]


def pause(
    scope: ScopeName,
    name: Name = "",
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; shown to whoever waits.")] = "",
    lasting: Annotated[
        str | None, Parameter("--for", help="End the pause by itself after so long, such as 90s, 30m, 2h or 1d.")
    ] = None,
) -> None:
    """Hold back the whole queue, a tenant, a dataset or a source.

    Jobs can still be asked for, and wait in line; those that have been admitted go on.
    """
    with outhaul() as oh:
        paused, new = oh.pausing.pause(
            _scope(scope), name, actor=getpass.getuser(), reason=reason, lasting=read_span("for", lasting)
        )
    sys.stdout.write(f"{paused.thing} is {'' if new else 'still '}paused\n")


def resume(scope: ScopeName, name: Name = "", /) -> None:
    """Let go what was paused, and admit what waited for it."""
    with outhaul() as oh:
        kind = _scope(scope)
        admitted = oh.pausing.resume(kind, name, actor=getpass.getuser())
    sys.stdout.write(f"{kind}{f' {name}' if name else ''} goes on, {admitted} jobs admitted\n")


def pauses(*, json: Json = False) -> None:
    """List what is paused, by whom and why; sources that are down are among it."""
    with outhaul() as oh:
        found = oh.pausing.all()
    if json:
        console.print_json(found)
    else:
        console.table(
            ["paused", "by", "since (UTC)", "until (UTC)", "reason", "detail"],
            [
                (
                    p.thing,
                    p.actor,
                    f"{p.since:%Y-%m-%d %H:%M:%S}" if p.since else "",
                    f"{p.until:%Y-%m-%d %H:%M:%S}" if p.until else "resumed",
                    p.reason,
                    p.detail,
                )
                for p in found
            ],
        )


def _scope(text: str) -> Scope:
    if text not in list(Scope):
        raise InvalidRequest("scope", unknown("scope", text, Scope))
    return Scope(text)


COMMANDS = (pause, resume, pauses)
