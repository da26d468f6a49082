SELECT id FROM export_jobs WHERE tenant_id = :tenant_id AND idempotency_key = :idempotency_key
