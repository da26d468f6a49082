"""Commands that start, stop and set up the stack."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from outhaul import console
from outhaul.cli.parameters import Json
from outhaul.errors import Unavailable
from outhaul.wiring import outhaul

if TYPE_CHECKING:
    from outhaul.settings import Settings
    from outhaul.stack.supervisor import Stack


def stack_of(settings: Settings) -> Stack:
    """The stack that the settings describe."""
    from outhaul.stack.supervisor import Stack

    return Stack(
        settings.home,
        os.environ,
        settings.prefect_port,
        api_port=settings.api_port,
        prefect_api_url=os.environ.get("PREFECT_API_URL"),
        database_url=settings.outside_database,
        source_url=settings.outside_source,
    )


def say(component: str, event: str) -> None:
    """One line about a component."""
    console.err.print(f"[bold]{component:20}[/] {event}", soft_wrap=True)


def up(*, detach: Annotated[bool, Parameter(negative="", help="Return when everything answers.")] = False) -> None:
    """Start the whole stack and keep it running until interrupted; safe to repeat.

    PostgreSQL, a Prefect server, two workers and the HTTP API; the first two only unless the environment names one
    outside (OUTHAUL_DATABASE_URL, PREFECT_API_URL). The database is migrated, pools and deployments are set up.
    """
    with outhaul() as oh:
        oh.files.check()
        stack = stack_of(oh.settings)
        started = stack.detach(say) if detach else stack.up(say)
        if not started:
            say("stack", "is up already")
        elif not detach:
            say("stack", "ready; interrupt to stop it")
            stack.wait(say)


def down() -> None:
    """Stop the stack; jobs that wait stay in the database."""
    with outhaul() as oh:
        if not stack_of(oh.settings).down(say):
            say("stack", "was not up")


def status(*, json: Json = False) -> None:
    """Show which parts of the stack run, and the queue by status: of what has ended, the last 24 hours' jobs."""
    with outhaul() as oh:
        standings = stack_of(oh.settings).status()
        database_up = any(s.component == "postgres" and s.state != "stopped" for s in standings)
        counts = oh.exports.counts() if database_up else {}
    if json:
        console.print_json({"components": standings, "jobs": {str(key): jobs for key, (jobs, _) in counts.items()}})
        return
    console.table(
        ["component", "state", "pid", "address"], [(s.component, s.state, s.pid, s.address) for s in standings]
    )
    if counts:
        console.out.print()
        console.table(
            ["status", "jobs", "oldest (UTC)"],
            [
                (console.status_text(key), f"{jobs:,}", f"{old:%Y-%m-%d %H:%M:%S}")
                for key, (jobs, old) in counts.items()
            ],
            right=["jobs"],
        )


def worker(
    pool: Annotated[str, Parameter(help="exports or maintenance.")],
    /,
    *,
    limit: Annotated[int | None, Parameter(help="Runs at once. Default: 4 exports, 2 of maintenance.")] = None,
    grace: Annotated[float, Parameter(help="Seconds that runs may go on once the worker is told to stop.")] = 300,
    name: Annotated[str | None, Parameter(help="What Prefect shows. Default: the pool's name.")] = None,
) -> None:
    """Work off the runs of a Prefect pool, until SIGTERM or Ctrl-C.

    Told to stop, the worker takes no new runs and lets those under way finish; after the grace, or at a second signal,
    they hand their jobs back, at no charge, for another worker to take. PREFECT_API_URL names the Prefect server.
    """
    from outhaul.stack.worker import work

    with outhaul() as oh:
        os.environ.setdefault("PREFECT_API_URL", oh.prefect_api_url)
    work(pool, limit=limit, grace=timedelta(seconds=grace), name=name)


def deploy() -> None:
    """Set up work pools, limits and deployments on the Prefect server that PREFECT_API_URL names; safe to repeat."""
    if subprocess.run([sys.executable, "-m", "deployments.bootstrap"], check=False).returncode:
        raise Unavailable("the deployments could not be set up; the lines above say why")


def demo(*, keep: Annotated[bool, Parameter(negative="", help="Leave the stack running.")] = False) -> int:
    """Load a year of New York flights, export United's through the queue, and show the files."""
    from outhaul.cli.tour import tour

    with outhaul() as oh:
        return tour(oh, keep=keep)


COMMANDS = (up, down, status, worker, deploy, demo)
