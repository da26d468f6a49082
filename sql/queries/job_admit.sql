-- Whose turn it is. Runs under the admission lock, so the counts cannot change underneath.
--
-- First the tenant with the fewest jobs under way, then the one least recently served; within a tenant by age, to which
-- lower priorities add a handicap. So a tenant with a thousand jobs gets its second place only after everyone else has
-- had a first, and a job of low priority is late, but never lost. What is paused stays in line without holding up others.
WITH RECURSIVE
busy AS MATERIALIZED (
    SELECT tenant_id, source, count(*) AS jobs
    FROM export_jobs
    WHERE status IN ('queued', 'processing')
    GROUP BY tenant_id, source
),

room AS MATERIALIZED (
    SELECT
        CASE
            WHEN EXISTS (SELECT FROM pauses_in_force WHERE scope = 'queue') THEN 0
            ELSE greatest(0, :max_active - coalesce(sum(jobs), 0))
        END AS places
    FROM busy
),

busy_tenants AS MATERIALIZED (SELECT tenant_id, sum(jobs) AS jobs FROM busy GROUP BY tenant_id),

busy_sources AS MATERIALIZED (SELECT source, sum(jobs) AS jobs FROM busy GROUP BY source),

closed_sources AS MATERIALIZED (
    SELECT name FROM pauses_in_force WHERE scope = 'source'
    UNION
    SELECT source FROM busy_sources WHERE jobs >= :max_per_source
),

closed_datasets AS MATERIALIZED (SELECT name FROM pauses_in_force WHERE scope = 'dataset'),

-- Tenants with jobs in line, one look into the index for each: there may be thousands of others.
in_line (tenant_id) AS (
    (
        SELECT j.tenant_id FROM export_jobs AS j
        WHERE j.status = 'enqueued' AND (SELECT places FROM room) > 0
        ORDER BY j.tenant_id LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.tenant_id FROM export_jobs AS j
        WHERE j.status = 'enqueued' AND j.tenant_id > in_line.tenant_id
        ORDER BY j.tenant_id LIMIT 1
    )
    FROM in_line
    WHERE in_line.tenant_id IS NOT NULL
),

-- OFFSET keeps the planner, which cannot know how few they are, from reading all tenants.
line_tenants AS MATERIALIZED (
    SELECT t.*
    FROM in_line
    CROSS JOIN LATERAL (SELECT * FROM tenants WHERE id = in_line.tenant_id OFFSET 0) AS t
),

-- As many as there are places, of those with a job that may run now: nobody behind them could get one.
waiting AS MATERIALIZED (
    SELECT line.*
    FROM (
        SELECT t.id, t.last_served_at, coalesce(b.jobs, 0) AS jobs, t.max_concurrent_jobs - coalesce(b.jobs, 0) AS free
        FROM line_tenants AS t
        LEFT JOIN busy_tenants AS b ON b.tenant_id = t.id
        WHERE
            t.export_enabled
            AND t.max_concurrent_jobs > coalesce(b.jobs, 0)
            AND t.name NOT IN (SELECT name FROM pauses_in_force WHERE scope = 'tenant')
        ORDER BY coalesce(b.jobs, 0), t.last_served_at NULLS FIRST, t.id
    ) AS line
    CROSS JOIN LATERAL (
        SELECT FROM export_jobs AS j
        WHERE
            j.tenant_id = line.id
            AND j.status = 'enqueued'
            AND j.dataset NOT IN (SELECT name FROM closed_datasets)
            AND j.source NOT IN (SELECT name FROM closed_sources)
        LIMIT 1
    ) AS any_job
    LIMIT (SELECT places FROM room)
),

candidates AS (
    SELECT next.id, next.source, waiting.id AS tenant_id, waiting.last_served_at, waiting.jobs + next.turn AS place
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT first.id, first.source, row_number() OVER (ORDER BY first.created_at + p.handicap, first.id) AS turn
        FROM priorities AS p
        CROSS JOIN LATERAL (
            SELECT j.id, j.source, j.created_at FROM export_jobs AS j
            WHERE
                j.tenant_id = waiting.id
                AND j.status = 'enqueued'
                AND j.priority = p.priority
                AND j.dataset NOT IN (SELECT name FROM closed_datasets)
                AND j.source NOT IN (SELECT name FROM closed_sources)
            ORDER BY j.created_at LIMIT waiting.free
        ) AS first
    ) AS next
    WHERE next.turn <= waiting.free
),

placed AS (
    SELECT
        c.id, c.place, c.last_served_at, c.tenant_id,
        coalesce(b.jobs, 0)
        + row_number() OVER (PARTITION BY c.source ORDER BY c.place, c.last_served_at NULLS FIRST, c.tenant_id)
            AS source_place
    FROM candidates AS c
    LEFT JOIN busy_sources AS b ON b.source = c.source
),

chosen AS (
    SELECT id FROM placed
    WHERE source_place <= :max_per_source
    ORDER BY place, last_served_at NULLS FIRST, tenant_id
    LIMIT (SELECT places FROM room)
)

UPDATE export_jobs AS j
SET status = :target, prefect_flow_run_id = NULL, updated_at = now()
FROM chosen
WHERE j.id = chosen.id AND j.status = ANY(:sources)
RETURNING j.id, j.attempt, 'enqueued' AS was, j.status
