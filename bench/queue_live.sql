-- The present: what earlier runs left goes, and the same few thousand jobs are under way again as before each run.

TRUNCATE job_events;

CREATE TEMPORARY TABLE left_over ON COMMIT DROP AS
SELECT id FROM export_jobs WHERE created_at >= '2026-04-01';
DELETE FROM export_files WHERE job_id IN (SELECT id FROM left_over);
DELETE FROM export_jobs WHERE id IN (SELECT id FROM left_over);

-- 1,000 jobs of one tenant wait, and 2 each of 1,500; 300 wait for a retry; 60 have a place, some of them lost.
INSERT INTO export_jobs (
    tenant_id, requested_by, dataset, query, status, retry_count, attempt, priority, prefect_flow_run_id, lease_expiry,
    lease_owner, run_after, error_code, error_message, created_at, updated_at, started_at
)
SELECT
    tenants.id,
    'live',
    'orders',
    '{"columns": ["id", "status", "amount"]}',
    status,
    (status = 'failed')::integer,
    (status IN ('processing', 'failed'))::integer,
    (ARRAY['normal', 'normal', 'normal', 'high', 'low'])[1 + i % 5],
    CASE WHEN status IN ('processing', 'failed') OR status = 'queued' AND i % 2 = 0 THEN md5('live run ' || i)::uuid END,
    CASE WHEN status = 'processing' THEN now() + interval '1 day' - (i % 8 = 0)::integer * interval '2 days' END,
    CASE WHEN status = 'processing' THEN 'worker-' || i END,
    CASE WHEN status = 'failed' THEN now() + interval '1 day' - (i % 15 = 0)::integer * interval '2 days' END,
    CASE WHEN status = 'failed' THEN 'source_unavailable' END,
    CASE WHEN status = 'failed' THEN 'the source database cannot be reached' END,
    now() - interval '1 hour' + i * interval '100 milliseconds',
    now() - interval '30 minutes',
    CASE WHEN status IN ('processing', 'failed') THEN now() - interval '40 minutes' END
FROM generate_series(1, 4360) AS i
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN i <= 4000 THEN 'enqueued' WHEN i <= 4300 THEN 'failed' WHEN i <= 4340 THEN 'processing' ELSE 'queued' END
            AS status,
        CASE WHEN i <= 1000 THEN 1 ELSE 2 + i % 1500 * 7 % ({tenants} - 1) END AS tenant
) AS derived
JOIN tenants ON tenants.name = 'tenant-' || tenant;

INSERT INTO job_events (job_id, attempt, event, from_status, to_status, actor, at)
SELECT id, moved.attempt, moved.event, moved.from_status, moved.to_status, 'live', updated_at
FROM export_jobs
CROSS JOIN LATERAL (
    VALUES
    (1, 0, 'enqueue', NULL, 'enqueued'),
    (2, 0, 'admit', 'enqueued', 'queued'),
    (3, 1, 'claim', 'queued', 'processing'),
    (4, 1, 'fail', 'processing', 'failed')
) AS moved (step, attempt, event, from_status, to_status)
WHERE
    requested_by = 'live'
    AND status IN ('enqueued', 'queued', 'processing', 'failed')
    AND created_at >= '2026-04-01'
    AND moved.step <= array_position(ARRAY['enqueued', 'queued', 'processing', 'failed'], status)
ORDER BY moved.step;
