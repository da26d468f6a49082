-- The past of a queue: {jobs} jobs of the first three months of 2026, the same ones on every machine, for each value
-- comes from a hash of its number. {tenants} tenants share them as customers do: the first has 1 in 20, most have a few.
-- Indexes and keys are taken down, put back at the end and so checked for every row.

SET LOCAL maintenance_work_mem = '1GB';
SET LOCAL work_mem = '256MB';
SET LOCAL search_path = public;

CREATE TEMPORARY TABLE taken_down ON COMMIT DROP AS
SELECT
    CASE contype WHEN 'f' THEN 3 ELSE 1 END AS rank,
    format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS down,
    format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS up
FROM pg_constraint
WHERE contype IN ('p', 'u', 'f') AND connamespace = 'public'::regnamespace AND conrelid <> 'alembic_version'::regclass
UNION ALL
SELECT 2, format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
FROM pg_index
JOIN pg_class AS c ON c.oid = indrelid
WHERE
    c.relnamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'));

DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN SELECT down FROM taken_down ORDER BY rank DESC LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- Emptied in the transaction that fills them: a server with wal_level = minimal then need not log the rows.
TRUNCATE tenants, export_jobs, schedules, export_files, job_events CASCADE;

INSERT INTO tenants (id, name, plan, max_concurrent_jobs, created_at, last_served_at)
SELECT
    md5('tenant ' || k)::uuid,
    'tenant-' || k,
    CASE WHEN k <= {tenants} / 100 THEN 'enterprise' WHEN k <= {tenants} / 10 THEN 'pro' ELSE 'free' END,
    CASE WHEN k <= {tenants} / 100 THEN 8 WHEN k <= {tenants} / 10 THEN 4 ELSE 2 END,
    '2025-12-01',
    timestamptz '2026-03-01' + hashint4extended(k, 9) % 2000000 * interval '1 second'
FROM generate_series(1, {tenants}) AS k;

-- Each tenant's first job is the one that its schedule repeats.
INSERT INTO schedules (id, job_id, cron_expression, last_run_at, next_run_at, active)
SELECT
    md5('schedule ' || k)::uuid,
    md5('job ' || k)::uuid,
    format('%s %s * * *', k % 60, k % 24),
    timestamptz '2026-03-31' + k % 1440 * interval '1 minute',
    timestamptz '2026-04-01' + k % 1440 * interval '1 minute',
    k % 10 > 0
FROM generate_series(1, {tenants}) AS k;

INSERT INTO export_jobs (
    id, tenant_id, schedule_id, requested_by, dataset, query, format, recipients, priority, status, retry_count, attempt,
    prefect_flow_run_id, rows_total_estimate, rows_done, rows_written, byte_count, s3_key, error_code, error_message,
    idempotency_key, created_at, updated_at, started_at, finished_at
)
SELECT
    id,
    md5('tenant ' || tenant)::uuid,
    CASE WHEN scheduled THEN md5('schedule ' || tenant)::uuid END,
    CASE WHEN scheduled THEN 'schedule' ELSE 'user-' || a % 7 || '@tenant-' || tenant || '.example.com' END,
    dataset,
    CASE a % 4
        WHEN 0 THEN jsonb '{}'
        WHEN 1 THEN jsonb '{"columns": ["id", "status", "amount", "ordered_at"]}'
        WHEN 2 THEN
            jsonb '{"filters": {"column": "ordered_at", "op": "on", "value": "2026-01-31", "zone": "Europe/Berlin"}}'
        ELSE
            jsonb '{"filters": {"and": [{"column": "status", "op": "=", "value": "paid"}, {"column": "amount",'
            ' "op": ">", "value": 100}]}, "sort": [{"column": "id", "nulls": "last", "descending": false}]}'
    END,
    (ARRAY['csv', 'csv', 'json', 'parquet'])[1 + b % 4],
    CASE WHEN b % 3 = 0 THEN 'reports@tenant-' || tenant || '.example.com' ELSE '' END,
    (ARRAY['normal', 'normal', 'normal', 'normal', 'normal', 'normal', 'normal', 'normal', 'high', 'low'])[1 + c % 10],
    status,
    CASE WHEN status = 'dead' AND a % 2 = 0 THEN 3 ELSE attempt / 2 END,
    attempt,
    CASE WHEN attempt > 0 THEN md5('run ' || i)::uuid END,
    CASE WHEN attempt > 0 THEN rows END,
    CASE WHEN status = 'completed' THEN rows ELSE 0 END,
    CASE WHEN status = 'completed' THEN rows END,
    CASE WHEN status = 'completed' THEN rows * (40 + b % 200) END,
    CASE WHEN status = 'completed' THEN 'tenant-' || tenant || '/' || id || '/1-' || attempt || '/manifest.json' END,
    CASE WHEN status = 'dead' THEN 'schema_violation' END,
    CASE WHEN status = 'dead' THEN 'column amount: 17 rows are below 0, the first one at row 4,711' END,
    CASE WHEN NOT scheduled AND c % 2 = 0 THEN 'order-' || i END,
    created_at,
    created_at + interval '90 seconds',
    CASE WHEN attempt > 0 THEN created_at + interval '4 seconds' END,
    created_at + interval '90 seconds'
FROM generate_series(1::bigint, {jobs}) AS i
CROSS JOIN LATERAL (
    SELECT
        hashint8extended(i, 1) & 9223372036854775807 AS a,
        hashint8extended(i, 2) & 9223372036854775807 AS b,
        hashint8extended(i, 3) & 9223372036854775807 AS c
) AS hash
CROSS JOIN LATERAL (
    SELECT
        md5('job ' || i)::uuid AS id,
        CASE WHEN i <= {tenants} THEN i ELSE 1 + floor({tenants} * power(a % 1000003 / 1000003.0::float8, 3))::bigint END
            AS tenant,
        a % 10 < 3 AS scheduled,
        (ARRAY['orders', 'invoices', 'events', 'customers', 'flights'])[1 + a % 5] AS dataset,
        CASE WHEN b % 100 < 94 THEN 'completed' WHEN b % 100 < 97 THEN 'dead' ELSE 'cancelled' END AS status,
        c % 1000003 AS rows,
        timestamptz '2026-01-01' + (i - 1) * (interval '90 days' / {jobs}) AS created_at
) AS derived
CROSS JOIN LATERAL (
    SELECT CASE WHEN status = 'cancelled' AND c % 2 = 0 THEN 0 WHEN c % 20 = 0 THEN 2 ELSE 1 END AS attempt
) AS tried;

-- A second part of every sixteenth set makes up for the jobs that have no file.
INSERT INTO export_files (job_id, part, s3_key, byte_count, row_count, sha256, created_at)
SELECT
    id, part, left(s3_key, -13) || dataset || '-0000' || part || '.' || format, byte_count, rows_written,
    repeat(md5(s3_key || part), 2), finished_at
FROM export_jobs
CROSS JOIN generate_series(0, (get_byte(uuid_send(id), 0) % 16 = 0)::integer) AS part
WHERE status = 'completed';

DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN SELECT up FROM taken_down ORDER BY rank LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
