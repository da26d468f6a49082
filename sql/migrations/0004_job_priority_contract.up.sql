-- no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- Priority, step 3 of 3 (contract): make the rule hold for every row, and give dispatch its index.
--
-- VALIDATE reads the table without blocking writers, and SET NOT NULL then trusts the validated CHECK instead of
-- reading it again under an exclusive lock.

SET lock_timeout = '5s';
SET statement_timeout = '1h';

ALTER TABLE export_jobs VALIDATE CONSTRAINT priority_is_known;
ALTER TABLE export_jobs ALTER COLUMN priority SET NOT NULL;
-- What follows blocks nobody but itself waits for every older transaction.
SET lock_timeout = 0;
-- An interrupted concurrent build leaves an invalid index of the name behind.
DROP INDEX CONCURRENTLY IF EXISTS export_jobs_waiting;
CREATE INDEX CONCURRENTLY export_jobs_waiting
ON export_jobs (tenant_id, priority, created_at) WHERE status = 'enqueued';
