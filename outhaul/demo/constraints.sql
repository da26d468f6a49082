-- Added once the rows are in, which takes a fraction of the time.

ALTER TABLE airlines ADD PRIMARY KEY (carrier);
ALTER TABLE airports ADD PRIMARY KEY (faa);
ALTER TABLE planes ADD PRIMARY KEY (tailnum);

-- Not year to hour: local time has the hour after 1:00 twice on the day that summer time ends.
ALTER TABLE weather
    ADD PRIMARY KEY (origin, time_hour),
    ADD FOREIGN KEY (origin) REFERENCES airports;

ALTER TABLE flights
    ADD PRIMARY KEY (flight_id),
    ADD FOREIGN KEY (carrier) REFERENCES airlines,
    ADD FOREIGN KEY (origin) REFERENCES airports;
CREATE INDEX flights_carrier_time_hour ON flights (carrier, time_hour);
