INSERT INTO api_keys (tenant_id, name, hash, scopes, created_by, expires_at)
VALUES (
    :tenant_id, :name, :hash, :scopes, :actor, now() + make_interval(secs => CAST(:lasting_s AS double precision))
)
RETURNING *
