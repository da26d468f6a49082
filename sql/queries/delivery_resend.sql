-- A person wants it sent again, at once, and tried for another day.
UPDATE deliveries
SET status = 'pending', tries = 0, next_try_at = now(), give_up_at = now() + interval '24 hours', finished_at = NULL
WHERE id = :id AND job_id = :job_id
RETURNING id
