-- Part of every statement that moves a job: its line of history, never without the move.
INSERT INTO job_events (job_id, attempt, event, from_status, to_status, actor, detail)
SELECT id, attempt, :event, was, status, :actor, CAST(:detail AS jsonb) FROM moved
RETURNING id, job_id
