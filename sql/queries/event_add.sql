INSERT INTO job_events (job_id, attempt, event, from_status, to_status, actor, detail)
VALUES (:job_id, :attempt, :event, :from_status, :to_status, :actor, CAST(:detail AS jsonb))
