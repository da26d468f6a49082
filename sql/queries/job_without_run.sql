-- Admitted jobs whose Prefect run was never recorded: the process that admitted them died in between.
SELECT id FROM export_jobs
WHERE status = 'queued' AND prefect_flow_run_id IS NULL AND updated_at < now() - make_interval(secs => :grace_s)
ORDER BY created_at
