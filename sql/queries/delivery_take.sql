-- Take what is due, so that nobody else sends it for a while: the oldest first, and of each addressee only a few, so that
-- one that answers nobody holds up no other.
WITH candidates AS (
    SELECT id
    FROM (
        SELECT
            id, next_try_at,
            row_number() OVER (PARTITION BY endpoint_id, recipient ORDER BY next_try_at, id) AS place
        FROM deliveries
        WHERE
            status = 'pending' AND next_try_at <= now()
            AND (CAST(:job_id AS uuid) IS NULL OR job_id = :job_id)
    ) AS due
    WHERE place <= :per_addressee
    ORDER BY next_try_at
    LIMIT :count
),

locked AS (
    SELECT id
    FROM deliveries
    WHERE id IN (SELECT id FROM candidates) AND status = 'pending' AND next_try_at <= now()
    FOR UPDATE SKIP LOCKED
),

taken AS (
    UPDATE deliveries AS d
    SET tries = d.tries + 1, next_try_at = now() + make_interval(secs => :hold_s)
    FROM locked
    WHERE d.id = locked.id
    RETURNING d.*
)

SELECT
    d.id, d.job_id, d.event_id, d.notice, d.endpoint_id, d.recipient, d.status, d.tries, d.next_try_at, d.created_at,
    d.finished_at, v.at, v.detail AS said, e.url,
    CASE
        WHEN e.former_secret_until > now() THEN ARRAY[e.secret, e.former_secret]
        ELSE array_remove(ARRAY[e.secret], NULL)
    END AS secrets,
    CASE
        WHEN e.deleted_at IS NOT NULL THEN 'the webhook was removed'
        WHEN NOT e.enabled THEN 'the webhook is switched off'
    END AS closed
FROM taken AS d
JOIN job_events AS v ON v.id = d.event_id
LEFT JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
ORDER BY d.created_at
