-- How many jobs wait in line and are under way, by tenant and source.
SELECT status = 'enqueued' AS waits, tenant_id, source, count(*) AS jobs
FROM export_jobs
WHERE status IN ('enqueued', 'queued', 'processing')
GROUP BY waits, tenant_id, source
