-- How many jobs stand where, and since when the oldest is there: all that have not ended, and those that ended of the
-- last 24 hours' jobs. All that ever ended are too many to count each time someone looks.
SELECT status, count(*) AS jobs, min(created_at) AS oldest
FROM export_jobs
WHERE
    status IN ('enqueued', 'queued', 'processing', 'failed')
    OR (status IN ('completed', 'cancelled', 'dead') AND created_at > now() - interval '24 hours')
GROUP BY status
