-- no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- Lists without a status, which a long past made slow.

SET lock_timeout = 0;  -- a concurrent build blocks nobody, but waits for every older transaction
SET statement_timeout = '1h';

DROP INDEX CONCURRENTLY IF EXISTS export_jobs_created;
CREATE INDEX CONCURRENTLY export_jobs_created ON export_jobs (created_at);
DROP INDEX CONCURRENTLY IF EXISTS export_jobs_tenant_created;
CREATE INDEX CONCURRENTLY export_jobs_tenant_created ON export_jobs (tenant_id, created_at);
