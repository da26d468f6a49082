"""From single runs to medians and pairwise ratios, and those to a table for people, for documents and for programs."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.tools import OUTHAUL, PEERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measure import Cost

PACKAGES = ("polars", "pandera", "pyarrow", "adbc-driver-postgresql", "duckdb", "connectorx", "pandas", "psycopg")
HEADINGS = ("", "seconds", "rows/s", "CPU s", "peak MB", "file MB", "Outhaul: time", "Outhaul: size")
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Pair:
    """Outhaul and one peer, run right after each other."""

    format: str
    peer: str
    round: int
    outhaul: Cost
    theirs: Cost


@dataclass(frozen=True, slots=True)
class Line:
    """Medians of one tool at one format; the ratios are Outhaul's figure divided by the peer's, 1.0 for Outhaul."""

    format: str
    tool: str
    runs: int
    seconds: float
    rows_per_second: int
    cpu_seconds: float
    peak_rss_bytes: int
    file_bytes: int
    time_ratio: float = 1.0
    size_ratio: float = 1.0
    best_peer: bool = False


def summarise(pairs: Sequence[Pair], rows: int) -> list[Line]:
    """A line for Outhaul and for each of its peers, format by format; the fastest peer is marked.

    The ratio of times is the median over the pairs, so that what slows the machine for a while slows both.
    """
    lines = []
    for format_ in dict.fromkeys(pair.format for pair in pairs):
        of_format = [pair for pair in pairs if pair.format == format_]
        lines.append(Line(format_, OUTHAUL.name, **_medians([pair.outhaul for pair in of_format], rows)))
        peers = [
            _peer(name, [pair for pair in of_format if pair.peer == name], rows)
            for name in dict.fromkeys(pair.peer for pair in of_format)
        ]
        best = min(peers, key=lambda line: line.seconds)
        lines += [replace(line, best_peer=line is best) for line in peers]
    return lines


def _peer(name: str, pairs: Sequence[Pair], rows: int) -> Line:
    return Line(
        pairs[0].format,
        name,
        **_medians([pair.theirs for pair in pairs], rows),
        time_ratio=median(pair.outhaul.seconds / pair.theirs.seconds for pair in pairs),
        size_ratio=median(pair.outhaul.file_bytes / pair.theirs.file_bytes for pair in pairs),
    )


def _medians(costs: Sequence[Cost], rows: int) -> dict[str, Any]:
    seconds = median(cost.seconds for cost in costs)
    return {
        "runs": len(costs),
        "seconds": seconds,
        "rows_per_second": round(rows / seconds),
        "cpu_seconds": median(cost.cpu_seconds for cost in costs),
        "peak_rss_bytes": int(median(cost.peak_rss_bytes for cost in costs)),
        "file_bytes": int(median(cost.file_bytes for cost in costs)),
    }


def machine(server: str) -> dict[str, Any]:
    """What the figures depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "load": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgresql": server,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def note(about: dict[str, Any], rows: int) -> str:
    """The circumstances, as one paragraph."""
    packages = ", ".join(f"{name} {found}" for name, found in about["packages"].items())
    return (
        f"{rows:,} rows; {about['cores']} cores shared by the server and the tool, "
        f"{about['memory_bytes'] / 2**30:.0f} GiB, {about['system']}, load average {about['load']} at the start; "
        f"PostgreSQL {about['postgresql']}, Python {about['python']}, {packages}."
    )


def verdict(lines: Sequence[Line], format_: str) -> str:
    """How Outhaul did against the best peer, in a sentence."""
    best = next(line for line in lines if line.format == format_ and line.best_peer)
    return (
        f"{format_}: {best.time_ratio:.2f} times the time and {best.size_ratio:.2f} times the size of the best peer, "
        f"{PEERS[best.tool].label}."
    )


def show(lines: Sequence[Line], about: dict[str, Any], rows: int) -> None:
    """Print everything to the terminal."""
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(width=120, highlight=False)
    for format_ in dict.fromkeys(line.format for line in lines):
        grid = Table(title=format_, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for heading in HEADINGS:
            grid.add_column(heading, justify="right" if heading else "left")
        for line in lines:
            if line.format == format_:
                grid.add_row(*_cells(line), style="bold" if line.tool == OUTHAUL.name else None)
        console.print(grid, verdict(lines, format_), "", sep="\n")
    console.print(note(about, rows))


def markdown(lines: Sequence[Line], about: dict[str, Any], rows: int) -> str:
    """The same for a document."""
    parts = [note(about, rows)]
    for format_ in dict.fromkeys(line.format for line in lines):
        table = [f"| {format_} | {' | '.join(HEADINGS[1:])} |", "|---|" + "---:|" * (len(HEADINGS) - 1)]
        table += [f"| {' | '.join(_cells(line))} |" for line in lines if line.format == format_]
        parts += ["\n".join(table), verdict(lines, format_)]
    return "\n\n".join(parts) + "\n"


def document(lines: Sequence[Line], pairs: Sequence[Pair], about: dict[str, Any], rows: int) -> str:
    """The same for programs, with every single run."""
    content = {
        "rows": rows,
        "machine": about,
        "summary": [asdict(line) for line in lines],
        "pairs": [asdict(pair) for pair in pairs],
    }
    return json.dumps(content, indent=2) + "\n"


def _cells(line: Line) -> tuple[str, ...]:
    outhaul = line.tool == OUTHAUL.name
    label = OUTHAUL.label if outhaul else PEERS[line.tool].label
    return (
        f"{label} (best peer)" if line.best_peer else label,
        f"{line.seconds:.2f}",
        f"{line.rows_per_second:,}",
        f"{line.cpu_seconds:.2f}",
        f"{line.peak_rss_bytes / MB:.0f}",
        f"{line.file_bytes / MB:.1f}",
        "" if outhaul else f"{line.time_ratio:.2f}x",
        "" if outhaul else f"{line.size_ratio:.2f}x",
    )
