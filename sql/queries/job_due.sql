-- The retry's time has come: back to its place, if the tenant has one free.
UPDATE export_jobs AS j
SET status = :target, run_after = NULL, updated_at = now()
FROM (SELECT id, status, tenant_id FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE
    j.id = before.id
    AND before.status = ANY(:sources)
    AND j.generation = :generation
    AND j.run_after <= now()
    AND (
        SELECT count(*) FROM export_jobs AS other
        WHERE other.tenant_id = before.tenant_id AND other.status IN ('queued', 'processing')
    ) < (SELECT max_concurrent_jobs FROM tenants WHERE id = before.tenant_id)
RETURNING j.id, j.attempt, before.status AS was, j.status
