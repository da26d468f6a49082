-- Whether jobs that nothing holds back wait while nobody works; told of once, until it goes on and stops again.
SELECT
    'queue' AS key, count(*) AS jobs, min(j.updated_at) AS first_at, max(j.updated_at) AS last_at,
    (array_agg(j.id ORDER BY j.updated_at))[1] AS newest
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
WHERE
    j.status IN ('enqueued', 'queued')
    AND j.updated_at < now() - make_interval(secs => :patience_s)
    AND t.export_enabled
    AND NOT EXISTS (
        SELECT 1 FROM pauses_in_force AS p
        WHERE (p.scope, p.name) IN (('queue', ''), ('tenant', t.name), ('dataset', j.dataset), ('source', j.source))
    )
    AND NOT EXISTS (SELECT 1 FROM export_jobs WHERE status = 'processing')
    AND NOT EXISTS (
        SELECT 1 FROM export_jobs
        WHERE
            status IN ('completed', 'failed', 'dead')
            AND created_at > now() - interval '1 day'
            AND updated_at > now() - make_interval(secs => :patience_s)
    )
    AND NOT EXISTS (
        SELECT 1 FROM alerts AS a
        WHERE a.kind = 'stuck' AND a.sent_at > now() - make_interval(secs => :quiet_s)
    )
HAVING count(*) > 0
