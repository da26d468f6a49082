INSERT INTO tenants (name, plan, max_concurrent_jobs) VALUES (:name, :plan, :max_concurrent_jobs)
ON CONFLICT (name) DO NOTHING
RETURNING *
