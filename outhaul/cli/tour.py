"""``outhaul demo``: real data through every part, from an empty folder to checked files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from outhaul import console
from outhaul.cli.stack import say, stack_of
from outhaul.cli.watching import watch
from outhaul.data.preview import first_rows
from outhaul.demo.load import airlines, load
from outhaul.domain.job import Format, Status
from outhaul.errors import Refused

if TYPE_CHECKING:
    from outhaul.domain.job import Job
    from outhaul.wiring import App

TENANT = "UA"
FORMATS = (Format.PARQUET, Format.CSV)
SHOWN_COLUMNS = ["flight_id", "carrier", "flight", "origin", "dest", "time_hour", "dep_delay", "distance"]


def prepare(app: App) -> None:
    """Load the flights, unless they are there, and make each airline a tenant."""
    say("demo", "336,776 flights of 2013 are being loaded")
    load(app.source_url)
    for code, _ in airlines():
        try:
            app.tenants.add(code, "free", 2)
        except Refused:
            continue


def tour(app: App, *, keep: bool) -> int:
    """Run the demo; returns the exit status. The stack is stopped at the end unless it was up before, or ``keep``."""
    stack = stack_of(app.settings)
    started = stack.detach(say)
    try:
        prepare(app)
        jobs = [
            app.exports.request({"dataset": "flights", "format": format_}, tenant=TENANT, requested_by="demo")[0]
            for format_ in FORMATS
        ]
        jobs = watch(app.exports, jobs)
        for job in jobs:
            _show(app, job)
        if not all(job.status is Status.COMPLETED for job in jobs):
            return 1
        _show_rows([_path(app, job) for job in jobs])
        ui = app.prefect_ui
        for job in jobs:
            console.out.print(
                f"Prefect run of {job.short_id}: {ui}/runs/flow-run/{job.prefect_flow_run_id}", soft_wrap=True
            )
        return 0
    finally:
        if started and not keep:
            stack.down(say)
            console.out.print("\nThe stack is stopped. `make up` starts it again and leaves it running; try then:")
            console.out.print("  .venv/bin/outhaul request flights --tenant DL --format csv --wait")


def _show(app: App, job: Job) -> None:
    console.out.print()
    console.job_page(job, app.exports.files(job), app.exports.events(job), app.store_url)


def _path(app: App, job: Job) -> Path:
    (file,) = app.exports.files(job)
    return Path(app.store_url.removeprefix("file://")) / file.s3_key


def _show_rows(paths: list[Path]) -> None:
    parquet, csv = paths
    console.out.print()
    console.table(SHOWN_COLUMNS, first_rows(parquet, SHOWN_COLUMNS, 5))
    console.out.print(f"\nParquet: {parquet}", soft_wrap=True)
    console.out.print(f"CSV:     {csv}", soft_wrap=True)
