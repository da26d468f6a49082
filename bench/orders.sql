-- The table that is measured: {rows} orders, the same ones on every machine, for each value comes from a hash of its number.
-- Lines of notes never hold a line break, so that the lines of a CSV file are its rows.

DROP TABLE IF EXISTS {table};

DO $$
BEGIN
    CREATE TYPE bench_order_status AS ENUM ('pending', 'paid', 'packed', 'shipped', 'delivered', 'cancelled');
EXCEPTION WHEN duplicate_object THEN
    NULL;
END $$;

CREATE TABLE {table} (
    id bigint NOT NULL,
    order_id uuid NOT NULL,
    customer_id uuid NOT NULL,
    email text NOT NULL,
    status bench_order_status NOT NULL,
    amount numeric(14, 2) NOT NULL,
    currency char(3) NOT NULL,
    quantity integer NOT NULL,
    ordered_at timestamptz NOT NULL,
    ship_date date,
    note text,
    attributes jsonb NOT NULL,
    is_gift boolean NOT NULL,
    risk_score double precision
);

INSERT INTO {table}
SELECT
    id,
    md5('order ' || id)::uuid,
    md5('customer ' || customer)::uuid,
    email,
    status::bench_order_status,
    (a % 20000000) / 100.0 + 0.99,
    (ARRAY['EUR', 'EUR', 'USD', 'USD', 'GBP', 'CHF', 'JPY', 'SEK'])[1 + b % 8],
    1 + c % 12,
    ordered_at,
    CASE WHEN status IN ('shipped', 'delivered') THEN (ordered_at AT TIME ZONE 'UTC')::date + (1 + a % 9)::int END,
    CASE b % 10
        WHEN 0 THEN 'Gift wrap, "fragile"; box ' || c % 900
        WHEN 1 THEN 'Leave it with the neighbour, no. ' || 1 + c % 98
        WHEN 2 THEN 'Grüße aus Köln, „bis bald“ 📦'
        WHEN 3 THEN 'Call before 9:00'
    END,
    jsonb_build_object(
        'channel', (ARRAY['web', 'app', 'shop', 'phone'])[1 + c % 4],
        'items', 1 + b % 5,
        'discount', round((b % 300) / 10.0, 1),
        'tags', CASE WHEN a % 3 = 0 THEN '["priority", "b2b"]'::jsonb ELSE '[]'::jsonb END
    ),
    c % 7 = 0,
    CASE WHEN c % 20 > 0 THEN sqrt(a % 1000003 / 1000003.0::float8) END
FROM generate_series(1::bigint, {rows}) AS id
CROSS JOIN LATERAL (
    SELECT
        hashint8extended(id, 1) & 9223372036854775807 AS a,
        hashint8extended(id, 2) & 9223372036854775807 AS b,
        hashint8extended(id, 3) & 9223372036854775807 AS c
) AS hash
CROSS JOIN LATERAL (
    SELECT
        a % (1 + {rows} / 15) AS customer,
        (ARRAY['delivered', 'delivered', 'delivered', 'shipped', 'shipped', 'packed', 'paid', 'pending', 'cancelled'])
            [1 + c % 9] AS status,
        timestamptz '2023-01-01 00:00:00+00' + id * interval '31 seconds' + b % 1000000 * interval '1 microsecond'
            AS ordered_at
) AS derived
CROSS JOIN LATERAL (
    SELECT
        (ARRAY['ada', 'noor', 'mateo', 'yuki', 'lena', 'kofi', 'ines', 'tomas', 'mei', 'omar'])[1 + customer % 10]
            || (ARRAY['.berg', '.silva', '.tanaka', '.novak', '.rossi', '.dubois', '.okafor'])[1 + customer % 7]
            || customer
            || (ARRAY['@example.com', '@example.org', '@mail.example.net'])[1 + customer % 3] AS email
) AS person;

ALTER TABLE {table} ADD PRIMARY KEY (id);
