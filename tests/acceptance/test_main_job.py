"""The main job, as its user does it: by the command line, through PostgreSQL and Prefect, to a file."""

import hashlib
import json
import time

import duckdb
import polars as pl
import psycopg
import pyarrow.parquet as pq
import pytest

UNITED = 58_665


@pytest.fixture(scope="module")
def done(stack):
    """United's flights, exported in each format."""
    return {
        format_: stack.json("request", "flights", "--tenant", "UA", "--format", format_, "--wait")
        for format_ in ("parquet", "csv", "json")
    }


@pytest.fixture
def source(stack):
    with psycopg.connect(stack.source) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


def test_parquet_equals_the_table_row_by_row(stack, done, source):
    (file,) = done["parquet"]["files"]
    found = pq.read_table(stack.path(file["s3_key"])).sort_by("flight_id").to_pylist()
    cursor = source.execute("SELECT * FROM flights WHERE carrier = 'UA' ORDER BY flight_id")
    names = [column.name for column in cursor.description]
    assert len(found) == UNITED
    assert found == [dict(zip(names, row, strict=True)) for row in cursor]


def test_csv_is_what_copy_prints(stack, done, source):
    (file,) = done["csv"]["files"]
    found = stack.path(file["s3_key"]).read_bytes().splitlines(keepends=True)
    statement = "COPY (SELECT * FROM flights WHERE carrier = 'UA') TO STDOUT (FORMAT csv, HEADER)"
    with source.cursor().copy(statement) as copy:
        expected = b"".join(bytes(piece) for piece in copy).splitlines(keepends=True)
    assert len(found) == UNITED + 1
    assert found[0] == expected[0]
    assert sorted(found[1:]) == sorted(expected[1:])


def test_other_tools_read_the_same(stack, done):
    paths = {format_: stack.path(job["files"][0]["s3_key"]) for format_, job in done.items()}
    count = "count(*), count(dep_time), sum(distance), count(DISTINCT carrier)"
    answers = {
        duckdb.sql(f"SELECT {count} FROM read_parquet('{paths['parquet']}')").fetchone(),
        duckdb.sql(f"SELECT {count} FROM read_csv('{paths['csv']}')").fetchone(),
        duckdb.sql(f"SELECT {count} FROM read_json('{paths['json']}', format='newline_delimited')").fetchone(),
    }
    ((rows, departed, miles, carriers),) = answers
    assert (rows, carriers) == (UNITED, 1)
    frame = pl.read_parquet(paths["parquet"])
    assert (frame["dep_time"].count(), frame["distance"].sum()) == (departed, miles)


def test_the_row_says_what_the_files_are(stack, done):
    for format_, job in done.items():
        with psycopg.connect(stack.url) as connection:
            row = connection.execute(
                "SELECT status, format, rows_written, byte_count, s3_key, attempt FROM export_jobs WHERE id = %s",
                [job["id"]],
            ).fetchone()
        (file,) = job["files"]
        data = stack.path(file["s3_key"]).read_bytes()
        assert row == ("completed", format_, UNITED, len(data), job["s3_key"], 1)
        assert file["sha256"] == hashlib.sha256(data).hexdigest()
        ending = "jsonl" if format_ == "json" else format_
        assert file["s3_key"] == f"UA/{job['id']}/1-1/flights-00000.{ending}"
        manifest = json.loads(stack.path(job["s3_key"]).read_text())
        assert manifest["files"] == [
            {"key": file["s3_key"], "rows": UNITED, "bytes": len(data), "sha256": file["sha256"]}
        ]
        assert (manifest["rows"], manifest["attempt"], manifest["tenant"]) == (UNITED, 1, "UA")


def test_prefect_shows_the_run(stack, done):
    job = done["parquet"]
    run = stack.prefect(f"flow_runs/{job['prefect_flow_run_id']}")
    assert (run["state"]["type"], run["work_pool_name"], run["run_count"]) == ("COMPLETED", "exports", 1)
    assert run["name"] == f"flights · UA · parquet · {job['id'][:8]}"
    assert run["state"]["message"].startswith("58,665 rows")
    artifacts = stack.prefect("artifacts/filter", artifacts={"flow_run_id": {"any_": [run["id"]]}})
    by_type = {artifact["type"]: artifact for artifact in artifacts}
    assert by_type["progress"]["data"] == 100
    assert job["files"][0]["sha256"] in by_type["markdown"]["data"]
    assert "58,665" in by_type["markdown"]["data"]


def test_history_tells_who_did_what(stack, done):
    events = stack.json("job", done["csv"]["id"])["events"]
    assert [event["event"] for event in events] == ["enqueue", "admit", "claim", "complete"]
    assert events[2]["actor"] == f"{done['csv']['prefect_flow_run_id']}/1"


def test_filters_columns_sort_and_limit(stack, source):
    where = '[{"column": "dep_delay", "op": ">", "value": 300}, {"column": "origin", "op": "=", "value": "EWR"}]'
    job = stack.json(
        "request", "flights", "--tenant", "UA", "--columns", "flight,dest,dep_delay", "--sort=-dep_delay,flight",
        "--where", where,
        "--limit", "5", "--option", "delimiter=;", "--wait",
    )  # fmt: skip
    expected = source.execute(
        "SELECT concat_ws(';', flight, dest, dep_delay) FROM flights WHERE carrier = 'UA' AND origin = 'EWR'"
        " AND dep_delay > 300 ORDER BY dep_delay DESC NULLS LAST, flight LIMIT 5"
    ).fetchall()
    lines = stack.path(job["files"][0]["s3_key"]).read_text().splitlines()
    assert lines == ["flight;dest;dep_delay", *(line for (line,) in expected)]


def test_no_request_returns_another_airlines_row(stack):
    everything = [
        '{"column": "carrier", "op": "=", "value": "DL"}',
        '{"or": [{"column": "carrier", "op": "not_null"}, {"column": "carrier", "op": "is_null"}]}',
        '{"not": {"column": "carrier", "op": "=", "value": "UA"}}',
        '{"column": "carrier", "op": "in", "value": ["DL", "AA"]}',
    ]
    for where in everything:
        job = stack.json("request", "flights", "--tenant", "UA", "--where", where, "--format", "parquet", "--wait")
        carriers = set(pl.read_parquet(stack.path(job["files"][0]["s3_key"]))["carrier"])
        assert carriers <= {"UA"}, where


def test_copy_needs_no_queue(stack, tmp_path):
    stack.env["PREFECT_API_URL"] = "http://127.0.0.1:1/api"  # nothing answers there
    try:
        copied = stack.json("copy", "flights", "--tenant", "UA", "--to", str(tmp_path / "ua.parquet"))
    finally:
        del stack.env["PREFECT_API_URL"]
    assert copied["rows"] == pq.read_metadata(tmp_path / "ua.parquet").num_rows == UNITED
    assert copied["sha256"] == hashlib.sha256((tmp_path / "ua.parquet").read_bytes()).hexdigest()
    assert set(copied) == {"to", "rows", "bytes", "sha256", "files", "seconds", "peak_rss_bytes"}
    assert copied["files"] == [{key: copied[key] for key in ("to", "rows", "bytes", "sha256")}]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["flightz", "--tenant", "UA"], "dataset: 'flightz' is not a known dataset. Did you mean 'flights'?"),
        (["flights", "--tenant", "UAA"], "'UAA' is not a known tenant. Did you mean 'UA'?"),
        (["flights", "--tenant", "OFF"], "tenant: exports are disabled for 'OFF'"),
        (["flights", "--tenant", "UA", "--format", "xml"], "format: 'xml' is not a known format."),
        (["flights", "--tenant", "UA", "--columns", "dest,orgin"], "columns[1]: 'orgin' is not a known column."),
        (["flights", "--tenant", "UA", "--where", "{bad"], "where: not valid JSON at character 1"),
        (["flights", "--tenant", "UA", "--where", '{"column": "dest", "op": "~", "value": "x"}'], "filters.op: '~'"),
        (["flights", "--tenant", "UA", "--where", '{"column": "flight", "op": "=", "value": "x"}'], "filters.value"),
        (["flights", "--tenant", "UA", "--limit", "-1"], "limit: input should be greater than or equal to 0"),
        (["flights", "--tenant", "UA", "--option", "delimeter=;"], "options.delimeter"),
        (["flights", "--tenant", "UA", "--option", "delimiter"], "option: 'delimiter' is not of the form name=value"),
        (["flights", "--tenant", "UA", "--priority", "urgent"], "priority: 'urgent' is not a known priority."),
        (["flights"], "--tenant"),
    ],
)
def test_bad_input_is_one_line_and_stores_nothing(stack, words, line):
    if "OFF" in words:
        stack.run("tenants", "add", "OFF")
        stack.run("tenants", "set", "OFF", "--export-disabled")
    before = len(stack.json("jobs", "--count", "1000"))
    error = stack.run("request", *words, code=2).stderr
    assert error.startswith("outhaul: ")
    assert line in error
    assert error.count("\n") == 1
    assert len(stack.json("jobs", "--count", "1000")) == before


def test_a_job_that_cannot_succeed_is_dead_at_once_and_says_why(stack, source):
    source.execute("ALTER TABLE planes RENAME COLUMN seats TO chairs")
    source.commit()
    try:
        job = stack.json("request", "flight_planes", "--tenant", "UA", "--wait", code=1)
    finally:
        source.execute("ALTER TABLE planes RENAME COLUMN chairs TO seats")
        source.commit()
    assert (job["status"], job["attempt"], job["retry_count"], job["files"]) == ("dead", 1, 0, [])
    assert "no longer exists" in job["error_message"]
    assert not stack.path(f"UA/{job['id']}").exists()
    assert "seats" in job["error_detail"]
    (page,) = stack.pages(job["prefect_flow_run_id"], f"failure-{job['id']}")
    helps = "A table, column or right that is missing has to be put back at the source"
    for words in ("source_error: ", "no longer exists", helps, f"`outhaul retry {job['id'][:8]}`", job["id"]):
        assert words in page
    assert helps in stack.run("job", job["id"]).stdout
    assert stack.run("retry", job["id"][:8]).stdout.endswith("generation 2\n")
    again = _wait(stack, job["id"])
    assert (again["status"], again["generation"], again["rows_written"]) == ("completed", 2, UNITED)


def asked_from_prefect(stack, **parameters):
    """Run the deployment by Prefect's API, as its form does, and wait for its end."""
    deployment = stack.prefect("deployments/name/request-export/request-export")
    made = stack.prefect(f"deployments/{deployment['id']}/create_flow_run", name="ada's flights", parameters=parameters)
    return _ended(stack, made["id"])


def test_a_person_asks_in_prefect(stack, source):
    query = {
        "columns": ["flight", "dest"],
        "filters": [
            {"column": "dest", "op": "in", "value": ["SFO", "LAX"]},
            {"column": "flight", "op": "<", "value": 400},
        ],
        "where": '{"not": {"column": "origin", "op": "=", "value": "JFK"}}',
        "sort": [{"column": "flight_id", "descending": False, "nulls": "last"}],
    }
    options = {"csv": {"delimiter": ";", "bom": False}, "json": {"layout": "lines"}}
    run = asked_from_prefect(stack, dataset="flights", tenant="UA", query=query, options=options)
    assert run["state"]["type"] == "COMPLETED", run["state"]["message"]
    job = stack.json("jobs", "--count", "1")[0]
    assert job["requested_by"] == "prefect ada's flights"
    assert run["state"]["message"] == f"Job {job['id'][:8]} is queued."
    (page,) = stack.pages(run["id"], f"request-{job['id']}")
    job = _wait(stack, job["id"])
    assert job["status"] == "completed"
    for words in (job["id"], f"/runs/flow-run/{job['prefect_flow_run_id']})", f"/v1/exports/{job['id']}/files)"):
        assert words in page
    expected = source.execute(
        "SELECT concat_ws(';', flight, dest) FROM flights WHERE carrier = 'UA' AND dest IN ('SFO', 'LAX')"
        " AND flight < 400 AND origin <> 'JFK' ORDER BY flight_id"
    ).fetchall()
    lines = stack.path(job["files"][0]["s3_key"]).read_text().splitlines()
    assert lines == ["flight;dest", *(line for (line,) in expected)]
    assert len(lines) > 1
    # What is started again in Prefect asks for nothing new.
    stack.prefect(f"flow_runs/{run['id']}/set_state", state={"type": "SCHEDULED"}, force=True)
    again = _ended(stack, run["id"])
    assert (again["run_count"], again["state"]["message"]) == (2, f"Job {job['id'][:8]} is completed.")
    assert stack.json("jobs", "--count", "1")[0]["id"] == job["id"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"tenant": "UAA"}, "'UAA' is not a known tenant. Did you mean 'UA'?"),
        (
            {"query": {"columns": ["dest", "orgin"]}},
            "columns[1]: 'orgin' is not a known column. Did you mean 'origin'?",
        ),
        (
            {"options": {"parquet": {"compression": "lz4"}}},
            "options.parquet: compression is said, but the format is csv",
        ),
    ],
)
def test_what_is_refused_in_prefect_is_a_plain_state(stack, given, line):
    before = len(stack.json("jobs", "--count", "1000"))
    state = asked_from_prefect(stack, **{"dataset": "flights", "tenant": "UA", **given})["state"]
    assert state["type"] == "FAILED"
    assert state["message"].startswith(line)
    assert "\n" not in state["message"]
    assert len(stack.json("jobs", "--count", "1000")) == before


def _ended(stack, run_id):
    while (run := stack.prefect(f"flow_runs/{run_id}"))["state"]["type"] not in {"COMPLETED", "FAILED", "CRASHED"}:
        time.sleep(0.2)
    return run


def _wait(stack, job_id):
    while (job := stack.json("job", job_id))["status"] not in {"completed", "dead", "cancelled"}:
        continue
    return job
