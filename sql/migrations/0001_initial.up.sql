-- Tenants, jobs, their files, schedules and history.

SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE tenants (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL UNIQUE CHECK (name ~ '^[^/[:cntrl:]]{1,255}$' AND name NOT IN ('.', '..')),
    plan text NOT NULL DEFAULT 'free' CHECK (plan IN ('free', 'pro', 'enterprise')),
    export_enabled boolean NOT NULL DEFAULT true,
    max_concurrent_jobs integer NOT NULL DEFAULT 2 CHECK (max_concurrent_jobs >= 1),
    created_at timestamptz NOT NULL DEFAULT now(),
    last_served_at timestamptz
);
COMMENT ON TABLE tenants IS 'Customers or teams: the unit of isolation and of fairness';
COMMENT ON COLUMN tenants.id IS 'Identity';
COMMENT ON COLUMN tenants.name IS 'Unique name: the value of datasets'' tenant columns, and the first step of object keys';
COMMENT ON COLUMN tenants.plan IS 'Commercial plan: free, pro or enterprise';
COMMENT ON COLUMN tenants.export_enabled IS 'Whether the tenant may ask for exports; false also holds back what waits';
COMMENT ON COLUMN tenants.max_concurrent_jobs IS 'How many of its jobs may be queued or processing at once';
COMMENT ON COLUMN tenants.created_at IS 'When the tenant was added';
COMMENT ON COLUMN tenants.last_served_at IS 'When a job of it was last admitted; the least recently served goes first';

CREATE TABLE export_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    schedule_id uuid,
    requested_by text NOT NULL CHECK (requested_by <> ''),
    dataset text NOT NULL CHECK (dataset <> ''),
    query jsonb NOT NULL CHECK (jsonb_typeof(query) = 'object'),
    format text NOT NULL DEFAULT 'csv' CHECK (format IN ('csv', 'json', 'parquet')),
    options jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(options) = 'object'),
    recipients text NOT NULL DEFAULT '' CHECK (recipients !~ '[\r\n]'),
    status text NOT NULL DEFAULT 'enqueued' CHECK (
        status IN ('enqueued', 'queued', 'processing', 'failed', 'completed', 'cancelled', 'dead')
    ),
    retry_count integer NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 3),
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    generation integer NOT NULL DEFAULT 1 CHECK (generation >= 1),
    lease_expiry timestamptz,
    lease_owner text,
    run_after timestamptz,
    cancel_requested_at timestamptz,
    prefect_flow_run_id uuid,
    rows_total_estimate bigint CHECK (rows_total_estimate >= 0),
    rows_done bigint NOT NULL DEFAULT 0 CHECK (rows_done >= 0),
    rows_written bigint CHECK (rows_written >= 0),
    byte_count bigint CHECK (byte_count >= 0),
    s3_key text,
    error_code text,
    error_message text,
    error_detail text,
    idempotency_key text CHECK (idempotency_key <> ''),
    legal_hold boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    CONSTRAINT export_jobs_idempotency UNIQUE (tenant_id, idempotency_key),
    CONSTRAINT lease_exactly_while_processing CHECK (
        (status = 'processing') = (lease_expiry IS NOT NULL) AND (status = 'processing') = (lease_owner IS NOT NULL)
    ),
    CONSTRAINT run_after_exactly_while_failed CHECK ((status = 'failed') = (run_after IS NOT NULL)),
    CONSTRAINT finished_at_exactly_when_ended CHECK (
        (status IN ('completed', 'cancelled', 'dead')) = (finished_at IS NOT NULL)
    ),
    CONSTRAINT result_exactly_when_completed CHECK (
        (status = 'completed') = (s3_key IS NOT NULL)
        AND (status = 'completed') = (rows_written IS NOT NULL)
        AND (status = 'completed') = (byte_count IS NOT NULL)
    ),
    CONSTRAINT error_is_named CHECK (
        status NOT IN ('failed', 'dead') OR (error_code IS NOT NULL AND error_message IS NOT NULL)
    ),
    CONSTRAINT attempt_has_started CHECK ((attempt > 0) = (started_at IS NOT NULL)),
    CONSTRAINT work_needs_an_attempt CHECK (status NOT IN ('processing', 'failed', 'completed') OR attempt > 0)
);
COMMENT ON TABLE export_jobs IS 'One requested export; the only truth about where it stands';
COMMENT ON COLUMN export_jobs.id IS 'Identity; part of every object key';
COMMENT ON COLUMN export_jobs.tenant_id IS 'Whose rows are exported';
COMMENT ON COLUMN export_jobs.schedule_id IS 'The schedule that made this job, or NULL for a single request';
COMMENT ON COLUMN export_jobs.requested_by IS 'Person or program that asked';
COMMENT ON COLUMN export_jobs.dataset IS 'Name of the dataset in the catalog';
COMMENT ON COLUMN export_jobs.query IS 'columns, filters, sort and limit as asked for';
COMMENT ON COLUMN export_jobs.format IS 'File format: csv, json or parquet';
COMMENT ON COLUMN export_jobs.options IS 'Options of the file format';
COMMENT ON COLUMN export_jobs.recipients IS 'E-mail addresses to tell, separated by commas';
COMMENT ON COLUMN export_jobs.status IS 'Where the job stands; every move is a guarded UPDATE';
COMMENT ON COLUMN export_jobs.retry_count IS 'Retries used in this generation';
COMMENT ON COLUMN export_jobs.attempt IS 'Fencing token: raised by each claim, carried by every later statement and object key';
COMMENT ON COLUMN export_jobs.generation IS 'Raised each time a person starts the job anew; one Prefect run each';
COMMENT ON COLUMN export_jobs.lease_expiry IS 'When the worker loses the job unless it renews; set exactly while processing';
COMMENT ON COLUMN export_jobs.lease_owner IS 'Which run holds the lease; set exactly while processing';
COMMENT ON COLUMN export_jobs.run_after IS 'When the next retry is due; set exactly while failed';
COMMENT ON COLUMN export_jobs.cancel_requested_at IS 'When someone asked to stop a job that a worker was holding';
COMMENT ON COLUMN export_jobs.prefect_flow_run_id IS 'The Prefect run of this generation';
COMMENT ON COLUMN export_jobs.rows_total_estimate IS 'Rows that the source''s planner expects';
COMMENT ON COLUMN export_jobs.rows_done IS 'Rows read so far by the current attempt';
COMMENT ON COLUMN export_jobs.rows_written IS 'Rows in the published files; set on completion';
COMMENT ON COLUMN export_jobs.byte_count IS 'Bytes of the published files, manifest not counted; set on completion';
COMMENT ON COLUMN export_jobs.s3_key IS 'Key of the manifest, which lists every file; set on completion';
COMMENT ON COLUMN export_jobs.error_code IS 'Stable code of the last error; kept after a later success';
COMMENT ON COLUMN export_jobs.error_message IS 'The last error in plain words, safe for the asker';
COMMENT ON COLUMN export_jobs.error_detail IS 'The last error for operators; may name hosts';
COMMENT ON COLUMN export_jobs.idempotency_key IS 'The asker''s own key: the same key makes no second job';
COMMENT ON COLUMN export_jobs.legal_hold IS 'Whether files and row must be kept whatever retention says';
COMMENT ON COLUMN export_jobs.created_at IS 'When the request was stored';
COMMENT ON COLUMN export_jobs.updated_at IS 'When the row last changed';
COMMENT ON COLUMN export_jobs.started_at IS 'When the first attempt was claimed';
COMMENT ON COLUMN export_jobs.finished_at IS 'When the job reached completed, cancelled or dead';

CREATE TABLE schedules (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id uuid NOT NULL REFERENCES export_jobs (id),
    cron_expression text NOT NULL CHECK (cron_expression <> ''),
    timezone text NOT NULL DEFAULT 'UTC' CHECK (timezone <> ''),
    last_run_at timestamptz,
    next_run_at timestamptz,
    active boolean NOT NULL DEFAULT true
);
COMMENT ON TABLE schedules IS 'Exports that recur';
COMMENT ON COLUMN schedules.id IS 'Identity';
COMMENT ON COLUMN schedules.job_id IS 'The job whose request recurs';
COMMENT ON COLUMN schedules.cron_expression IS 'Five cron fields, read in the schedule''s own zone';
COMMENT ON COLUMN schedules.timezone IS 'IANA time zone name';
COMMENT ON COLUMN schedules.last_run_at IS 'The last slot for which a job was made';
COMMENT ON COLUMN schedules.next_run_at IS 'The next slot';
COMMENT ON COLUMN schedules.active IS 'Whether slots make jobs';

ALTER TABLE export_jobs
ADD CONSTRAINT export_jobs_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES schedules (id);

CREATE TABLE export_files (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id uuid NOT NULL REFERENCES export_jobs (id),
    part integer NOT NULL CHECK (part >= 0),
    s3_key text NOT NULL UNIQUE CHECK (s3_key <> ''),
    byte_count bigint NOT NULL CHECK (byte_count >= 0),
    row_count bigint NOT NULL CHECK (row_count >= 0),
    sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz
);
COMMENT ON TABLE export_files IS 'Published files; written in the transaction that completes the job';
COMMENT ON COLUMN export_files.id IS 'Identity';
COMMENT ON COLUMN export_files.job_id IS 'The job that made the file';
COMMENT ON COLUMN export_files.part IS 'Place in the set of files, from 0';
COMMENT ON COLUMN export_files.s3_key IS 'Object key, relative to the store''s address';
COMMENT ON COLUMN export_files.byte_count IS 'Size in bytes as stored';
COMMENT ON COLUMN export_files.row_count IS 'Rows in the file';
COMMENT ON COLUMN export_files.sha256 IS 'SHA-256 of the stored bytes in lower-case hexadecimal';
COMMENT ON COLUMN export_files.created_at IS 'When the file was published';
COMMENT ON COLUMN export_files.deleted_at IS 'When retention removed the object, or NULL while it is there';

CREATE TABLE job_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL REFERENCES export_jobs (id),
    attempt integer NOT NULL,
    event text NOT NULL,
    from_status text,
    to_status text NOT NULL,
    actor text NOT NULL CHECK (actor <> ''),
    detail jsonb NOT NULL DEFAULT '{}',
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE job_events IS 'Append-only history of jobs';
COMMENT ON COLUMN job_events.id IS 'Order of events';
COMMENT ON COLUMN job_events.job_id IS 'The job';
COMMENT ON COLUMN job_events.attempt IS 'The attempt during which it happened; 0 before the first';
COMMENT ON COLUMN job_events.event IS 'What happened';
COMMENT ON COLUMN job_events.from_status IS 'Status before, or NULL when the job was made';
COMMENT ON COLUMN job_events.to_status IS 'Status after';
COMMENT ON COLUMN job_events.actor IS 'Person or component that caused it';
COMMENT ON COLUMN job_events.detail IS 'Facts that belong to this event alone';
COMMENT ON COLUMN job_events.at IS 'When, by the database''s clock';

CREATE FUNCTION job_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job_events is append-only' USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER job_events_no_update BEFORE UPDATE ON job_events
FOR EACH STATEMENT EXECUTE FUNCTION job_events_append_only();

-- Jobs of one tenant, newest first.
CREATE INDEX export_jobs_tenant_status_created ON export_jobs (tenant_id, status, created_at);
-- Expired leases.
CREATE INDEX export_jobs_status_lease ON export_jobs (status, lease_expiry);
-- Jobs of one status over all tenants, and how old the oldest is.
CREATE INDEX export_jobs_status_created ON export_jobs (status, created_at);
-- Jobs of one schedule.
CREATE INDEX export_jobs_schedule ON export_jobs (schedule_id);
-- Due retries.
CREATE INDEX export_jobs_due ON export_jobs (run_after) WHERE status = 'failed';
CREATE INDEX export_files_job ON export_files (job_id);
CREATE INDEX job_events_job ON job_events (job_id, id);
CREATE INDEX schedules_job ON schedules (job_id);
-- Due slots.
CREATE INDEX schedules_next_run ON schedules (next_run_at) WHERE active;
