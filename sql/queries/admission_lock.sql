-- One admission at a time, over all processes; freed at the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('outhaul admission', 0))
