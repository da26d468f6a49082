-- Who has just been given a place goes to the end of the line.
UPDATE tenants SET last_served_at = now()
WHERE id IN (SELECT tenant_id FROM export_jobs WHERE id = ANY(CAST(:ids AS uuid [])))
