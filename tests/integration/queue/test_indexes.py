"""Each index is there for a query; with many rows, that query uses it."""

import re

import pytest
from sqlalchemy import text

from outhaul.store.database import query

SEED = """
INSERT INTO tenants (name) SELECT 't' || i FROM generate_series(1, 500) AS i;
INSERT INTO export_jobs (
    tenant_id, requested_by, dataset, query, status, created_at, finished_at, attempt, started_at, lease_expiry,
    lease_owner, run_after, error_code, error_message, s3_key, rows_written, byte_count, prefect_flow_run_id, updated_at
)
SELECT
    t.id, 'seed', 'flights', '{}', s.status, now() - i * interval '1 minute',
    CASE WHEN s.status IN ('completed', 'dead') THEN now() END, 1, now(),
    CASE WHEN s.status = 'processing' THEN now() + (i - 15000) * interval '1 second' END,
    CASE WHEN s.status = 'processing' THEN 'w' END, CASE WHEN s.status = 'failed' THEN now() END, 'x', 'x',
    CASE WHEN s.status = 'completed' THEN 'k' || i END, CASE WHEN s.status = 'completed' THEN 1 END,
    CASE WHEN s.status = 'completed' THEN 1 END, gen_random_uuid(), now() - interval '1 hour'
FROM generate_series(1, 30000) AS i
CROSS JOIN LATERAL (
    SELECT
        CASE
            WHEN i % 1000 = 0 THEN 'processing' WHEN i % 1000 = 1 THEN 'queued' WHEN i % 500 = 2 THEN 'failed'
            WHEN i % 100 = 3 THEN 'enqueued' WHEN i % 100 = 4 THEN 'dead' ELSE 'completed'
        END AS status
) AS s
JOIN tenants AS t ON t.name = 't' || (i % 500 + 1);
INSERT INTO export_files (job_id, part, s3_key, byte_count, row_count, sha256)
SELECT id, 0, s3_key, 1, 1, repeat('0', 64) FROM export_jobs WHERE status = 'completed';
INSERT INTO job_events (job_id, attempt, event, to_status, actor)
SELECT id, 0, 'enqueue', 'enqueued', 'seed' FROM export_jobs;
INSERT INTO schedules (job_id, cron_expression, next_run_at, active)
SELECT id, '0 0 * * *', created_at + interval '40 days', true FROM export_jobs;
INSERT INTO webhook_endpoints (tenant_id, url, events, secret, created_by)
SELECT t.id, 'https://hooks.example.com/' || i, '{export.completed}', 'x', 'seed'
FROM generate_series(1, 2000) AS i JOIN tenants AS t ON t.name = 't' || (i % 500 + 1);
INSERT INTO api_keys (tenant_id, name, hash, scopes, created_by)
SELECT t.id, 'k', sha256(CAST(CAST(i AS text) AS bytea)), '{read}', 'seed'
FROM generate_series(1, 5000) AS i JOIN tenants AS t ON t.name = 't' || (i % 500 + 1);
INSERT INTO deliveries (job_id, event_id, notice, endpoint_id, status, next_try_at, finished_at)
SELECT
    v.job_id, v.id, 'export.completed', e.id, s.status, CASE s.status WHEN 'pending' THEN now() END,
    CASE WHEN s.status <> 'pending' THEN now() - interval '10 days' END
FROM job_events AS v
JOIN export_jobs AS j ON j.id = v.job_id
JOIN webhook_endpoints AS e ON e.tenant_id = j.tenant_id
CROSS JOIN LATERAL (
    SELECT CASE v.id % 500 WHEN 0 THEN 'pending' WHEN 1 THEN 'dead' ELSE 'delivered' END AS status
) AS s
WHERE v.id % 4 = 0 OR v.id % 500 < 2;
INSERT INTO delivery_tries (delivery_id, outcome, note) SELECT id, 'delivered', 'x' FROM deliveries;
UPDATE export_jobs SET schedule_id = schedules.id FROM schedules WHERE schedules.job_id = export_jobs.id;
"""


@pytest.fixture
def connection(engine):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in SEED.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
        connection.exec_driver_sql("VACUUM ANALYZE")
        yield connection


def plan(connection, statement, **params):
    bound = {name: value for name, value in params.items() if f":{name}" in str(statement)}
    lines = connection.execute(text(f"EXPLAIN {statement}"), bound).scalars().all()
    return "\n".join(lines)


# Several indexes can serve a query about one status; which one is cheapest is the planner's to say.
BY_STATUS = "export_jobs_status_created|export_jobs_status_lease"


def test_every_query_finds_its_index(connection):
    tenant = connection.execute(text("SELECT id FROM tenants WHERE name = 't3'")).scalar_one()
    job, schedule = connection.execute(text("SELECT id, schedule_id FROM export_jobs LIMIT 1")).one()
    params = {
        "tenant_id": tenant, "status": "completed", "count": 50, "grace_s": 120.0, "id": job, "max_active": 600,
        "max_per_source": 600, "sources": ["enqueued"], "target": "queued", "job_id": None, "per_addressee": 4,
        "hold_s": 300.0, "quiet_s": 3600.0, "endpoint_id": None,
    }  # fmt: skip
    expected = {
        "job_list": "export_jobs_tenant_created|export_jobs_tenant_status_created",
        "job_lapsed": "export_jobs_status_lease",
        "job_list_all": "export_jobs_created|export_jobs_status_created",
        "job_without_run": BY_STATUS,
        "job_queued": BY_STATUS,
        "job_overdue": "export_jobs_due",
        "job_admit": "export_jobs_waiting",
        "file_list": "export_files_job",
        "event_list": "job_events_job",
        "delivery_take": "deliveries_due",
        "delivery_tries": "delivery_tries_delivery",
        "endpoint_list": "webhook_endpoints_tenant",
        "key_list": "api_keys_tenant",
        "alert_dead": "export_jobs_dead",
        "alert_undelivered": "deliveries_dead",
    }
    for name, index in expected.items():
        found = plan(connection, query(name), **params)
        assert re.search(index, found), f"{name}\n{found}"
        assert "Seq Scan on export_jobs" not in found, f"{name}\n{found}"
    endpoint = connection.execute(text("SELECT id FROM webhook_endpoints LIMIT 1")).scalar_one()
    for of, index in (("job_id", "deliveries_job"), ("endpoint_id", "deliveries_endpoint")):
        found = plan(connection, query("delivery_list"), **{**params, of: job if of == "job_id" else endpoint})
        assert index in found, found
    # These serve queries that have no file yet: the schedules' own, and the foreign key's check on deletion.
    assert "export_jobs_schedule" in plan(connection, f"SELECT 1 FROM export_jobs WHERE schedule_id = '{schedule}'")
    assert "schedules_job" in plan(connection, f"SELECT 1 FROM schedules WHERE job_id = '{job}'")
    due = "SELECT id FROM schedules WHERE active AND next_run_at <= now() ORDER BY next_run_at LIMIT 100"
    assert "schedules_next_run" in plan(connection, due)
    checked = set("|".join(expected.values()).split("|")) | {
        "export_jobs_schedule", "schedules_job", "schedules_next_run", "deliveries_job", "deliveries_endpoint",
    }  # fmt: skip
    own = connection.execute(
        text(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisunique AND indrelid IN"
            " (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
        )
    ).scalars()
    assert set(own) == checked, "an index without a query, or the other way round"
