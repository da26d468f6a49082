-- The retry's time has come: back to its place, if there is one. Runs under the admission lock.
UPDATE export_jobs AS j
SET status = :target, run_after = NULL, updated_at = now()
FROM (SELECT id, status, tenant_id, dataset, source FROM export_jobs WHERE id = :id FOR UPDATE) AS before
JOIN tenants AS t ON t.id = before.tenant_id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS all_jobs, count(*) FILTER (WHERE other.tenant_id = before.tenant_id) AS of_tenant,
        count(*) FILTER (WHERE other.source = before.source) AS of_source
    FROM export_jobs AS other
    WHERE other.status IN ('queued', 'processing')
) AS busy
WHERE
    j.id = before.id
    AND before.status = ANY(:sources)
    AND j.generation = :generation
    AND j.run_after <= now()
    AND t.export_enabled
    AND busy.of_tenant < t.max_concurrent_jobs
    AND busy.of_source < :max_per_source
    AND busy.all_jobs < :max_active
    AND NOT EXISTS (
        SELECT FROM pauses_in_force AS p
        WHERE (p.scope, p.name) IN (('queue', ''), ('tenant', t.name), ('dataset', before.dataset), ('source', before.source))
    )
RETURNING j.id, j.attempt, before.status AS was, j.status
