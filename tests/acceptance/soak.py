"""Two hundred small exports while something is killed every few seconds.

By hand, for it takes ten minutes: ``make test-soak``; OUTHAUL_SOAK_SEED chooses another order of kills.
"""

from __future__ import annotations

import csv
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from time import monotonic, sleep

import httpx
import psutil
import psycopg
import pytest

from outhaul.domain.request import parse_request
from outhaul.store.database import connect
from outhaul.store.jobs import JobStore
from outhaul.store.tenants import TenantStore

JOBS = 200
TENANTS = ("UA", "DL", "AA", "B6", "EV")
ROWS = 500
# A killed worker or server is back within ten seconds; at a faster pace nothing but starting would be tested.
PAUSE_S = (8.0, 16.0)
LONGEST_S = 40 * 60
SEED = int(os.environ.get("OUTHAUL_SOAK_SEED", "1"))
PARTS = ("worker exports", "worker maintenance", "prefect", "postgres")
VICTIMS = (*["export"] * 8, *PARTS)


def victim(stack, connection, chance: random.Random) -> tuple[str, psutil.Process] | None:
    """What is to be killed now; None if that is not there at the moment."""
    name = chance.choice(VICTIMS)
    if name == "export":
        runs = connection.execute("SELECT prefect_flow_run_id FROM export_jobs WHERE status = 'processing'").fetchall()
        process = stack.process_of_run(chance.choice(runs)[0]) if runs else None
    else:
        process = stack.process_of(name)
    return (name, process) if process else None


@pytest.mark.timeout(LONGEST_S + 300)
def test_none_is_lost_and_none_is_done_twice(stack):
    ids = put_in_line(stack)
    chance, kills, retried = random.Random(SEED), Counter(), 0
    started = monotonic()
    while True:
        sleep(chance.uniform(*PAUSE_S))
        assert monotonic() - started < LONGEST_S, "they do not end"
        # A part that was killed a moment ago may not answer yet.
        with suppress(psycopg.Error, httpx.HTTPError, psutil.Error), psycopg.connect(stack.url) as connection:
            counts = dict(connection.execute("SELECT status, count(*) FROM export_jobs GROUP BY 1").fetchall())
            print(f"{monotonic() - started:6.0f} s {counts}, {kills.total()} kills", flush=True)
            if counts == {"completed": JOBS}:
                break
            for (job_id,) in connection.execute("SELECT id FROM export_jobs WHERE status = 'dead'").fetchall():
                stack.run("retry", str(job_id))  # as the person would who is told "worker died twice"
                retried += 1
            if found := victim(stack, connection, chance):
                name, process = found
                process.send_signal(signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
                kills[name] += 1
    print(f"seed {SEED}, {dict(kills)}, {retried} retried by hand")
    assert kills["export"], "none was killed at work"
    check(stack, ids)


def put_in_line(stack) -> list:
    """All jobs, before the first kill."""
    stack.run("tenants", "add", "B6")
    stack.run("tenants", "add", "EV")
    stack.run("pause", "queue")
    engine = connect(stack.url)
    jobs, tenants = JobStore(engine, max_active=6, max_per_source=6), TenantStore(engine)
    request = parse_request({"dataset": "flights", "query": {"limit": ROWS, "sort": [{"column": "flight_id"}]}})
    ids = [
        jobs.add(tenants.get(TENANTS[number % len(TENANTS)]).id, request, requested_by="soak")[0]
        for number in range(JOBS)
    ]
    engine.dispose()
    stack.run("resume", "queue")
    return ids


def check(stack, ids) -> None:
    with psycopg.connect(stack.url) as connection:
        done = connection.execute("SELECT job_id, count(*) FROM job_events WHERE event = 'complete' GROUP BY 1")
        assert sorted(done) == sorted((job_id, 1) for job_id in ids)
        print(
            "attempts:",
            connection.execute("SELECT attempt, count(*) FROM export_jobs GROUP BY 1 ORDER BY 1").fetchall(),
        )
        keys = connection.execute(
            "SELECT j.id, j.s3_key, t.name FROM export_jobs j JOIN tenants t ON t.id = j.tenant_id"
        ).fetchall()
    with psycopg.connect(stack.source) as connection:
        expected = {
            tenant: [
                flight_id
                for (flight_id,) in connection.execute(
                    "SELECT flight_id FROM flights WHERE carrier = %s ORDER BY flight_id LIMIT %s", [tenant, ROWS]
                )
            ]
            for tenant in TENANTS
        }
    for job_id, key, tenant in keys:
        folder = stack.path(key).parent
        assert sorted(path.name for path in folder.iterdir()) == ["flights-00000.csv", "manifest.json"]
        assert list(folder.parent.iterdir()) == [folder], f"job {job_id} has a second set of files"
        with (folder / "flights-00000.csv").open() as file:
            assert [int(row["flight_id"]) for row in csv.DictReader(file)] == expected[tenant]
