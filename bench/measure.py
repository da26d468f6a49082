"""One measured run: a tool's whole process, and a look at the file it left."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from outhaul.errors import Unavailable

if TYPE_CHECKING:
    from bench.orders import Orders
    from bench.tools import Tool

ROOT = Path(__file__).parent.parent
COLUMNS = 14
# Python without bytecode compiles itself at each start; PostgreSQL's variables divert clients.
UNWANTED = ("PYTHONDONTWRITEBYTECODE", "PG")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process cost from its start to its end."""

    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    file_bytes: int


def measure(tool: Tool, orders: Orders, format_: str, folder: Path) -> Cost:
    """Export the table once, check the file and delete it.

    Raises:
        Unavailable: the tool failed, or its file does not hold all rows and columns.
    """
    file = folder / f"{tool.name}.{format_}"
    stopwatch = [sys.executable, "-I", "-S", str(ROOT / "bench" / "stopwatch.py")]
    try:
        done = subprocess.run(
            [*stopwatch, *tool.command(orders.url, orders.table, format_, file)],
            cwd=ROOT,
            env=_environment(orders.url),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unavailable(f"{tool.name} does not start: {_last_line(done.stderr)}", detail=done.stderr)
        cost = json.loads(done.stdout)
        if cost.pop("exit_code"):
            raise Unavailable(f"{tool.name} failed on {format_}: {_last_line(done.stderr)}", detail=done.stderr)
        found = shape(file, format_)
        if found != (orders.rows, COLUMNS):
            raise Unavailable(f"{tool.name} wrote {found} rows and columns of {format_}, not {(orders.rows, COLUMNS)}")
        return Cost(**cost, file_bytes=file.stat().st_size)
    finally:
        file.unlink(missing_ok=True)


def shape(file: Path, format_: str) -> tuple[int, int]:
    """Rows and columns of a file that has no line breaks inside of values."""
    if format_ == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as parquet:
            return parquet.metadata.num_rows, len(parquet.schema_arrow)
    with file.open("rb") as lines:
        first = lines.readline().decode()
        rest = sum(block.count(b"\n") for block in iter(lambda: lines.read(1 << 20), b""))
    if format_ == "csv":
        return rest, len(next(csv.reader([first])))
    return rest + 1, len(json.loads(first))


def _environment(url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    return {**kept, "TZ": "UTC", "OUTHAUL_CATALOG": "bench.catalog", "OUTHAUL_SOURCE_URL": url}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no word why"])[-1]
