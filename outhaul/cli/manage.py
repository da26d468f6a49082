"""Commands for the schema, the tenants and the datasets."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from outhaul import console
from outhaul.cli.parameters import Json
from outhaul.domain.job import DEFAULT_SOURCE
from outhaul.wiring import outhaul

migrate = App(name="migrate", help="Bring the queue's database to this release's schema, or back.")
tenants = App(name="tenants", help="Add, list and change tenants.")
datasets = App(name="datasets", help="Show what can be exported.")
COMMANDS = (tenants, datasets, migrate)


@migrate.command(name="up")
def migrate_up(version: str | None = None, /) -> None:
    """Apply the migrations that are missing, all or up to VERSION such as 0002."""
    from outhaul.store.migrate import upgrade

    with outhaul() as oh:
        done = upgrade(oh.database_url, version)
    sys.stdout.write(f"applied: {', '.join(done) or 'nothing, the database is up to date'}\n")


@migrate.command(name="down")
def migrate_down(version: str, /) -> None:
    """Undo the migrations after VERSION such as 0002; 0000 undoes all, with all data."""
    from outhaul.store.migrate import downgrade

    with outhaul() as oh:
        done = downgrade(oh.database_url, version)
    sys.stdout.write(f"undone: {', '.join(done) or 'nothing'}\n")


@migrate.command(name="status")
def migrate_status(*, json: Json = False) -> None:
    """List the migrations and whether each is applied."""
    from outhaul.store.migrate import status as migrations

    with outhaul() as oh:
        found = migrations(oh.database_url)
    if json:
        console.print_json(found)
    else:
        console.table(
            ["version", "name", "applied"], [(m.version, m.label, "yes" if m.applied else "no") for m in found]
        )


@tenants.command(name="add")
def tenants_add(name: str, /, *, plan: str = "free", max_concurrent_jobs: int = 2) -> None:
    """Add a tenant."""
    with outhaul() as oh:
        tenant = oh.tenants.add(name, plan, max_concurrent_jobs)
    sys.stdout.write(f"added {tenant.name} ({tenant.id})\n")


@tenants.command(name="list")
def tenants_list(*, json: Json = False) -> None:
    """List the tenants."""
    with outhaul() as oh:
        found = oh.tenants.all()
    if json:
        console.print_json(found)
    else:
        console.table(
            ["name", "plan", "exports", "at once"],
            [(t.name, t.plan, "enabled" if t.export_enabled else "disabled", t.max_concurrent_jobs) for t in found],
            right=["at once"],
        )


@tenants.command(name="set")
def tenants_set(
    name: str,
    /,
    *,
    plan: str | None = None,
    max_concurrent_jobs: int | None = None,
    export_enabled: Annotated[bool | None, Parameter(negative="--export-disabled")] = None,
) -> None:
    """Change a tenant; what is not named stays."""
    with outhaul() as oh:
        t = oh.tenants.set(name, plan=plan, max_concurrent_jobs=max_concurrent_jobs, export_enabled=export_enabled)
    enabled = "enabled" if t.export_enabled else "disabled"
    sys.stdout.write(f"{t.name}: plan {t.plan}, exports {enabled}, {t.max_concurrent_jobs} jobs at once\n")


@datasets.command(name="list")
def datasets_list(*, json: Json = False) -> None:
    """List the datasets of the catalog."""
    with outhaul() as oh:
        found = [
            {"name": d.name, "tenant_column": d.tenant, "columns": len(d.columns), "description": d.description}
            for d in oh.catalog
        ]
    if json:
        console.print_json(found)
    else:
        console.table(
            ["name", "tenant column", "columns", "description"],
            [(d["name"], d["tenant_column"] or "(shared)", d["columns"], d["description"]) for d in found],
            right=["columns"],
        )


@datasets.command(name="show")
def datasets_show(name: str, /, *, json: Json = False) -> None:
    """Show a dataset's columns with type, nullability, checks and description."""
    with outhaul() as oh:
        columns = oh.catalog.get(name).columns
    if json:
        console.print_json(columns)
    else:
        console.table(
            ["column", "type", "null", "checks", "description"],
            [(c.name, c.dtype, "yes" if c.nullable else "no", "; ".join(c.checks), c.description) for c in columns],
        )


@datasets.command(name="introspect")
def datasets_introspect(
    table: str,
    /,
    *,
    source: Annotated[str, Parameter(help="Where it is: default, or a name of OUTHAUL_SOURCES.")] = DEFAULT_SOURCE,
) -> None:
    """Write a dataset declaration for TABLE, ready to be put into a catalog module."""
    from outhaul.data.introspect import declare

    with outhaul() as oh:
        sys.stdout.write(declare(oh.sources.url(source), table, source))
