SELECT at, attempt, event, from_status, to_status, actor, detail FROM job_events WHERE job_id = :id ORDER BY id
