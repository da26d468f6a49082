-- Remember the Prefect run of an admitted job, unless a worker's claim was quicker.
UPDATE export_jobs SET prefect_flow_run_id = :flow_run_id, updated_at = now()
WHERE id = :id AND generation = :generation AND prefect_flow_run_id IS NULL
