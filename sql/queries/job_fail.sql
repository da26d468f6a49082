UPDATE export_jobs AS j
SET
    status = :target, lease_expiry = NULL, lease_owner = NULL, retry_count = j.retry_count + 1,
    silent_deaths = j.silent_deaths + :silent,
    run_after = now() + make_interval(secs => :delay_s), error_code = :code, error_message = :message,
    error_detail = :detail_text, updated_at = now()
FROM (SELECT id, status FROM export_jobs WHERE id = :id FOR UPDATE) AS before
WHERE j.id = before.id AND before.status = ANY(:sources) AND j.attempt = :attempt AND j.cancel_requested_at IS NULL
RETURNING j.id, j.attempt, before.status AS was, j.status
