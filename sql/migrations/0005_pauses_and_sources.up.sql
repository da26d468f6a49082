-- Pauses, ageing priorities, and which source a job reads (expand: old code knows none of it and still works).
--
-- Both new columns have constant defaults, so no row is rewritten; old code inserts without them.

SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE pauses (
    scope text NOT NULL CHECK (scope IN ('queue', 'tenant', 'dataset', 'source')),
    name text NOT NULL CHECK ((scope = 'queue') = (name = '')),
    reason text NOT NULL DEFAULT '',
    detail text NOT NULL DEFAULT '',
    actor text NOT NULL CHECK (actor <> ''),
    automatic boolean NOT NULL DEFAULT false,
    since timestamptz NOT NULL DEFAULT now(),
    until timestamptz,
    PRIMARY KEY (scope, name)
);
COMMENT ON TABLE pauses IS 'What is held back: its jobs wait in line, those under way go on';
COMMENT ON COLUMN pauses.scope IS 'What kind of thing is paused: queue, tenant, dataset or source';
COMMENT ON COLUMN pauses.name IS 'Which one; empty for the whole queue';
COMMENT ON COLUMN pauses.reason IS 'Why, in words for whoever waits';
COMMENT ON COLUMN pauses.detail IS 'The same for operators; may name hosts';
COMMENT ON COLUMN pauses.actor IS 'Person or component that paused it';
COMMENT ON COLUMN pauses.automatic IS 'Whether Outhaul paused it, and will lift the pause when the source answers again';
COMMENT ON COLUMN pauses.since IS 'When it was paused';
COMMENT ON COLUMN pauses.until IS 'When the pause ends by itself, or NULL';

CREATE VIEW pauses_in_force AS
SELECT * FROM pauses
WHERE until IS NULL OR until > now();
COMMENT ON VIEW pauses_in_force IS 'Pauses that have not run out';

CREATE VIEW priorities AS
SELECT * FROM (
    VALUES ('high', interval '0'), ('normal', interval '15 minutes'), ('low', interval '2 hours')
) AS p (priority, handicap);
COMMENT ON VIEW priorities IS 'How much later than made a job of each priority counts: so the low is late, but never lost';

ALTER TABLE export_jobs ADD COLUMN source text NOT NULL DEFAULT 'default';
ALTER TABLE export_jobs ADD COLUMN silent_deaths integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN export_jobs.source IS 'Name of the source database that its dataset is read from';
COMMENT ON COLUMN export_jobs.silent_deaths IS 'Workers that died with it without a word, in this generation';
