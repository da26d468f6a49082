-- Jobs that died since their cause was last told of, by dataset and code of error; causes told of lately wait.
SELECT
    j.dataset || ' ' || j.error_code AS key, j.dataset, j.error_code AS code, count(*) AS jobs,
    min(j.finished_at) AS first_at, max(j.finished_at) AS last_at,
    (array_agg(j.error_message ORDER BY j.finished_at DESC))[1] AS message,
    (array_agg(j.id ORDER BY j.finished_at DESC))[1] AS newest,
    (array_agg(j.prefect_flow_run_id ORDER BY j.finished_at DESC))[1] AS run,
    array_agg(DISTINCT t.name) AS tenants
FROM export_jobs AS j
JOIN tenants AS t ON t.id = j.tenant_id
LEFT JOIN alerts AS a ON a.kind = 'dead' AND a.key = j.dataset || ' ' || j.error_code
WHERE
    j.status = 'dead'
    AND j.finished_at > greatest(now() - interval '1 day', a.seen_until)
    AND (a.sent_at IS NULL OR a.sent_at < now() - make_interval(secs => :quiet_s))
GROUP BY j.dataset, j.error_code
