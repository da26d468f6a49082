-- no-transaction

SET lock_timeout = '5s';

DROP INDEX CONCURRENTLY IF EXISTS export_jobs_waiting;
ALTER TABLE export_jobs ALTER COLUMN priority DROP NOT NULL;
ALTER TABLE export_jobs DROP CONSTRAINT priority_is_known;
ALTER TABLE export_jobs
ADD CONSTRAINT priority_is_known CHECK (priority IS NOT NULL AND priority IN ('high', 'normal', 'low')) NOT VALID;
