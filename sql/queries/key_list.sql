SELECT k.*, t.name AS tenant
FROM api_keys AS k
LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE CAST(:tenant_id AS uuid) IS NULL OR k.tenant_id = :tenant_id
ORDER BY k.created_at, k.id
