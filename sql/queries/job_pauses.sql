-- The pauses that hold a job back, the widest first.
SELECT p.scope, p.name, p.actor, p.reason, p.detail, p.automatic, p.since, p.until
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
JOIN pauses_in_force AS p
    ON (p.scope, p.name) IN (('queue', ''), ('source', j.source), ('dataset', j.dataset), ('tenant', t.name))
WHERE j.id = :id
ORDER BY array_position(ARRAY['queue', 'source', 'dataset', 'tenant'], p.scope)
