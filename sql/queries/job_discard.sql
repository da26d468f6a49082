-- A person gives a dead job up.
UPDATE export_jobs AS j
SET status = :target, updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE j.id = before.id AND before.status = ANY(:sources)
RETURNING j.id, j.attempt, before.status AS was, j.status
