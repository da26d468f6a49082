SELECT * FROM webhook_endpoints WHERE tenant_id = :tenant_id AND deleted_at IS NULL ORDER BY created_at, id
