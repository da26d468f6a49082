-- Priority, step 1 of 3 (expand): a column that old code need not know.
--
-- Adding the default after the column leaves existing rows NULL, so no row is rewritten and the lock is held for
-- an instant; the CHECK is NOT VALID for the same reason. Old code inserts without the column and gets the default.

SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

ALTER TABLE export_jobs ADD COLUMN priority text;
ALTER TABLE export_jobs ALTER COLUMN priority SET DEFAULT 'normal';
ALTER TABLE export_jobs
ADD CONSTRAINT priority_is_known CHECK (priority IS NOT NULL AND priority IN ('high', 'normal', 'low')) NOT VALID;
COMMENT ON COLUMN export_jobs.priority IS 'Order among one tenant''s waiting jobs: high, normal, low';
