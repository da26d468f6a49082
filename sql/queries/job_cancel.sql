-- Stop a job at once where nobody holds it; one that a worker holds is only marked, see job_cancel_request. Whoever held
-- it may stop it only as long as that is so: started anew or waiting for its retry, it is no longer theirs.
UPDATE export_jobs AS j
SET
    status = :target, lease_expiry = NULL, lease_owner = NULL, run_after = NULL, finished_at = now(),
    updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE
    j.id = before.id
    AND before.status = ANY(:sources)
    AND j.generation = :generation
    AND (before.status <> 'processing' OR j.attempt = :attempt)
    AND (NOT :held OR before.status = 'processing')
RETURNING j.id, j.attempt, before.status AS was, j.status
