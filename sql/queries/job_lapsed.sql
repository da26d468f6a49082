-- Jobs whose worker has not renewed its lease.
SELECT id, attempt FROM export_jobs WHERE status = 'processing' AND lease_expiry < now() ORDER BY lease_expiry
