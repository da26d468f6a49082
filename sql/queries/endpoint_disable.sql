UPDATE webhook_endpoints SET enabled = false, disabled_reason = :reason WHERE id = :id AND enabled
