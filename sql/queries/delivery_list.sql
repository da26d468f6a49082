SELECT id, job_id, event_id, notice, endpoint_id, recipient, status, tries, next_try_at, created_at, finished_at
FROM deliveries
WHERE
    (CAST(:job_id AS uuid) IS NULL OR job_id = :job_id)
    AND (CAST(:endpoint_id AS uuid) IS NULL OR endpoint_id = :endpoint_id)
ORDER BY created_at DESC, id
LIMIT :count
