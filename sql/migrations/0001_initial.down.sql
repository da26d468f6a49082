-- Cannot be undone without loss: every tenant, job, file record and event goes.

SET LOCAL lock_timeout = '5s';

ALTER TABLE export_jobs DROP CONSTRAINT export_jobs_schedule_id_fkey;
DROP TABLE job_events;
DROP FUNCTION job_events_append_only();
DROP TABLE export_files;
DROP TABLE schedules;
DROP TABLE export_jobs;
DROP TABLE tenants;
