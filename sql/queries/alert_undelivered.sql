-- Notices that were given up since their addressee was last told of; addressees told of lately wait.
SELECT
    coalesce(CAST(d.endpoint_id AS text), d.recipient) AS key, coalesce(e.url, d.recipient) AS addressee,
    count(*) AS notices, min(d.finished_at) AS first_at, max(d.finished_at) AS last_at,
    (array_agg(d.job_id ORDER BY d.finished_at DESC))[1] AS newest, array_agg(DISTINCT t.name) AS tenants
FROM deliveries AS d
JOIN export_jobs AS j ON j.id = d.job_id
JOIN tenants AS t ON t.id = j.tenant_id
LEFT JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
LEFT JOIN alerts AS a ON a.kind = 'undelivered' AND a.key = coalesce(CAST(d.endpoint_id AS text), d.recipient)
WHERE
    d.status = 'dead'
    AND e.deleted_at IS NULL
    AND d.finished_at > greatest(now() - interval '1 day', a.seen_until)
    AND (a.sent_at IS NULL OR a.sent_at < now() - make_interval(secs => :quiet_s))
GROUP BY d.endpoint_id, d.recipient, e.url
