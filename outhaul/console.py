"""What the command line shows: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from outhaul.domain.catalogue import look_up
from outhaul.domain.job import DEFAULT_SOURCE, Job, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from outhaul.domain.job import JobEvent, StoredFile
    from outhaul.domain.waiting import Wait

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

COLOURS = {
    Status.ENQUEUED: "cyan",
    Status.QUEUED: "cyan",
    Status.PROCESSING: "blue",
    Status.FAILED: "yellow",
    Status.COMPLETED: "green",
    Status.CANCELLED: "bright_black",
    Status.DEAD: "red",
}
FAILURES = frozenset({Status.FAILED, Status.DEAD})
TERMINAL = frozenset({Status.COMPLETED, Status.CANCELLED, Status.DEAD})


def print_json(value: Any) -> None:
    """Print one JSON value; times as ISO 8601, ids as text."""

    def plain(item: Any) -> Any:
        if is_dataclass(item) and not isinstance(item, type):
            return asdict(item)
        if isinstance(item, timedelta):
            return item.total_seconds()
        return item.isoformat() if hasattr(item, "isoformat") else str(item)

    sys.stdout.write(json.dumps(value, default=plain, ensure_ascii=False, indent=2) + "\n")


def job_document(job: Job, files: Sequence[StoredFile] = ()) -> dict[str, Any]:
    """A job with its files as plain data."""
    return {**asdict(job), "files": [asdict(file) for file in files]}


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows under headings; nothing is cut off, long lines wrap only in a terminal."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*("" if value is None else str(value) for value in row))
    (out if out.is_terminal else Console(width=240, highlight=False)).print(grid)


def status_text(status: Status) -> str:
    """The status in its colour."""
    return f"[{COLOURS[status]}]{status}[/]"


def jobs_table(jobs: Sequence[Job]) -> None:
    """One line a job."""
    table(
        ["id", "status", "tenant", "dataset", "format", "rows", "bytes", "attempt", "created (UTC)", "error"],
        [
            (
                job.short_id,
                status_text(job.status),
                job.tenant,
                job.dataset,
                job.format,
                f"{job.rows_written if job.rows_written is not None else job.rows_done:,}",
                f"{job.byte_count:,}" if job.byte_count is not None else "",
                job.attempt,
                f"{job.created_at:%Y-%m-%d %H:%M:%S}",
                job.error_message if job.status in FAILURES else "",
            )
            for job in jobs
        ],
        right=["rows", "bytes", "attempt"],
    )


def job_page(
    job: Job, files: Sequence[StoredFile], events: Sequence[JobEvent], store_url: str, wait: Wait | None = None
) -> None:
    """Everything about one job."""
    known = look_up(job.error_code) if job.error_code and job.status in FAILURES else None
    facts = [
        ("job", job.id),
        ("status", status_text(job.status)),
        ("waits", wait and _wait_text(wait)),
        ("tenant", job.tenant),
        ("dataset", f"{job.dataset} as {job.format}"),
        ("query", json.dumps({k: v for k, v in job.query.items() if v}, ensure_ascii=False)),
        ("asked by", f"{job.requested_by}, {job.created_at:%Y-%m-%d %H:%M:%S} UTC, priority {job.priority}"),
        ("attempt", f"{job.attempt} (generation {job.generation}, {job.retry_count} of 3 retries used)"),
        (
            "rows read",
            f"{job.rows_done:,}" + (f" of about {job.rows_total_estimate:,}" if job.rows_total_estimate else ""),
        ),
        ("prefect run", job.prefect_flow_run_id),
        ("source", job.source if job.source != DEFAULT_SOURCE else None),
        ("next retry", f"{job.run_after:%Y-%m-%d %H:%M:%S} UTC" if job.run_after else None),
        ("legal hold", "yes" if job.legal_hold else None),
        ("error", job.error_message and f"{job.error_code}: {job.error_message}"),
        ("meaning", known and known.meaning),
        ("what helps", known and known.mend),
        ("detail", job.error_detail or None),
        ("manifest", job.s3_key and f"{store_url.rstrip('/')}/{job.s3_key}"),
    ]
    for name, value in facts:
        if value is not None:
            out.print(f"[bold]{name:12}[/] {value}", soft_wrap=True)
    if files:
        out.print()
        table(
            ["file", "rows", "bytes", "sha256"],
            [(file.s3_key, f"{file.row_count:,}", f"{file.byte_count:,}", file.sha256) for file in files],
            right=["rows", "bytes"],
        )
    out.print()
    table(
        ["at (UTC)", "attempt", "event", "status", "actor", "detail"],
        [
            (
                f"{event.at:%Y-%m-%d %H:%M:%S.%f}"[:-3],
                event.attempt,
                event.event,
                status_text(event.to_status),
                event.actor,
                json.dumps(event.detail, ensure_ascii=False) if event.detail else "",
            )
            for event in events
        ],
    )


def _wait_text(wait: Wait) -> str:
    """Why a job waits, its place in line, and how long that may take."""
    facts = [
        wait.reason,
        f"{wait.until:%Y-%m-%d %H:%M:%S} UTC at the latest" if wait.until else "",
        f"number {wait.position:,} in line" if wait.position else "",
        f"about {max(1, round(wait.estimate.total_seconds())):,} s to go" if wait.estimate else "",
    ]
    return ", ".join(fact for fact in facts if fact)


class JobProgress:
    """Live bars for jobs, one each; on something that is no terminal, a line at each change of status."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rows]} rows"),
            TimeElapsedColumn(),
            console=err,
            disable=not err.is_terminal,
        )
        self._seen: dict[str, tuple[TaskID, Status]] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, job: Job) -> None:
        """Bring a job's bar up to date."""
        key, label = str(job.id), f"{job.short_id} {job.dataset} {job.tenant} {job.format:7} {job.status:10}"
        if key not in self._seen:
            self._seen[key] = (self._bars.add_task(label, total=None, rows="0"), Status.ENQUEUED)
            self._say(job)
        bar, before = self._seen[key]
        total = job.rows_written if job.status is Status.COMPLETED else job.rows_total_estimate
        self._bars.update(bar, description=label, completed=job.rows_done, total=total, rows=f"{job.rows_done:,}")
        if job.status is not before:
            self._seen[key] = (bar, job.status)
            self._say(job)

    def _say(self, job: Job) -> None:
        if not err.is_terminal:
            err.print(f"{job.short_id} {job.dataset} {job.tenant} {job.format}: {job.status}, {job.rows_done:,} rows")


class CopyProgress:
    """One live bar for a copy; nothing on what is no terminal."""

    def __init__(self) -> None:
        self._bars = Progress(
            BarColumn(), TextColumn("{task.completed:,.0f} rows"), TimeElapsedColumn(), console=err, transient=True
        )
        self._bar = self._bars.add_task("copy", total=None)
        self._shown = err.is_terminal

    def __enter__(self) -> Self:
        if self._shown:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bars.stop()

    def __call__(self, rows: int, expected: int | None) -> None:
        """Show ``rows`` of about ``expected``."""
        if self._shown:
            self._bars.update(self._bar, completed=rows, total=expected and max(expected, rows))
