-- Part of the statement that completes a job: its files.
INSERT INTO export_files (job_id, part, s3_key, byte_count, row_count, sha256)
SELECT moved.id, f.part, f.s3_key, f.byte_count, f.row_count, f.sha256
FROM
    moved,
    jsonb_to_recordset(CAST(:files AS jsonb))
    AS f (part integer, s3_key text, byte_count bigint, row_count bigint, sha256 text)
