-- What holds a waiting job back by itself, and how many of its tenant's jobs count as older.
SELECT
    coalesce(j.run_after <= now(), true) AS is_due, t.export_enabled, t.max_concurrent_jobs,
    (
        SELECT count(*)
        FROM export_jobs AS o
        JOIN priorities AS op ON op.priority = o.priority
        WHERE
            o.status = 'enqueued' AND o.tenant_id = j.tenant_id
            AND (o.created_at + op.handicap, o.id) < (j.created_at + p.handicap, j.id)
    ) AS own_ahead
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
JOIN priorities AS p ON p.priority = j.priority
WHERE j.id = :id
