-- Ask the worker that holds the job to stop; it looks at each heartbeat.
UPDATE export_jobs SET cancel_requested_at = coalesce(cancel_requested_at, now()), updated_at = now()
WHERE id = :id AND status = 'processing'
RETURNING id, attempt, status AS was, status
