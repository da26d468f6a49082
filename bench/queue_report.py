"""What was found, as tables for people, for documents and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.queue_load import as_dict
from bench.report import machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.queue_latency import Latency
    from bench.queue_load import Load
    from bench.queue_plans import Plan

PACKAGES = ("sqlalchemy", "psycopg", "procrastinate")
GOAL = 1.5
SHOWN_WAITS = 4
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that one run has found."""

    server: str
    small: int
    large: int
    latencies: Sequence[Latency]
    plans: Sequence[Plan]
    loads: Sequence[Load]

    def full_reads(self) -> list[str]:
        """The statements that go through the whole table of jobs."""
        return [plan.statement for plan in self.plans if plan.reads_all_jobs]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table; the first column is of words, and so are the last ones if ``words`` says so."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    words: int = 0

    def is_number(self, column: int) -> bool:
        """Whether the column is set to the right."""
        return 0 < column < len(self.headings) - self.words


def sheets(findings: Findings) -> list[Sheet]:
    """The tables, in order."""
    small, large = f"{findings.small:,}", f"{findings.large:,}"
    latency = Sheet(
        "Milliseconds for each operation",
        ("", "times", f"p50 at {small}", f"p95 at {small}", f"p50 at {large}", f"p95 at {large}", "p95 ratio", "goal"),
        [
            (
                line.operation, f"{line.repetitions}", f"{line.small_p50:.2f}", f"{line.small_p95:.2f}",
                f"{line.large_p50:.2f}", f"{line.large_p95:.2f}", f"{line.ratio:.2f}",
                "met" if line.ratio <= GOAL else f"> {GOAL}",
            )
            for line in findings.latencies
        ],
        words=1,
    )  # fmt: skip
    plans = Sheet(
        f"Plans at {large} jobs, the costliest last",
        ("statement", "cost", "rows read", "steps"),
        [(plan.statement, f"{plan.cost:,.0f}", f"{plan.rows:,}", "; ".join(plan.steps)) for plan in findings.plans],
        words=1,
    )
    loads = Sheet(
        f"{findings.loads[0].workers if findings.loads else 0} workers",
        ("", "jobs", "seconds", "jobs/s", "p50 ms", "p95 ms", "client CPU ms/job", "server CPU ms/job", "lock waits",
         "deadlocks"),
        [
            (
                load.label, f"{load.settled:,}", f"{load.seconds:.1f}", f"{load.per_second:.0f}", f"{load.p50_ms:.1f}",
                f"{load.p95_ms:.1f}", f"{load.client_cpu_ms:.2f}", f"{load.server_cpu_ms:.2f}",
                f"{load.lock_waits:.1%}", f"{load.change('deadlocks')}",
            )
            for load in findings.loads
        ],
    )  # fmt: skip
    after = Sheet(
        "The table afterwards",
        ("", "updates", "HOT", "dead rows", "autovacuums", "table MB", "grown by", "indexes MB", "grown by",
         "what statements did"),
        [
            (
                load.label, f"{load.change('updates'):,}",
                f"{load.change('hot_updates') / max(1, load.change('updates')):.0%}", f"{load.after.dead_rows:,}",
                f"{load.change('autovacuums')}", f"{load.after.table_bytes / MB:,.0f}",
                f"{load.change('table_bytes') / MB:,.1f}", f"{load.after.index_bytes / MB:,.0f}",
                f"{load.change('index_bytes') / MB:,.1f}",
                ", ".join(f"{event} {share:.0%}" for event, share in list(load.waits.items())[:SHOWN_WAITS]),
            )
            for load in findings.loads
        ],
        words=1,
    )  # fmt: skip
    return [sheet for sheet in (latency, plans, loads, after) if sheet.rows]


def note(findings: Findings) -> str:
    """The circumstances, as one paragraph."""
    about = machine(findings.server)
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{about['cores']} cores shared by the server and its clients, {about['memory_bytes'] / 2**30:.0f} GiB, "
        f"{about['system']}, load average {about['load']} at the end; PostgreSQL {findings.server} at its own settings "
        f"but for shared_buffers = 1GB and max_wal_size = 4GB; Python {about['python']}, {packages}."
    )


def show(findings: Findings) -> None:
    """Print everything to the terminal."""
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(width=200, highlight=False)
    for sheet in sheets(findings):
        grid = Table(title=sheet.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column, heading in enumerate(sheet.headings):
            grid.add_column(heading, justify="right" if sheet.is_number(column) else "left")
        for row in sheet.rows:
            grid.add_row(*row)
        console.print(grid, "", sep="\n")
    console.print(note(findings))


def markdown(findings: Findings) -> str:
    """The same for a document."""
    parts = [note(findings)]
    for sheet in sheets(findings):
        rule = "|".join("---:" if sheet.is_number(column) else "---" for column in range(len(sheet.headings)))
        table = [f"| {' | '.join(sheet.headings)} |", f"|{rule}|"]
        table += [f"| {' | '.join(row)} |" for row in sheet.rows]
        parts += [f"**{sheet.title}**", "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def document(findings: Findings) -> str:
    """The same for programs."""
    content = {
        "jobs": {"small": findings.small, "large": findings.large},
        "machine": machine(findings.server),
        "latencies": [{**asdict(line), "ratio": line.ratio} for line in findings.latencies],
        "plans": [asdict(plan) for plan in findings.plans],
        "loads": [as_dict(load) for load in findings.loads],
    }
    return json.dumps(content, indent=2) + "\n"
