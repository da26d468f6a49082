INSERT INTO webhook_endpoints (tenant_id, url, events, description, secret, created_by)
VALUES (:tenant_id, :url, :events, :description, :secret, :actor)
RETURNING *
