-- Bytes of a row in the newest exports of a dataset in a format, and the seconds that a row takes. Only the newest
-- exports of all are looked at: a rare dataset must not cost a walk through the whole past.
SELECT
    CAST(sum(byte_count) AS double precision) / nullif(sum(rows_written), 0) AS row_bytes,
    CAST(sum(extract(EPOCH FROM finished_at - started_at)) AS double precision) / nullif(sum(rows_written), 0)
    AS row_seconds
FROM (
    SELECT dataset, format, byte_count, rows_written, finished_at, started_at
    FROM export_jobs
    WHERE status = 'completed'
    ORDER BY created_at DESC
    LIMIT 2000
) AS newest
WHERE dataset = :dataset AND format = :format
