-- Part of every statement whose move is told of: a notice to each of the tenant's webhooks that wants it, and, of what
-- becomes of the job in the end, to each recipient of e-mail.
INSERT INTO deliveries (job_id, event_id, notice, endpoint_id, recipient)
SELECT told.job_id, told.id, :notice, addressee.endpoint_id, addressee.recipient
FROM
    told
JOIN export_jobs AS j ON j.id = told.job_id
CROSS JOIN LATERAL (
    SELECT e.id AS endpoint_id, CAST(NULL AS text) AS recipient
    FROM webhook_endpoints AS e
    WHERE e.tenant_id = j.tenant_id AND e.enabled AND e.deleted_at IS NULL AND :notice = ANY(e.events)
    UNION ALL
    SELECT NULL, r.recipient
    FROM regexp_split_to_table(j.recipients, ',') AS r (recipient)
    WHERE r.recipient <> '' AND :mailed
) AS addressee
