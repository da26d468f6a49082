-- A person's pause replaces any other; an automatic one replaces only what is automatic or has run out. Says whether
-- the thing was free until now; nothing if it stays as it was.
WITH before AS (SELECT FROM pauses_in_force WHERE scope = :scope AND name = :name)

INSERT INTO pauses AS p (scope, name, reason, detail, actor, automatic, until)
VALUES (:scope, :name, :reason, :detail, :actor, :automatic, now() + make_interval(secs => :lasting_s))
ON CONFLICT (scope, name) DO UPDATE
SET
    reason = excluded.reason, detail = excluded.detail, actor = excluded.actor, automatic = excluded.automatic,
    until = excluded.until, since = now()
WHERE NOT excluded.automatic OR p.automatic OR p.until <= now()
RETURNING NOT EXISTS (SELECT FROM before) AS new
