UPDATE export_jobs AS j
SET
    status = :target, lease_expiry = NULL, lease_owner = NULL, error_code = :code, error_message = :message,
    error_detail = :detail_text, finished_at = now(), updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE j.id = before.id AND before.status = ANY(:sources) AND j.attempt = :attempt
RETURNING j.id, j.attempt, before.status AS was, j.status
