-- All that can hold a waiting job back, read at one moment: who is under way, who is ahead, and how long jobs take.
--
-- Ahead are the tenant's own jobs that count as older, and of every other tenant as many as can come before by turns.
WITH job AS (
    SELECT j.*, t.name AS tenant, t.max_concurrent_jobs, t.export_enabled, p.handicap
    FROM export_jobs AS j
    JOIN tenants AS t ON t.id = j.tenant_id
    JOIN priorities AS p ON p.priority = j.priority
    WHERE j.id = :id
),

busy AS (
    SELECT
        count(*) AS all_jobs, count(*) FILTER (WHERE o.tenant_id = job.tenant_id) AS of_tenant,
        count(*) FILTER (WHERE o.source = job.source) AS of_source
    FROM job
    LEFT JOIN export_jobs AS o ON o.status IN ('queued', 'processing')
),

own AS (
    SELECT count(o.id) AS ahead
    FROM job
    LEFT JOIN
        (export_jobs AS o JOIN priorities AS p ON p.priority = o.priority)
        ON
            o.status = 'enqueued' AND o.tenant_id = job.tenant_id
            AND (o.created_at + p.handicap, o.id) < (job.created_at + job.handicap, job.id)
),

others AS (
    SELECT coalesce(sum(least(coalesce(waiting.jobs, 0), own.ahead + 1)), 0) AS ahead
    FROM own
    LEFT JOIN LATERAL (
        SELECT count(*) AS jobs FROM export_jobs AS o
        WHERE o.status = 'enqueued' AND o.tenant_id <> (SELECT tenant_id FROM job)
        GROUP BY o.tenant_id
    ) AS waiting ON true
),

recent AS (
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(EPOCH FROM done.finished_at - done.started_at)) AS seconds
    FROM (
        SELECT o.started_at, o.finished_at FROM export_jobs AS o
        WHERE o.status = 'completed' AND o.created_at > now() - interval '7 days'
        ORDER BY o.created_at DESC LIMIT 50
    ) AS done
)

SELECT
    coalesce(job.run_after <= now(), true) AS is_due, job.export_enabled, job.max_concurrent_jobs, busy.of_tenant,
    busy.of_source, busy.all_jobs, CAST(own.ahead + others.ahead AS bigint) AS ahead, recent.seconds AS usual_seconds
FROM job, busy, own, others, recent
