"""What the stack does when things die. Order matters: the last test ends the stack and starts another in its place."""

import csv
import os
import signal

import boto3
import psutil
import psycopg
import pytest
from conftest import until
from moto.server import ThreadedMotoServer

UNITED = 58_665
GATED = (
    "ALTER TABLE flights RENAME TO flights_there",
    """
    CREATE VIEW flights AS SELECT f.* FROM flights_there AS f
    CROSS JOIN LATERAL (SELECT CASE WHEN f.flight_id % 200 = 0 THEN pg_advisory_xact_lock_shared(7) END) AS gate
    """,
)
OPEN = ("DROP VIEW flights", "ALTER TABLE flights_there RENAME TO flights")


@pytest.fixture
def slow(stack):
    """Reading the flights stops half way, until ``fast`` is called."""
    with psycopg.connect(stack.source, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(7)")
        for statement in GATED:
            connection.execute(statement)
        connection.fast = lambda: connection.execute("SELECT pg_advisory_unlock(7)")
        yield connection
        if not connection.closed:
            connection.fast()
            for statement in OPEN:
                connection.execute(statement)


def nobody_reads(source):
    sessions = source.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outhaul:%'")
    return sessions.fetchone() == (0,)


def test_cancel_stops_a_running_export(stack, slow):
    job_id = stack.json("request", "flights", "--tenant", "UA")["id"]
    until(lambda: stack.job(job_id)["status"] == "processing")
    stack.run("cancel", job_id[:8])
    until(lambda: stack.job(job_id)["status"] == "cancelled")
    until(lambda: nobody_reads(slow))
    assert not stack.path(f"UA/{job_id}").exists()


def test_a_killed_export_is_done_again(stack, slow):
    job_id = stack.json("request", "flights", "--tenant", "UA", "--format", "parquet")["id"]
    until(lambda: stack.job(job_id)["status"] == "processing")
    process = until(lambda: stack.process_of_run(stack.job(job_id)["prefect_flow_run_id"]))
    process.kill()
    lease = stack.job(job_id)["lease_expiry"]
    slow.fast()
    job = until(lambda: (job := stack.job(job_id))["status"] != "processing" and job)
    assert job["updated_at"] < lease, "its worker saw it die: nobody waits for the lease to run out"
    job = stack.ended(job_id)
    assert (job["status"], job["attempt"], job["rows_written"]) == ("completed", 2, UNITED)
    assert job["error_code"] == "worker_vanished"
    run = until(lambda: ended_run(stack, job))
    assert (run["run_count"], run["state"]["type"]) == (2, "COMPLETED")
    (page,) = stack.pages(run["id"], f"failure-{job_id}")
    assert "attempt 1 failed" in page
    assert "worker_vanished: " in page
    assert "this run starts again at " in page
    artifacts = stack.prefect("artifacts/filter", artifacts={"flow_run_id": {"any_": [run["id"]]}}, sort="CREATED_DESC")
    said = {artifact["description"]: artifact["data"] for artifact in artifacts if artifact["type"] == "progress"}
    assert said["flights for UA, attempt 1"] < said["flights for UA, attempt 2"] == 100
    assert f"Files of job {job_id}, attempt 2" in {artifact["description"] for artifact in artifacts}


def ended_run(stack, job):
    """The job's run once it has ended, which is a moment after the job."""
    run = stack.prefect(f"flow_runs/{job['prefect_flow_run_id']}")
    return run["state"]["type"] in {"COMPLETED", "CRASHED", "FAILED", "CANCELLED"} and run


def test_an_export_outlives_its_worker(stack, slow):
    job_id = stack.json("request", "flights", "--tenant", "UA")["id"]
    until(lambda: stack.job(job_id)["status"] == "processing")
    stack.process_of("worker exports").kill()
    slow.fast()
    job = stack.ended(job_id)
    assert (job["status"], job["attempt"], job["rows_written"]) == ("completed", 1, UNITED)
    run = until(lambda: ended_run(stack, job))
    assert (run["run_count"], run["state"]["type"]) == (1, "COMPLETED")


def test_a_worker_told_to_stop_has_its_run_hand_the_job_back(stack, slow):
    job_id = stack.json("request", "flights", "--tenant", "UA")["id"]
    first = until(lambda: (job := stack.job(job_id))["status"] == "processing" and job)
    process = until(lambda: stack.process_of_run(first["prefect_flow_run_id"]))
    worker = stack.process_of("worker exports")
    worker.terminate()
    psutil.wait_procs([worker, process], timeout=40)
    assert not process.is_running()
    slow.fast()
    job = stack.ended(job_id)
    assert (job["status"], job["attempt"], job["retry_count"]) == ("completed", 2, 0)
    assert (job["silent_deaths"], job["generation"], job["rows_written"]) == (0, 2, UNITED)
    run = until(lambda: ended_run(stack, first))
    assert run["state"]["type"] == "CRASHED", "to Prefect it must not run for ever"


def test_a_worker_lets_its_runs_finish_within_the_grace(stack, slow, tmp_path):
    other = stack.process_of("worker exports")
    other.suspend()
    worker = None
    try:
        with (tmp_path / "worker.log").open("wb") as log:
            worker = stack.start("worker", "exports", "--grace", "100", "--name", "drains", log=log)
        job_id = stack.json("request", "flights", "--tenant", "DL")["id"]
        until(lambda: stack.job(job_id)["status"] == "processing")
        worker.terminate()
        until(lambda: "draining: 1 runs under way, 100 s of grace" in (tmp_path / "worker.log").read_text())
        waiting = stack.json("request", "weather", "--tenant", "DL")["id"]
        slow.fast()
        assert worker.wait(timeout=100) == 0, (tmp_path / "worker.log").read_text()
        job = stack.job(job_id)
        assert (job["status"], job["attempt"]) == ("completed", 1)
        assert stack.job(waiting)["status"] == "queued", "it takes nothing new"
    finally:
        other.resume()
        if worker and worker.poll() is None:
            worker.kill()
            worker.wait()
    until(lambda: stack.job(waiting)["status"] == "completed")


@pytest.fixture
def one_place(stack):
    """The pool of exports has a single place."""
    limit = stack.prefect("work_pools/exports")["concurrency_limit"]
    stack.prefect("work_pools/exports", "PATCH", concurrency_limit=1)
    yield
    stack.prefect("work_pools/exports", "PATCH", concurrency_limit=limit)


def processes_of(stack, flow):
    """Those of a flow's runs under way."""
    running = {"state": {"type": {"any_": ["RUNNING"]}}}
    runs = stack.prefect("flow_runs/filter", flows={"name": {"any_": [flow]}}, flow_runs=running)
    return [until(lambda run=run: stack.process_of_run(run["id"])) for run in runs]


@pytest.mark.timeout(400)  # three times somebody waits for a sweep
@pytest.mark.usefixtures("one_place")
def test_case_32_what_was_killed_with_its_worker_is_mended_and_its_place_is_free(stack, slow):
    first, second = (stack.json("request", "flights", "--tenant", tenant)["id"] for tenant in ("UA", "DL"))
    until(lambda: stack.job(first)["status"] == "processing")
    victims = [stack.process_of("worker exports"), *processes_of(stack, "export")]
    assert len(victims) == 2
    for process in victims:
        process.kill()
    stack.run("cancel", first[:8])
    assert stack.ended(first)["status"] == "cancelled"
    last = stack.json("job", first)["events"][-1]
    assert (last["event"], last["actor"]) == ("cancel", "sweep"), "nobody else was there to heed it"
    until(lambda: ended_run(stack, stack.job(first)))

    until(lambda: stack.job(second)["status"] == "processing")
    victims = [stack.process_of("worker exports"), *processes_of(stack, "export")]
    with psycopg.connect(stack.url, autocommit=True) as queue:
        queue.execute("SELECT pg_advisory_lock(hashtextextended('outhaul admission', 0))")
        sweep = stack.prefect("deployments/name/sweep/sweep")["id"]
        stack.prefect(f"deployments/{sweep}/create_flow_run", tags=[])
        until(
            lambda: queue.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query ~ 'outhaul admission'"
            ).fetchone()
        )
        victims += [stack.process_of("worker maintenance"), *processes_of(stack, "sweep")]
        for process in victims:
            process.kill()
    slow.fast()
    job = stack.ended(second)
    assert (job["status"], job["attempt"], job["error_code"]) == ("completed", 2, "worker_vanished")
    folder = stack.path(job["s3_key"]).parent
    until(lambda: [*folder.parent.iterdir()] == [folder])
    with (folder / "flights-00000.csv").open() as file:
        found = sorted(int(row["flight_id"]) for row in csv.DictReader(file))
    assert found == [row[0] for row in slow.execute("SELECT flight_id FROM flights WHERE carrier = 'DL' ORDER BY 1")]
    until(lambda: nobody_reads(slow))
    assert until(lambda: ended_run(stack, job))["state"]["type"] == "COMPLETED"
    assert stack.json("request", "flights", "--tenant", "AA", "--limit", "9", "--wait")["rows_written"] == 9


@pytest.mark.timeout(600)  # a run that was handed to a dead worker is given two minutes, and sweeps come each minute
def test_killing_everything_loses_no_job_and_the_next_stack_finishes_them_on_s3(stack, slow):
    ids = [
        stack.json("request", "flights", "--tenant", tenant, "--limit", "1000")["id"]
        for tenant in ("UA", "UA", "UA", "DL")
    ]
    until(lambda: any(stack.job(job_id)["status"] == "processing" for job_id in ids))
    victims = []
    for process in psutil.process_iter():
        try:
            of_home = any(word.startswith(str(stack.home)) for word in process.cmdline())
            if of_home or process.environ().get("OUTHAUL_HOME") == str(stack.home):
                victims.append(process)
        except psutil.Error:
            continue
    assert len(victims) >= 6, "supervisor, PostgreSQL, Prefect, two workers and an export at least"
    assert any(process.name() == "postgres" for process in victims)
    for process in victims:
        os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(victims, timeout=20)
    slow.close()
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    credentials = {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }  # fmt: skip
    s3 = boto3.client(
        "s3", aws_access_key_id="key", aws_secret_access_key="secret", region_name="us-east-1",
        endpoint_url=credentials["AWS_ENDPOINT_URL"],
    )  # fmt: skip
    try:
        s3.create_bucket(Bucket="exports")
        stack.up(OUTHAUL_STORE_URL="s3://exports/prod", **credentials)
        with psycopg.connect(stack.source, autocommit=True) as connection:
            for statement in OPEN:
                connection.execute(statement)
        for job_id in ids:
            job = stack.ended(job_id, 240)
            assert (job["status"], job["rows_written"]) == ("completed", 1000), job
            key = f"prod/{job['s3_key']}".replace("manifest.json", "flights-00000.csv")
            assert s3.get_object(Bucket="exports", Key=key)["Body"].read().count(b"\n") == 1001
        parquet = stack.json("request", "flights", "--tenant", "UA", "--format", "parquet", "--wait")
        (file,) = parquet["files"]
        assert s3.head_object(Bucket="exports", Key=f"prod/{file['s3_key']}")["ContentLength"] == file["byte_count"]
        assert file["row_count"] == UNITED
        assert s3.list_multipart_uploads(Bucket="exports").get("Uploads", []) == []
        _credentials_from_a_block(stack, s3, credentials["AWS_ENDPOINT_URL"])
    finally:
        server.stop()


def _credentials_from_a_block(stack, s3, endpoint):
    types = stack.prefect("block_types/slug/aws-credentials")
    schema = stack.prefect("block_schemas/filter", block_schemas={"block_type_id": {"any_": [types["id"]]}})[0]
    data = {
        "aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1",
        "aws_client_parameters": {"endpoint_url": endpoint},
    }  # fmt: skip
    stack.prefect("block_documents/", name="lab", data=data, block_schema_id=schema["id"], block_type_id=types["id"])
    for name in [name for name in stack.env if name.startswith("AWS_")]:
        del stack.env[name]
    copied = stack.json(
        "copy", "weather", "--to", "s3://exports/weather.parquet", OUTHAUL_STORE_CREDENTIALS_BLOCK="aws-credentials/lab"
    )
    assert s3.head_object(Bucket="exports", Key="weather.parquet")["ContentLength"] == copied["bytes"]
    error = stack.run(
        "copy", "weather", "--to", "s3://exports/w.csv", code=1, OUTHAUL_STORE_CREDENTIALS_BLOCK="aws-credentials/none"
    ).stderr
    assert "OUTHAUL_STORE_CREDENTIALS_BLOCK: Prefect has no block 'aws-credentials/none'" in error
