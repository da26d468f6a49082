"""The queue with a long past: latencies, plans and throughput, the last one beside other queues on PostgreSQL."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psycopg
from cyclopts import App, Parameter

from bench import queue_latency, queue_load, queue_report
from bench.command import run
from bench.data_path import chosen, say
from bench.queue_peers import CONTENDERS
from bench.queue_plans import explain_all
from bench.queue_report import Findings
from bench.queue_tables import Tables, translated
from outhaul.errors import InvalidRequest, Unavailable
from outhaul.stack.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(".outhaul") / "bench-queue"
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "4GB"}
# The past is made again when it is lost, so the log of its making is not worth the time.
SEEDING = {**SETTINGS, "wal_level": "minimal", "max_wal_senders": "0"}
PARTS = ("latency", "plans", "load")
MAX_WORKERS = 90  # of the 100 connections that a server offers
LIKELY_MOST = 1_500  # jobs that are settled in a second at most; so many wait ready

app = App(name="python -m bench.queue", help="Measure the queue with a long past.")


@app.default
def bench(
    *,
    jobs: Annotated[int, Parameter(help="Jobs of the long past.")] = 5_000_000,
    small: Annotated[int, Parameter(help="Jobs of the short past that it is compared with.")] = 50_000,
    repetitions: Annotated[int, Parameter(help="How often each operation is timed.")] = 300,
    workers: Annotated[int, Parameter(help="Processes that work off jobs at once.")] = 50,
    seconds: Annotated[float, Parameter(help="For how long each contender works.")] = 60,
    parts: Annotated[str, Parameter(help="Separated by commas.")] = ",".join(PARTS),
    json: Annotated[Path | None, Parameter(help="Write everything to this file.")] = None,
    markdown: Annotated[Path | None, Parameter(help="Write the tables to this file.")] = None,
) -> None:
    """Make both pasts unless they are there, measure, and fail if a statement reads the whole table of jobs."""
    for name, value, least, most in (
        ("jobs", jobs, 1_000, None),
        ("small", small, 1_000, jobs - 1),
        ("repetitions", repetitions, 10, None),
        ("workers", workers, 1, MAX_WORKERS),
        ("seconds", seconds, 1, None),
    ):
        if value < least or (most is not None and value > most):
            raise InvalidRequest(name, f"must be at least {least}" + (f" and at most {most}" if most else ""))
    picked = chosen("part", parts, PARTS)
    seed(small, jobs)
    server = EmbeddedPostgres(HOME, settings=SETTINGS)
    with server.running():
        short, long = Tables(server, small), Tables(server, jobs)
        for tables in (short, long):
            with told(f"{tables.jobs:,} jobs as before each run"):
                tables.refresh()
        findings = Findings(
            _version(server),
            small,
            jobs,
            queue_latency.measure(short, long, repetitions, say) if "latency" in picked else [],
            explain_all(long) if "plans" in picked else [],
            list(contest(long, workers, seconds)) if "load" in picked else [],
        )
    queue_report.show(findings)
    if json:
        json.write_text(queue_report.document(findings))
    if markdown:
        markdown.write_text(queue_report.markdown(findings))
    if full := findings.full_reads():
        raise Unavailable(f"read the whole table of jobs: {'; '.join(full)}")


def seed(*sizes: int) -> None:
    """Make what is not there yet; kept for the next run."""
    server = EmbeddedPostgres(HOME, settings=SEEDING)
    with server.running():
        for tables in (Tables(server, size) for size in sizes):
            if not tables.prepared():
                with told(f"{tables.jobs:,} jobs made"):
                    tables.prepare()


def contest(tables: Tables, workers: int, seconds: float) -> Iterator[queue_load.Load]:
    """Let the contenders work one after the other."""
    for contender in CONTENDERS:
        with told(contender.label):
            yield queue_load.run(contender, tables, workers, seconds, int(seconds * LIKELY_MOST))


@contextmanager
def told(what: str) -> Iterator[None]:
    """Tell how long the block took."""
    start = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - start:.1f} s")


def _version(server: EmbeddedPostgres) -> str:
    with translated(), psycopg.connect(server.url()) as connection:
        return str(connection.info.parameter_status("server_version"))


def main() -> None:
    """Run the command line; every error is one plain line."""
    run(app)


if __name__ == "__main__":
    main()
