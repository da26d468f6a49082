-- One page of jobs, newest first: those after the last of the page before.
SELECT j.*, t.name AS tenant
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
WHERE
    (CAST(:tenant_id AS uuid) IS NULL OR j.tenant_id = :tenant_id)
    AND (CAST(:status AS text) IS NULL OR j.status = :status)
    AND (CAST(:dataset AS text) IS NULL OR j.dataset = :dataset)
    AND (CAST(:since AS timestamptz) IS NULL OR j.created_at >= :since)
    AND (CAST(:until AS timestamptz) IS NULL OR j.created_at < :until)
    AND (
        CAST(:after_at AS timestamptz) IS NULL
        OR (j.created_at, j.id) < (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
    )
ORDER BY j.created_at DESC, j.id DESC
LIMIT :count
