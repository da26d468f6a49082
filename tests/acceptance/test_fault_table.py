"""Each part of the stack is killed at four moments of an export, and every job ends right.

Four exports of four tenants stand at four gates when the part is killed. The table that comes of it is written into the
page that OUTHAUL_RELIABILITY names; ``make test-faults`` does that, ``make test`` leaves out the last part.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
import pytest
from conftest import Stack, prepare, until
from fault_proxy import FaultProxy
from mailbox_server import Mailbox, mail_server
from s3_server import BUCKET

from outhaul.store.s3 import S3Store

if TYPE_CHECKING:
    import psutil

PREFIX = "faults"
BEGIN, END = "<!-- kills -->", "<!-- end of kills -->"
MOMENTS = {
    "UA": "before the first row",
    "DL": "in mid read",
    "AA": "in mid upload",
    "B6": "between upload and commit",
}
VICTIMS = ("export process", "PostgreSQL", "worker", "Prefect server")
MINUTES = pytest.mark.by_hand
GATES = {"UA": 101, "DL": 102}  # advisory locks that a row of theirs waits for
TABLE: dict[tuple[str, str], str] = {}


class Gates:
    """Where each tenant's export stands still until all may go on."""

    def __init__(self, proxy: FaultProxy, source: str) -> None:
        self.proxy, self.source = proxy, source
        self.reached: set[str] = set()
        self._open = threading.Event()
        self._connection: psycopg.Connection | None = None
        proxy.fault = self._upload
        proxy.answering = self._answer

    def close(self) -> None:
        self.reached.clear()
        self._open.clear()
        self._connection = psycopg.connect(self.source, autocommit=True)
        for key in GATES.values():
            self._connection.execute("SELECT pg_advisory_lock(%s)", [key])

    def open(self) -> None:
        self._open.set()
        self._connection.close()

    def waiting(self) -> set[str]:
        """The tenants whose exports stand at their gates."""
        rows = self._connection.execute("SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        locks = {objid for (objid,) in rows}
        return self.reached | {tenant for tenant, key in GATES.items() if key in locks}

    def _upload(self, request) -> None:
        if f"/{PREFIX}/AA/" in request.path and request.part == 2:
            self._stop_at("AA")

    def _answer(self, request) -> None:
        if f"/{PREFIX}/B6/" in request.path and request.method == "PUT" and request.path.endswith("/manifest.json"):
            self._stop_at("B6")

    def _stop_at(self, tenant: str) -> None:
        if not self._open.is_set():
            self.reached.add(tenant)
            self._open.wait(300)


@pytest.fixture(scope="module")
def s3(moto):
    with FaultProxy(moto.port) as proxy:
        yield moto, proxy


@pytest.fixture(scope="module")
def box():
    return Mailbox()


@pytest.fixture(scope="module")
def stack(s3, box):
    moto, proxy = s3
    with TemporaryDirectory(prefix="outhaul-stack-") as folder, mail_server(box) as mail:
        stack = Stack(Path(folder))
        environment = {**moto.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        stack.up(
            OUTHAUL_STORE_URL=f"s3://{BUCKET}/{PREFIX}", OUTHAUL_RETRY_DELAYS="1,1,1", OUTHAUL_HEARTBEAT_SECONDS="1",
            OUTHAUL_LEASE_SECONDS="15", OUTHAUL_MAIL_URL=f"smtp://{mail.host}:{mail.port}",
            OUTHAUL_MAIL_FROM=mail.sender, **environment,
        )  # fmt: skip
        try:
            prepare(stack)
            stack.run("tenants", "add", "B6")
            with psycopg.connect(stack.source, autocommit=True) as connection:
                rows = {
                    tenant: connection.execute(
                        "SELECT (array_agg(flight_id ORDER BY flight_id))[%s] FROM flights WHERE carrier = %s",
                        [1 if tenant == "UA" else 24_000, tenant],
                    ).fetchone()[0]
                    for tenant in GATES
                }
                gates = " ".join(
                    f"WHEN {rows[tenant]} THEN pg_advisory_xact_lock_shared({key})" for tenant, key in GATES.items()
                )
                connection.execute("ALTER TABLE flights RENAME TO flights_there")
                connection.execute(
                    "CREATE VIEW flights AS SELECT f.* FROM flights_there AS f"
                    f" CROSS JOIN LATERAL (SELECT CASE f.flight_id {gates} END) AS gate"
                )
            yield stack
        finally:
            stack.down()


def victims(stack: Stack, victim: str, runs: set[str]) -> list[psutil.Process]:
    component = {"worker": "worker exports", "Prefect server": "prefect", "PostgreSQL": "postgres"}.get(victim)
    if component:
        return [stack.process_of(component)]
    return [until(lambda run=run: stack.process_of_run(run), 30) for run in runs]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", [*VICTIMS[:3], pytest.param(VICTIMS[3], marks=MINUTES)])
def test_whatever_is_killed_the_jobs_end_right(stack, s3, box, victim):
    moto, proxy = s3
    gates = Gates(proxy, stack.source)
    gates.close()
    asked = ("request", "flights", "--format", "json", "--recipients", "ops@example.com")
    ids = {tenant: stack.json(*asked, "--tenant", tenant)["id"] for tenant in MOMENTS}
    until(lambda: gates.waiting() == set(MOMENTS), 120)
    jobs = {tenant: stack.job(job_id) for tenant, job_id in ids.items()}
    assert {job["status"] for job in jobs.values()} == {"processing"}
    for process in victims(stack, victim, {str(job["prefect_flow_run_id"]) for job in jobs.values()}):
        # PostgreSQL's own word for an immediate stop: as if killed, but for shared memory that it would leave behind.
        process.send_signal(signal.SIGQUIT if victim == "PostgreSQL" else signal.SIGKILL)
        process.wait(timeout=30)
    gates.open()
    started = monotonic()
    for tenant, job_id in ids.items():
        job = stack.ended(job_id, 300)
        assert job["status"] == "completed", job
        # What an earlier attempt had published goes a moment after the success is recorded.
        until(lambda job=job: is_alone(moto.client(), job), 30)
        assert_rows(moto.client(), job, stack.source)
        assert_told_once(stack, box, job)
        TABLE[victim, MOMENTS[tenant]] = f"completed, attempt {job['attempt']}"
    print(f"{victim}: all ended after {monotonic() - started:.0f} s")
    assert_nothing_left(stack)
    S3Store(moto.client(), BUCKET, PREFIX).clean_uploads("", timedelta(0))
    assert moto.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []


def is_alone(client, job):
    """Whether the job has this one set of files."""
    prefix = f"{PREFIX}/{job['s3_key'].removesuffix('manifest.json')}"
    of_job = f"{PREFIX}/{'/'.join(job['s3_key'].split('/')[:2])}/"
    keys = {item["Key"] for item in client.list_objects_v2(Bucket=BUCKET, Prefix=of_job)["Contents"]}
    return keys == {f"{prefix}manifest.json", f"{prefix}flights-00000.jsonl"}


def assert_rows(client, job, source):
    prefix = f"{PREFIX}/{job['s3_key'].removesuffix('manifest.json')}"
    lines = client.get_object(Bucket=BUCKET, Key=f"{prefix}flights-00000.jsonl")["Body"].read().splitlines()
    found = sorted(json.loads(line)["flight_id"] for line in lines)
    tenant = job["s3_key"].split("/")[0]
    with psycopg.connect(source) as connection:
        expected = connection.execute(
            "SELECT flight_id FROM flights_there WHERE carrier = %s ORDER BY flight_id", [tenant]
        ).fetchall()
    assert found == [row[0] for row in expected]
    assert job["rows_written"] == len(found)


def assert_told_once(stack, box, job):
    """One notice of its success stands in the outbox, and arrives."""
    with psycopg.connect(stack.url) as connection:
        notices = connection.execute("SELECT notice FROM deliveries WHERE job_id = %s", [job["id"]]).fetchall()
    assert notices == [("export.completed",)]
    link = f"/v1/exports/{job['id']}/files/0?"
    until(lambda: any(link in letter.get_body(("plain",)).get_content() for letter in box.messages), 150)


def assert_nothing_left(stack):
    def quiet():
        with psycopg.connect(stack.source) as connection:
            backends = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^outhaul:[0-9a-f]'"
            ).fetchone()
            return backends == (0,)

    def slots_free():
        states = {"type": {"any_": ["RUNNING", "PENDING"]}}
        runs = stack.prefect("flow_runs/filter", flows={"name": {"any_": ["export"]}}, flow_runs={"state": states})
        return runs == []

    until(quiet, 30)
    until(slots_free, 200)
    with psycopg.connect(stack.url) as connection:
        busy = "SELECT count(*) FROM export_jobs WHERE status IN ('queued', 'processing')"
        assert connection.execute(busy).fetchone() == (0,)


@MINUTES
def test_the_table_is_whole():
    """Runs last, and writes the page if there is one to write."""
    assert len(TABLE) == len(VICTIMS) * len(MOMENTS)
    lines = ["| killed | " + " | ".join(MOMENTS.values()) + " |", "|---" * (len(MOMENTS) + 1) + "|"]
    lines += [
        f"| {victim} | " + " | ".join(TABLE[victim, moment] for moment in MOMENTS.values()) + " |" for victim in VICTIMS
    ]
    print("\n".join(lines))
    if page := os.environ.get("OUTHAUL_RELIABILITY"):
        before, _, rest = Path(page).read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        Path(page).write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")
