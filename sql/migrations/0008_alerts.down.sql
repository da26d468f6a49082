-- no-transaction
SET lock_timeout = 0;
SET statement_timeout = '1h';

DROP INDEX CONCURRENTLY IF EXISTS deliveries_dead;
DROP INDEX CONCURRENTLY IF EXISTS export_jobs_dead;
DROP TABLE IF EXISTS alerts;
