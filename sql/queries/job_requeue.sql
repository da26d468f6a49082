-- A person starts the job anew: a new generation with all its retries.
UPDATE export_jobs AS j
SET
    status = :target, generation = j.generation + 1, retry_count = 0, silent_deaths = 0, prefect_flow_run_id = NULL,
    cancel_requested_at = NULL, finished_at = NULL, updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE j.id = before.id AND before.status = ANY(:sources)
RETURNING j.id, j.attempt, before.status AS was, j.status
