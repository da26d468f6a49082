-- Failed jobs whose retry should have begun: their run was lost, or their tenant had no place free.
SELECT id FROM export_jobs
WHERE status = 'failed' AND run_after < now() - make_interval(secs => :grace_s)
ORDER BY run_after
