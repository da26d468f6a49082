SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

DROP VIEW priorities;
DROP VIEW pauses_in_force;
DROP TABLE pauses;
ALTER TABLE export_jobs DROP COLUMN silent_deaths;
ALTER TABLE export_jobs DROP COLUMN source;
