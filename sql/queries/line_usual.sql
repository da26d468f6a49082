-- How many seconds exports take, by the newest that were completed.
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(EPOCH FROM finished_at - started_at)) AS seconds
FROM (
    SELECT started_at, finished_at FROM export_jobs
    WHERE status = 'completed' AND created_at > now() - interval '7 days'
    ORDER BY created_at DESC LIMIT 50
) AS done
