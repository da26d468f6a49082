-- Take the lease: only from a queued job of this generation, only for the run it was admitted with, and only if its tenant
-- may still have exports; otherwise the sweep puts it back in line, where it says why it waits.
UPDATE export_jobs AS j
SET
    status = :target, attempt = j.attempt + 1, lease_expiry = now() + make_interval(secs => :lease_s),
    lease_owner = :owner, prefect_flow_run_id = coalesce(j.prefect_flow_run_id, :flow_run_id), rows_done = 0,
    rows_total_estimate = NULL, cancel_requested_at = NULL, started_at = coalesce(j.started_at, now()),
    updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before, tenants AS t
WHERE
    j.id = before.id
    AND t.id = j.tenant_id
    AND t.export_enabled
    AND before.status = ANY(:sources)
    AND j.generation = :generation
    AND (j.prefect_flow_run_id IS NULL OR CAST(:flow_run_id AS uuid) IS NULL OR j.prefect_flow_run_id = :flow_run_id)
RETURNING j.*, before.status AS was, t.name AS tenant
