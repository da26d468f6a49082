UPDATE tenants
SET
    plan = coalesce(:plan, plan), export_enabled = coalesce(:export_enabled, export_enabled),
    max_concurrent_jobs = coalesce(:max_concurrent_jobs, max_concurrent_jobs)
WHERE name = :name
RETURNING *
