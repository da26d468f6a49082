SELECT
    CASE
        WHEN former_secret_until > now() THEN ARRAY[secret, former_secret]
        ELSE ARRAY[secret]
    END
FROM webhook_endpoints
WHERE id = :id
