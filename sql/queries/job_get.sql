-- One job; with a tenant given, only if it is that tenant's.
SELECT j.*, t.name AS tenant
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
WHERE j.id = :id AND (CAST(:tenant_id AS uuid) IS NULL OR j.tenant_id = :tenant_id)
