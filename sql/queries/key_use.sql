-- Who this is, if the key is good; that it was used is written down at most once a minute.
WITH used AS (
    UPDATE api_keys SET last_used_at = now()
    WHERE
        hash = :hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
        AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
)

SELECT k.*, t.name AS tenant
FROM api_keys AS k
LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.hash = :hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
