SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

DROP TABLE secrets;
DROP TABLE api_keys;
DROP TABLE delivery_tries;
DROP TABLE deliveries;
DROP TABLE webhook_endpoints;
