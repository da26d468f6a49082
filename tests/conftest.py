"""What many tests need: a real PostgreSQL, and a database of their own on it."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from s3_server import juicefs, moto

from outhaul.stack.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"}
TEMPLATE = "outhaul_template"
__all__ = ["juicefs", "moto"]
_numbers = count(1)


@pytest.fixture(scope="session")
def pg() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL server for this session: 16, or the major version in OUTHAUL_TEST_PG."""
    home = Path(tempfile.mkdtemp(prefix="outhaul-tests-"))
    server = EmbeddedPostgres(home, version=int(os.environ.get("OUTHAUL_TEST_PG", "16")), settings=FAST)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def _template(pg: EmbeddedPostgres) -> str:
    from outhaul.store.migrate import upgrade

    execute(pg, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
    upgrade(pg.url(TEMPLATE))
    return TEMPLATE


@pytest.fixture
def source_url(pg: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database that this test has for itself."""
    with _database(pg, template="template0") as url:
        yield url


@pytest.fixture
def database_url(pg: EmbeddedPostgres, _template: str) -> Iterator[str]:
    """The URL of a migrated queue database that this test has for itself."""
    with _database(pg, template=_template) as url:
        yield url


@contextmanager
def _database(pg: EmbeddedPostgres, *, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    execute(pg, sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield pg.url(name)
    finally:
        execute(pg, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def execute(pg: EmbeddedPostgres, statement: sql.Composed) -> None:
    with psycopg.connect(pg.url("postgres"), autocommit=True) as connection:
        connection.execute(statement)
