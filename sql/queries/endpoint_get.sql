SELECT * FROM webhook_endpoints WHERE id = :id AND tenant_id = :tenant_id AND deleted_at IS NULL
