"""What is kept: jobs in PostgreSQL and files in an object store. Sole home of the engine, psycopg and boto3."""
