-- How many jobs stand where, and since when the oldest waits.
SELECT status, count(*) AS jobs, min(created_at) AS oldest FROM export_jobs GROUP BY status
