-- A new key; the one before signs as well for a while, so that the receiver can change over.
UPDATE webhook_endpoints
SET
    former_secret = CASE WHEN :overlap_s > 0 THEN secret END,
    former_secret_until = CASE WHEN :overlap_s > 0 THEN now() + make_interval(secs => :overlap_s) END,
    secret = :secret
WHERE id = :id AND tenant_id = :tenant_id AND deleted_at IS NULL
RETURNING *
