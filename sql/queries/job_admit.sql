-- Whose turn it is. Runs under the admission lock, so the counts cannot change underneath.
--
-- First the tenant with the fewest jobs under way, then the one least recently served; within a tenant by priority,
-- then age. So a tenant with a thousand jobs gets its second place only after everyone else has had a first.
WITH busy AS (
    SELECT tenant_id, count(*) AS jobs
    FROM export_jobs
    WHERE status IN ('queued', 'processing')
    GROUP BY tenant_id
),

waiting AS (
    SELECT t.id, t.last_served_at, coalesce(busy.jobs, 0) AS jobs, t.max_concurrent_jobs - coalesce(busy.jobs, 0) AS free
    FROM tenants AS t
    LEFT JOIN busy ON busy.tenant_id = t.id
    WHERE
        t.export_enabled
        AND t.max_concurrent_jobs > coalesce(busy.jobs, 0)
        AND EXISTS (SELECT FROM export_jobs AS j WHERE j.tenant_id = t.id AND j.status = 'enqueued')
),

candidates AS (
    SELECT next.id, waiting.id AS tenant_id, waiting.last_served_at, waiting.jobs + next.turn AS place
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT j.id, row_number() OVER (ORDER BY j.rank, j.created_at, j.id) AS turn
        FROM (
            (
                SELECT id, created_at, 0 AS rank FROM export_jobs
                WHERE tenant_id = waiting.id AND status = 'enqueued' AND priority = 'high'
                ORDER BY created_at LIMIT waiting.free
            )
            UNION ALL
            (
                SELECT id, created_at, 1 AS rank FROM export_jobs
                WHERE tenant_id = waiting.id AND status = 'enqueued' AND priority = 'normal'
                ORDER BY created_at LIMIT waiting.free
            )
            UNION ALL
            (
                SELECT id, created_at, 2 AS rank FROM export_jobs
                WHERE tenant_id = waiting.id AND status = 'enqueued' AND priority = 'low'
                ORDER BY created_at LIMIT waiting.free
            )
        ) AS j
    ) AS next
    WHERE next.turn <= waiting.free
),

chosen AS (
    SELECT id, tenant_id FROM candidates
    ORDER BY place, last_served_at NULLS FIRST, tenant_id
    LIMIT greatest(0, :max_active - (SELECT coalesce(sum(jobs), 0) FROM busy))
),

served AS (
    UPDATE tenants SET last_served_at = now() WHERE id IN (SELECT tenant_id FROM chosen)
)

UPDATE export_jobs AS j
SET status = :target, prefect_flow_run_id = NULL, updated_at = now()
FROM chosen
WHERE j.id = chosen.id AND j.status = ANY(:sources)
RETURNING j.id, j.attempt, 'enqueued' AS was, j.status
