UPDATE export_jobs SET legal_hold = :hold, updated_at = now() WHERE id = :id RETURNING id, attempt, status AS was, status
