-- no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- What operators have been alerted to, and indexes of what they are alerted to (expand: old code knows none of it).

SET lock_timeout = '5s';
SET statement_timeout = '60s';

CREATE TABLE IF NOT EXISTS alerts (
    kind text NOT NULL CHECK (kind IN ('dead', 'stuck', 'undelivered')),
    key text NOT NULL,
    seen_until timestamptz NOT NULL,
    sent_at timestamptz NOT NULL,
    PRIMARY KEY (kind, key)
);
COMMENT ON TABLE alerts IS 'What operators have been alerted to, so that many failures of one cause are one message';
COMMENT ON COLUMN alerts.kind IS 'dead jobs, a queue that is stuck, or notices that were given up';
COMMENT ON COLUMN alerts.key IS 'Which cause: dataset and code of error, or webhook or e-mail address';
COMMENT ON COLUMN alerts.seen_until IS 'The newest failure that was told of';
COMMENT ON COLUMN alerts.sent_at IS 'When the last message was sent';

SET lock_timeout = 0;  -- a concurrent build blocks nobody, but waits for every older transaction
SET statement_timeout = '1h';

DROP INDEX CONCURRENTLY IF EXISTS export_jobs_dead;
CREATE INDEX CONCURRENTLY export_jobs_dead ON export_jobs (finished_at) WHERE status = 'dead';
DROP INDEX CONCURRENTLY IF EXISTS deliveries_dead;
CREATE INDEX CONCURRENTLY deliveries_dead ON deliveries (finished_at) WHERE status = 'dead';
