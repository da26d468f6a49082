-- no-transaction
-- Priority, step 2 of 3 (backfill): give rows from before the column the value that they always had in effect.
--
-- In batches that commit one by one, each skipping rows that a worker holds at that moment and meeting them in a
-- later batch: no export waits for it, and it can be stopped and started again.

DO $$
DECLARE
    filled bigint;
BEGIN
    LOOP
        UPDATE export_jobs SET priority = 'normal'
        WHERE id IN (
            SELECT id FROM export_jobs WHERE priority IS NULL LIMIT 1000 FOR UPDATE SKIP LOCKED
        );
        GET DIAGNOSTICS filled = ROW_COUNT;
        EXIT WHEN NOT EXISTS (SELECT FROM export_jobs WHERE priority IS NULL);
        COMMIT;
        IF filled = 0 THEN
            PERFORM pg_sleep(0.1);
        END IF;
    END LOOP;
END
$$;
