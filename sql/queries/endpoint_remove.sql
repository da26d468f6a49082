UPDATE webhook_endpoints SET deleted_at = now() WHERE id = :id AND tenant_id = :tenant_id AND deleted_at IS NULL
RETURNING id
