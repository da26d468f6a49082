-- Back in line, free of charge: its run was never made or has vanished, its worker was told to stop, its source is down,
-- or its retry came due while there was no place. It keeps its age, so it is among the next.
UPDATE export_jobs AS j
SET
    status = :target, lease_expiry = NULL, lease_owner = NULL, run_after = NULL, prefect_flow_run_id = NULL,
    generation = j.generation + :new_run, updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE
    j.id = before.id
    AND before.status = ANY(:sources)
    AND j.generation = :generation
    AND before.status = :seen
    AND (before.status <> 'processing' OR (j.attempt = :attempt AND j.cancel_requested_at IS NULL))
    AND (before.status <> 'failed' OR j.run_after <= now())
RETURNING j.id, j.attempt, before.status AS was, j.status
