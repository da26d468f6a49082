DELETE FROM pauses
WHERE scope = :scope AND name = :name AND (automatic OR NOT CAST(:automatic_only AS boolean))
RETURNING scope
