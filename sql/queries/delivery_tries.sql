SELECT at, outcome, answer, note, detail FROM delivery_tries WHERE delivery_id = :id ORDER BY id
