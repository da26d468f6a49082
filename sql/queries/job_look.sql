-- Whether the worker that holds a job is asked to stop; nothing if it does not hold it any more.
SELECT cancel_requested_at IS NOT NULL AS cancel FROM export_jobs
WHERE id = :id AND status = 'processing' AND attempt = :attempt
