-- The files of a job's last success, in order.
SELECT part, s3_key, row_count, byte_count, sha256, deleted_at FROM export_files WHERE job_id = :id ORDER BY part
