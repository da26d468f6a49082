-- The heartbeat: longer lease and progress in one statement. No row back means that the lease is lost.
UPDATE export_jobs
SET
    lease_expiry = now() + make_interval(secs => :lease_s), rows_done = greatest(rows_done, :rows_done),
    rows_total_estimate = coalesce(:rows_total_estimate, rows_total_estimate), updated_at = now()
WHERE id = :id AND attempt = :attempt AND status = 'processing'
RETURNING cancel_requested_at IS NOT NULL AS cancel_requested
