-- Ids that begin with the digits a person typed.
SELECT id FROM export_jobs
WHERE id >= CAST(rpad(:digits, 32, '0') AS uuid) AND id <= CAST(rpad(:digits, 32, 'f') AS uuid)
LIMIT 2
