"""Two hundred small exports while something is killed every few seconds. By hand: ``make test-soak``, ten minutes."""

from __future__ import annotations

import csv
import os
import random
import signal
from contextlib import suppress
from time import monotonic, sleep

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
PAUSE_S = (3.0, 8.0)
LONGEST_S = 40 * 60
SEED = int(os.environ.get("OUTHAUL_SOAK_SEED", "1"))
VICTIMS = ("export", "export", "export", "worker exports", "worker maintenance", "prefect", "postgres")


def exports_of(stack) -> list[psutil.Process]:
    """The processes that carry out this stack's runs now."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            mine = "prefect.engine" in " ".join(process.info["cmdline"] or ())
            if mine and process.environ().get("OUTHAUL_HOME") == str(stack.home):
                found.append(process)
    return found


def victim(stack, chance: random.Random) -> tuple[str, psutil.Process] | None:
    name = chance.choice(VICTIMS)
    if name == "export":
        running = exports_of(stack)
        return (name, chance.choice(running)) if running else None
    for part in stack.json("status")["components"]:
        if part["component"] == name and part["state"] == "running":
            return name, psutil.Process(part["pid"])
    return None


@pytest.mark.timeout(LONGEST_S + 300)
def test_none_is_lost_and_none_is_done_twice(stack):
    stack.run("tenants", "add", "B6")
    stack.run("tenants", "add", "EV")
    stack.run("pause", "queue")  # all wait in line before the first kill
    ids = []
    engine = connect(stack.url)
    jobs, tenants = JobStore(engine, max_active=6, max_per_source=6), TenantStore(engine)
    for number in range(JOBS):
        request = parse_request({"dataset": "flights", "query": {"limit": ROWS, "sort": [{"column": "flight_id"}]}})
        ids.append(jobs.add(tenants.get(TENANTS[number % len(TENANTS)]).id, request, requested_by="soak")[0])
    engine.dispose()
    stack.run("resume", "queue")
    chance, kills, retried = random.Random(SEED), [], 0
    end = monotonic() + LONGEST_S
    while True:
        sleep(chance.uniform(*PAUSE_S))
        assert monotonic() < end, "they do not end"
        try:
            with psycopg.connect(stack.url, connect_timeout=3) as connection:
                counts = dict(connection.execute("SELECT status, count(*) FROM export_jobs GROUP BY 1").fetchall())
                dead = connection.execute("SELECT id FROM export_jobs WHERE status = 'dead'").fetchall()
        except psycopg.Error:
            continue  # it was killed a moment ago
        print(f"{monotonic() - end + LONGEST_S:6.0f} s {counts}, {len(kills)} kills", flush=True)
        if counts == {"completed": JOBS}:
            break
        for (job_id,) in dead:
            retried += 1
            stack.run("retry", str(job_id))
        if found := victim(stack, chance):
            name, process = found
            with suppress(psutil.Error):
                process.send_signal(signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
                kills.append(name)
    print({name: kills.count(name) for name in kills}, f"seed {SEED}, {retried} retried by hand")
    with psycopg.connect(stack.url) as connection:
        done = connection.execute(
            "SELECT job_id, count(*) FROM job_events WHERE event = 'complete' GROUP BY 1"
        ).fetchall()
        attempts = connection.execute("SELECT attempt, count(*) FROM export_jobs GROUP BY 1 ORDER BY 1").fetchall()
        keys = connection.execute("SELECT id, s3_key FROM export_jobs").fetchall()
    print("attempts:", attempts)
    assert sorted(done) == sorted((job_id, 1) for job_id in ids)
    for job_id, key in keys:
        folder = stack.path(key).parent
        assert sorted(p.name for p in folder.iterdir()) == ["flights-00000.csv", "manifest.json"]
        assert list(folder.parent.iterdir()) == [folder], f"job {job_id} has a second set of files"
        with (folder / "flights-00000.csv").open() as file:
            numbers = [int(row["flight_id"]) for row in csv.DictReader(file)]
        assert len(numbers) == len(set(numbers)) == ROWS
        assert numbers == sorted(numbers)
