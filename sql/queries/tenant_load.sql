-- How many jobs of a tenant are under way, and how many wait; the latter counted no further than the bound.
SELECT
    (SELECT count(*) FROM export_jobs WHERE tenant_id = :tenant_id AND status IN ('queued', 'processing')) AS under_way,
    (
        SELECT count(*)
        FROM (SELECT 1 FROM export_jobs WHERE tenant_id = :tenant_id AND status = 'enqueued' LIMIT :bound) AS line
    ) AS waiting
