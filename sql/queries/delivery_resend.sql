-- A person wants it sent again, at once, and tried for another day.
UPDATE deliveries AS d
SET status = 'pending', tries = 0, next_try_at = now(), give_up_at = now() + interval '24 hours', finished_at = NULL
FROM export_jobs AS j
WHERE d.id = :delivery_id AND d.job_id = :job_id AND j.id = d.job_id
RETURNING j.id, j.attempt, j.status AS was, j.status
