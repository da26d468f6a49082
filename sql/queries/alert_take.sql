-- Take a cause to tell of; one of several who look at once gets it, the others nothing.
INSERT INTO alerts (kind, key, seen_until, sent_at)
VALUES (:kind, :key, :last_at, now())
ON CONFLICT (kind, key) DO UPDATE
SET seen_until = excluded.seen_until, sent_at = excluded.sent_at
WHERE alerts.sent_at < now() - make_interval(secs => :quiet_s)
RETURNING kind
