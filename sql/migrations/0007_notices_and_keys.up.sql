-- Who is told of a job's end, who may ask over HTTP, and what links are signed with (expand: old code knows none of it).

SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE webhook_endpoints (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    url text NOT NULL CHECK (url ~ '^https?://'),
    events text [] NOT NULL CHECK (cardinality(events) > 0),
    description text NOT NULL DEFAULT '',
    secret text NOT NULL CHECK (secret <> ''),
    former_secret text,
    former_secret_until timestamptz,
    enabled boolean NOT NULL DEFAULT true,
    disabled_reason text,
    created_by text NOT NULL CHECK (created_by <> ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    CONSTRAINT former_secret_has_an_end CHECK ((former_secret IS NULL) = (former_secret_until IS NULL))
);
COMMENT ON TABLE webhook_endpoints IS 'Addresses that a tenant wants to be told at';
COMMENT ON COLUMN webhook_endpoints.id IS 'Identity';
COMMENT ON COLUMN webhook_endpoints.tenant_id IS 'Whose jobs it is told of';
COMMENT ON COLUMN webhook_endpoints.url IS 'Where notices are posted';
COMMENT ON COLUMN webhook_endpoints.events IS 'Which notices it wants, such as export.completed';
COMMENT ON COLUMN webhook_endpoints.description IS 'The tenant''s own words';
COMMENT ON COLUMN webhook_endpoints.secret IS 'Key that signs its notices, as whsec_ and base64';
COMMENT ON COLUMN webhook_endpoints.former_secret IS 'The key before the last rotation, which signs as well for a while';
COMMENT ON COLUMN webhook_endpoints.former_secret_until IS 'When the former key stops to sign';
COMMENT ON COLUMN webhook_endpoints.enabled IS 'Whether notices are sent to it';
COMMENT ON COLUMN webhook_endpoints.disabled_reason IS 'Why not, when Outhaul itself stopped it';
COMMENT ON COLUMN webhook_endpoints.created_by IS 'Person or program that added it';
COMMENT ON COLUMN webhook_endpoints.created_at IS 'When it was added';
COMMENT ON COLUMN webhook_endpoints.deleted_at IS 'When it was removed; the row stays for its delivery log';

CREATE TABLE deliveries (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id uuid NOT NULL REFERENCES export_jobs (id),
    event_id bigint NOT NULL REFERENCES job_events (id),
    notice text NOT NULL,
    endpoint_id uuid REFERENCES webhook_endpoints (id),
    recipient text,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'dead')),
    tries integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_try_at timestamptz DEFAULT now(),
    give_up_at timestamptz NOT NULL DEFAULT now() + interval '24 hours',
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT one_addressee CHECK (num_nonnulls(endpoint_id, recipient) = 1),
    CONSTRAINT next_try_exactly_while_pending CHECK ((status = 'pending') = (next_try_at IS NOT NULL)),
    CONSTRAINT finished_at_exactly_when_not_pending CHECK ((status = 'pending') = (finished_at IS NULL))
);
COMMENT ON TABLE deliveries IS 'Notices to be sent: the outbox, written in the statement that moves the job';
COMMENT ON COLUMN deliveries.id IS 'Identity; the webhook-id of every try';
COMMENT ON COLUMN deliveries.job_id IS 'The job it tells of';
COMMENT ON COLUMN deliveries.event_id IS 'The line of the job''s history it tells of';
COMMENT ON COLUMN deliveries.notice IS 'What it says, such as export.completed';
COMMENT ON COLUMN deliveries.endpoint_id IS 'The webhook it goes to, or NULL for an e-mail';
COMMENT ON COLUMN deliveries.recipient IS 'The e-mail address it goes to, or NULL for a webhook';
COMMENT ON COLUMN deliveries.status IS 'pending, delivered, or dead when given up';
COMMENT ON COLUMN deliveries.tries IS 'How often it was tried since it was last asked for';
COMMENT ON COLUMN deliveries.next_try_at IS 'When it is tried next; set exactly while pending';
COMMENT ON COLUMN deliveries.give_up_at IS 'When trying ends';
COMMENT ON COLUMN deliveries.created_at IS 'When the job moved';
COMMENT ON COLUMN deliveries.finished_at IS 'When it was delivered or given up';

CREATE TABLE delivery_tries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id uuid NOT NULL REFERENCES deliveries (id),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome text NOT NULL CHECK (outcome IN ('delivered', 'retry', 'dead')),
    answer integer,
    note text NOT NULL,
    detail text NOT NULL DEFAULT ''
);
COMMENT ON TABLE delivery_tries IS 'The delivery log, one line per try';
COMMENT ON COLUMN delivery_tries.id IS 'Order of tries';
COMMENT ON COLUMN delivery_tries.delivery_id IS 'The notice';
COMMENT ON COLUMN delivery_tries.at IS 'When, by the database''s clock';
COMMENT ON COLUMN delivery_tries.outcome IS 'delivered, retry or dead';
COMMENT ON COLUMN delivery_tries.answer IS 'Status of the HTTP or SMTP answer, or NULL without one';
COMMENT ON COLUMN delivery_tries.note IS 'What happened, in words for the tenant';
COMMENT ON COLUMN delivery_tries.detail IS 'The same for operators; may name hosts';

CREATE TABLE api_keys (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid REFERENCES tenants (id),
    name text NOT NULL CHECK (name <> ''),
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    scopes text [] NOT NULL CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'write', 'admin']),
    created_by text NOT NULL CHECK (created_by <> ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    CONSTRAINT all_tenants_only_for_admins CHECK ((tenant_id IS NULL) = ('admin' = ANY(scopes)))
);
COMMENT ON TABLE api_keys IS 'Who may use the HTTP API';
COMMENT ON COLUMN api_keys.id IS 'Identity';
COMMENT ON COLUMN api_keys.tenant_id IS 'Whose jobs it sees; NULL for an admin''s key, which names a tenant with each request';
COMMENT ON COLUMN api_keys.name IS 'What it is for; stands as the actor in the history of jobs';
COMMENT ON COLUMN api_keys.hash IS 'SHA-256 of the key, which itself is shown once and stored nowhere';
COMMENT ON COLUMN api_keys.scopes IS 'What it may do: read, write, admin';
COMMENT ON COLUMN api_keys.created_by IS 'Person or program that made it';
COMMENT ON COLUMN api_keys.created_at IS 'When it was made';
COMMENT ON COLUMN api_keys.expires_at IS 'When it ends by itself, or NULL';
COMMENT ON COLUMN api_keys.revoked_at IS 'When it was revoked, or NULL';
COMMENT ON COLUMN api_keys.last_used_at IS 'When it was last used, to the minute';

CREATE TABLE secrets (
    name text PRIMARY KEY,
    value text NOT NULL
);
COMMENT ON TABLE secrets IS 'What all processes of an installation share and nobody else may know';
COMMENT ON COLUMN secrets.name IS 'What it is for';
COMMENT ON COLUMN secrets.value IS 'The secret';
INSERT INTO secrets VALUES ('links', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

CREATE INDEX webhook_endpoints_tenant ON webhook_endpoints (tenant_id) WHERE deleted_at IS NULL;
-- Due notices.
CREATE INDEX deliveries_due ON deliveries (next_try_at) WHERE status = 'pending';
CREATE INDEX deliveries_job ON deliveries (job_id);
CREATE INDEX deliveries_endpoint ON deliveries (endpoint_id, created_at) WHERE endpoint_id IS NOT NULL;
CREATE INDEX delivery_tries_delivery ON delivery_tries (delivery_id, id);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id);
