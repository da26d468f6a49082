-- It could not be sent: the same is told of again soon.
UPDATE alerts
SET seen_until = '-infinity', sent_at = now() - make_interval(secs => :quiet_s - :again_s)
WHERE kind = :kind AND key = :key
