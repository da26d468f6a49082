"""Many workers at once, each a process with a connection of its own, and what that does to the server."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections import Counter
from dataclasses import asdict, dataclass
from statistics import quantiles
from threading import BrokenBarrierError
from typing import TYPE_CHECKING, Any

import psutil
import psycopg

from bench.queue_peers import Contest, busy, ready
from bench.queue_tables import translated
from outhaul.errors import OuthaulError, Unavailable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

    from bench.queue_peers import Contender
    from bench.queue_tables import Tables

SAMPLE_S = 0.1
PATIENCE_S = 120  # for a worker to get ready, or to end its last cycle
WAITS = """
SELECT coalesce(wait_event_type || ': ' || wait_event, 'at work'), count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()
GROUP BY 1
"""
FIGURES = """
SELECT
    n_tup_upd, n_tup_hot_upd, n_dead_tup, n_live_tup, autovacuum_count, pg_table_size(relid), pg_indexes_size(relid),
    (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())
FROM pg_stat_user_tables
WHERE relname = %s
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the server has counted for a table."""

    updates: int
    hot_updates: int
    dead_rows: int
    live_rows: int
    autovacuums: int
    table_bytes: int
    index_bytes: int
    deadlocks: int


@dataclass(frozen=True, slots=True)
class Load:
    """One contender's work. ``waits`` are shares of the samples of backends that had a statement to run."""

    name: str
    label: str
    workers: int
    settled: int
    seconds: float
    p50_ms: float
    p95_ms: float
    client_cpu_ms: float  # for each job
    server_cpu_ms: float
    waits: dict[str, float]
    before: Figures
    after: Figures

    @property
    def per_second(self) -> float:
        """Jobs settled in a second."""
        return self.settled / self.seconds

    @property
    def lock_waits(self) -> float:
        """How much of the time statements waited for a lock that another session held."""
        return sum(share for event, share in self.waits.items() if event.startswith("Lock:"))

    def change(self, figure: str) -> int:
        """By how much a figure of the server has grown."""
        return int(getattr(self.after, figure) - getattr(self.before, figure))


def run(contender: Contender, tables: Tables, workers: int, seconds: float, jobs: int) -> Load:
    """Let the workers work for so long, or until ``jobs`` jobs are done.

    Raises:
        Unavailable: the server or a worker failed.
    """
    url = contender.prepare(tables.server, tables, jobs)
    processes = multiprocessing.get_context("fork")  # starts with everything imported, and shares its memory
    outhaul = contender.table == "export_jobs"
    contest = Contest(
        url,
        workers,
        ready(url) if outhaul else [],
        processes.Queue(),
        busy(url) + 2 * workers if outhaul else 0,
    )
    before = figures(url, contender.table)
    barrier = processes.Barrier(workers + 1, timeout=PATIENCE_S)
    pipes = [processes.Pipe(duplex=False) for _ in range(workers)]
    crew = [
        processes.Process(
            target=_work,
            args=(contender, contest, number),
            kwargs={"seconds": seconds, "barrier": barrier, "answer": sender},
        )
        for number, (_, sender) in enumerate(pipes)
    ]
    try:
        for process in crew:
            process.start()
        waits, server_cpu = _watch(url, tables, barrier, seconds)
        reports = [_report(receiver) for receiver, _ in pipes]
        for process in crew:
            process.join(PATIENCE_S)
    finally:
        for process in crew:
            if process.is_alive():
                process.kill()
    time.sleep(1.5)  # sessions that have ended hand in their counts within a second
    settled = sum(report["settled"] for report in reports)
    if not settled:
        raise Unavailable(f"{contender.label}: no job was settled")
    cycles = quantiles([cycle for report in reports for cycle in report["cycles"]], n=20, method="inclusive")
    return Load(
        contender.name,
        contender.label,
        workers,
        settled,
        max(report["ended"] for report in reports) - min(report["started"] for report in reports),
        1000 * cycles[9],
        1000 * cycles[18],
        1000 * sum(report["cpu"] for report in reports) / settled,
        1000 * server_cpu / settled,
        waits,
        before,
        figures(url, contender.table),
    )


def figures(url: str, table: str) -> Figures:
    """What the server counts at this moment. Raises Unavailable."""
    with translated(), psycopg.connect(url) as connection:
        row = connection.execute(FIGURES, [table]).fetchone()
    assert row
    return Figures(*row)


def _work(
    contender: Contender, contest: Contest, number: int, *, seconds: float, barrier: Barrier, answer: Connection
) -> None:
    """One worker's process, from start to end."""
    try:
        with contender.worker(contest, number) as cycle:
            barrier.wait()
            cpu, started, settled, cycles = _cpu(), time.monotonic(), 0, []
            now = started
            while now < started + seconds:
                done = cycle()
                if done is None:
                    break
                last, now = now, time.monotonic()
                settled += done
                cycles.append(now - last)
            result = {
                "settled": settled, "cycles": cycles, "started": started, "ended": now, "cpu": _cpu() - cpu
            }  # fmt: skip
            barrier.wait()  # the server's processes are looked at once more before they end
        answer.send(result)
    except BrokenBarrierError:
        answer.send("another worker failed")
    except Exception as error:  # noqa: BLE001 -- whatever it is, the parent says it
        barrier.abort()
        answer.send(error.message if isinstance(error, OuthaulError) else f"{type(error).__name__}: {error}")


def _watch(url: str, tables: Tables, barrier: Barrier, seconds: float) -> tuple[dict[str, float], float]:
    """Sample what the backends wait for; returns the shares, and the server's CPU seconds."""
    seen: Counter[str] = Counter()
    with translated(), psycopg.connect(url, autocommit=True) as connection:
        try:
            barrier.wait()
            cpu, end = _server_cpu(tables), time.monotonic() + seconds
            while time.monotonic() < end and not barrier.n_waiting:
                seen.update(dict(connection.execute(WAITS).fetchall()))
                time.sleep(SAMPLE_S)
            while barrier.n_waiting < barrier.parties - 1 and not barrier.broken:
                if time.monotonic() > end + PATIENCE_S:
                    barrier.abort()
                time.sleep(SAMPLE_S)
            cpu = _server_cpu(tables) - cpu
            barrier.wait()
        except BrokenBarrierError:
            return {}, 0.0  # a worker's own report says why
    return {event: count / seen.total() for event, count in seen.most_common()}, cpu


def _report(receiver: Connection) -> dict[str, Any]:
    try:
        answer = receiver.recv() if receiver.poll(PATIENCE_S) else "no answer"
    except EOFError:
        answer = "it died"
    if isinstance(answer, str):
        raise Unavailable(f"a worker failed: {answer}")
    return dict(answer)


def _server_cpu(tables: Tables) -> float:
    """CPU seconds of the server and its backends so far."""
    total = 0.0
    postmaster = psutil.Process(tables.server.pid())
    for process in (postmaster, *postmaster.children()):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def as_dict(load: Load) -> dict[str, Any]:
    """The same for programs."""
    return {**asdict(load), "per_second": load.per_second, "lock_waits": load.lock_waits}
