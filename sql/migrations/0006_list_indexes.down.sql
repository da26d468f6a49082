-- no-transaction
SET lock_timeout = 0;
SET statement_timeout = '1h';

DROP INDEX CONCURRENTLY IF EXISTS export_jobs_tenant_created;
DROP INDEX CONCURRENTLY IF EXISTS export_jobs_created;
