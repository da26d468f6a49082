SET LOCAL lock_timeout = '5s';

ALTER TABLE export_jobs DROP COLUMN priority;
