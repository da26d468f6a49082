"""Bring the control database to this release's schema, or back.

A migration is a pair of SQL files, ``sql/migrations/NNNN_name.up.sql`` and ``.down.sql``. Alembic keeps their order,
the version table and one transaction each; the history is built from the file names, so there is no second list.
A file whose first line is ``-- no-transaction`` runs outside one and must be safe to run again from its start.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING, cast

from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script.base import Script
from alembic.script.revision import RevisionMap
from sqlalchemy import exc

from outhaul.errors import NotFound, Unavailable, unknown
from outhaul.store.database import connect, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alembic.runtime.migration import RevisionStep
    from sqlalchemy import Engine

NAME = re.compile(r"(?P<version>\d{4})_(?P<label>[a-z0-9_]+)\.up\.sql")
# The first eight bytes of the SHA-256 of "outhaul migrations", as a signed 64-bit number.
ADVISORY_LOCK = 6_141_127_912_731_205_482
LOCK_TRIES = 5
LOCK_PAUSE_S = 0.5
LOCK_NOT_AVAILABLE = "55P03"
# Without parameters, even none, the driver leaves a percent sign alone.
VERBATIM = {"no_parameters": True}


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; ``applied`` says whether the database has taken it."""

    version: str
    label: str
    applied: bool


def status(url: str) -> list[Migration]:
    """Every migration, oldest first. Raises Unavailable."""
    engine = connect(url, application_name="outhaul migrate")
    with translated(), engine.connect() as connection:
        current = _current(MigrationContext.configure(connection))
    engine.dispose()
    return [Migration(s.revision, s.module.label, s.revision <= current) for s in _scripts()]


def upgrade(url: str, version: str | None = None) -> list[str]:
    """Apply what is missing up to ``version``, or all; returns the versions applied.

    Raises:
        Unavailable: the database cannot be reached, or a table stays locked by others.
        NotFound: there is no such version.
    """
    return _move(url, lambda current: [s for s in _scripts() if current < s.revision <= _checked(version)], up=True)


def downgrade(url: str, version: str) -> list[str]:
    """Undo what came after ``version`` ("0000" undoes all), newest first. Raises as ``upgrade``."""
    return _move(
        url,
        lambda current: [s for s in reversed(_scripts()) if _checked(version, "0000") < s.revision <= current],
        up=False,
    )


def _move(url: str, choose: Callable[[str], list[Script]], *, up: bool) -> list[str]:
    engine = connect(url, application_name="outhaul migrate")
    make_step = MigrationStep.upgrade_from_script if up else MigrationStep.downgrade_from_script
    revisions = RevisionMap(_scripts)
    done: list[str] = []
    try:
        with translated(), _alone(engine):
            while True:
                with engine.connect() as connection:
                    pending = choose(_current(MigrationContext.configure(connection)))
                if not pending:
                    return done
                revision = pending[0].revision
                script = cast("Script", revisions.get_revision(revision))
                _apply(engine, make_step(revisions, script))
                done.append(revision)
    finally:
        engine.dispose()


def _apply(engine: Engine, step: RevisionStep) -> None:
    """Run one step and record it; a table that others hold is asked for again a few times before giving up."""
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            # A connection of its own each time: settings that a step makes must not reach the next.
            with engine.connect() as connection:
                context = MigrationContext.configure(
                    connection, opts={"fn": lambda _heads, _context: [step], "transaction_per_migration": True}
                )
                with context.begin_transaction():
                    context.run_migrations(context=context)
                connection.commit()
                connection.invalidate()
        except exc.OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE or not tries_left:
                raise
            time.sleep(LOCK_PAUSE_S)
        else:
            return


def _execute(file: str, context: MigrationContext) -> None:
    sql = files("sql").joinpath("migrations", file).read_text()
    assert context.connection is not None
    if not sql.startswith("-- no-transaction"):
        context.connection.exec_driver_sql(sql, execution_options=VERBATIM)
        return
    with context.autocommit_block():
        for statement in _statements(sql):
            context.connection.exec_driver_sql(statement, execution_options=VERBATIM)


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Hold the migration lock: of two replicas that start at once, one waits and then finds nothing to do."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # Asked for again and again, not waited for: a waiting statement holds a snapshot, and building an index
        # concurrently waits for every older snapshot to go, so that the two would wait for each other.
        while not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({ADVISORY_LOCK})").scalar_one():
            time.sleep(LOCK_PAUSE_S)
        yield


def _scripts() -> list[Script]:
    found = sorted(file.name for file in files("sql").joinpath("migrations").iterdir() if NAME.fullmatch(file.name))
    scripts: list[Script] = []
    for file in found:
        match = NAME.fullmatch(file)
        assert match
        module = ModuleType(file)
        module.__dict__.update(
            revision=match["version"],
            down_revision=scripts[-1].revision if scripts else None,
            label=match["label"],
            upgrade=partial(_execute, file),
            downgrade=partial(_execute, file.replace(".up.", ".down.")),
        )
        scripts.append(Script(module, match["version"], file))
    return scripts


def _statements(sql: str) -> list[str]:
    """Split at semicolons that end a line, but not inside dollar quotes: each statement needs a call of its own."""
    pieces = re.split(r"(\$\$.*?\$\$)", sql, flags=re.DOTALL)
    marked = "".join(piece if piece.startswith("$$") else piece.replace(";\n", ";\0") for piece in pieces)
    return [statement for statement in marked.split("\0") if statement.strip()]


def _current(context: MigrationContext) -> str:
    return context.get_current_revision() or "0000"


def _checked(version: str | None, *also: str) -> str:
    versions = [script.revision for script in _scripts()]
    if version is None:
        return versions[-1]
    if version not in (*versions, *also):
        raise NotFound(unknown("migration", version, [*also, *versions]))
    return version


def require_current(url: str) -> None:
    """Refuse to work on a schema that lacks migrations of this release. Raises Unavailable."""
    missing = [migration for migration in status(url) if not migration.applied]
    if missing:
        raise Unavailable(
            f"the queue database lacks {len(missing)} migration(s), from {missing[0].version}: run `outhaul migrate up`"
        )
