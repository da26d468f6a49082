SELECT value FROM secrets WHERE name = :name
