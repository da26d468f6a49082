INSERT INTO export_files (job_id, part, s3_key, byte_count, row_count, sha256)
VALUES (:job_id, :part, :s3_key, :byte_count, :row_count, :sha256)
