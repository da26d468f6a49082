-- What became of a try: its line in the log, and when the next one is. Only the try that took the notice says so, and
-- what cannot be tried again before trying ends is given up.
WITH settled AS (
    UPDATE deliveries
    SET
        status = CASE
            WHEN :outcome = 'retry' AND now() + make_interval(secs => :delay_s) < give_up_at THEN 'pending'
            WHEN :outcome = 'delivered' THEN 'delivered'
            ELSE 'dead'
        END,
        next_try_at = CASE
            WHEN :outcome = 'retry' AND now() + make_interval(secs => :delay_s) < give_up_at
                THEN now() + make_interval(secs => :delay_s)
        END,
        finished_at = CASE
            WHEN NOT (:outcome = 'retry' AND now() + make_interval(secs => :delay_s) < give_up_at) THEN now()
        END
    WHERE id = :id AND status = 'pending' AND tries = :tries
    RETURNING id, status
)

INSERT INTO delivery_tries (delivery_id, outcome, answer, note, detail)
SELECT
    id, CASE status WHEN 'pending' THEN 'retry' ELSE status END, CAST(:answer AS integer), :note, :detail
FROM settled
RETURNING outcome
