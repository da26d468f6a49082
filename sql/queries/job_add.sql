-- Store a request. A second one with the same idempotency key of the tenant adds nothing and returns nothing.
INSERT INTO export_jobs (
    tenant_id, requested_by, dataset, source, query, format, options, recipients, priority, idempotency_key
)
VALUES (
    :tenant_id, :requested_by, :dataset, :source, CAST(:query AS jsonb), :format, CAST(:options AS jsonb), :recipients,
    :priority, :idempotency_key
)
ON CONFLICT ON CONSTRAINT export_jobs_idempotency DO NOTHING
RETURNING id, attempt, CAST(NULL AS text) AS was, status
