-- Admitted jobs that no worker has claimed for a while: their runs are worth a look.
SELECT id FROM export_jobs
WHERE status = 'queued' AND prefect_flow_run_id IS NOT NULL AND updated_at < now() - make_interval(secs => :grace_s)
ORDER BY created_at
