-- One tenant's jobs, newest first.
SELECT j.*, t.name AS tenant
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
WHERE j.tenant_id = :tenant_id AND (CAST(:status AS text) IS NULL OR j.status = :status)
ORDER BY j.created_at DESC, j.id
LIMIT :count
