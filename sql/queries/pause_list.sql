SELECT scope, name, actor, reason, detail, automatic, since, until FROM pauses_in_force ORDER BY scope, name
