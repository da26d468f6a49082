-- Its run was never made or has vanished: back in line, to be admitted with a new one.
UPDATE export_jobs AS j
SET status = :target, prefect_flow_run_id = NULL, generation = j.generation + :new_run, updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE j.id = before.id AND before.status = ANY(:sources) AND j.generation = :generation
RETURNING j.id, j.attempt, before.status AS was, j.status
