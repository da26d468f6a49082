SELECT * FROM tenants WHERE name = :name
