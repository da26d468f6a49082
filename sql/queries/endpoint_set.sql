-- Change what is named; switching it on again forgets why it was off.
UPDATE webhook_endpoints
SET
    url = coalesce(CAST(:url AS text), url),
    events = coalesce(CAST(:events AS text []), events),
    description = coalesce(CAST(:description AS text), description),
    enabled = coalesce(CAST(:enabled AS boolean), enabled),
    disabled_reason = CASE WHEN CAST(:enabled AS boolean) IS NULL THEN disabled_reason END
WHERE id = :id AND tenant_id = :tenant_id AND deleted_at IS NULL
RETURNING *
