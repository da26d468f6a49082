-- Flights that left New York City in 2013, as the US Bureau of Transportation Statistics publishes them.

CREATE TABLE airlines (
    carrier text NOT NULL,
    name text NOT NULL
);
COMMENT ON TABLE airlines IS 'Airlines by their two-character code';

CREATE TABLE airports (
    faa text NOT NULL,
    name text NOT NULL,
    lat double precision NOT NULL,
    lon double precision NOT NULL,
    alt integer NOT NULL,
    tz integer NOT NULL,
    dst text NOT NULL,
    tzone text
);
COMMENT ON TABLE airports IS 'Airports of the United States by FAA code';
COMMENT ON COLUMN airports.alt IS 'Altitude in feet';
COMMENT ON COLUMN airports.tz IS 'Hours from UTC in winter';
COMMENT ON COLUMN airports.dst IS 'Daylight saving time: A as the United States, N none, U unknown';
COMMENT ON COLUMN airports.tzone IS 'IANA time zone';

CREATE TABLE planes (
    tailnum text NOT NULL,
    year integer,
    type text NOT NULL,
    manufacturer text NOT NULL,
    model text NOT NULL,
    engines integer NOT NULL,
    seats integer NOT NULL,
    speed integer,
    engine text NOT NULL
);
COMMENT ON TABLE planes IS 'Planes known to the FAA by tail number; about 700 of those that flew are not';
COMMENT ON COLUMN planes.year IS 'Year of manufacture';
COMMENT ON COLUMN planes.speed IS 'Average cruising speed in miles per hour';

CREATE TABLE weather (
    origin text NOT NULL,
    year integer NOT NULL,
    month integer NOT NULL,
    day integer NOT NULL,
    hour integer NOT NULL,
    temp double precision,
    dewp double precision,
    humid double precision,
    wind_dir integer,
    wind_speed double precision,
    wind_gust double precision,
    precip double precision NOT NULL,
    pressure double precision,
    visib double precision NOT NULL,
    time_hour timestamptz NOT NULL
);
COMMENT ON TABLE weather IS 'Hourly weather at the three airports of New York City';

CREATE TABLE flights (
    flight_id bigint GENERATED ALWAYS AS IDENTITY,
    year integer NOT NULL,
    month integer NOT NULL,
    day integer NOT NULL,
    dep_time integer,
    sched_dep_time integer NOT NULL,
    dep_delay integer,
    arr_time integer,
    sched_arr_time integer NOT NULL,
    arr_delay integer,
    carrier text NOT NULL,
    flight integer NOT NULL,
    tailnum text, -- not all are among the planes
    origin text NOT NULL,
    dest text NOT NULL, -- four in the Caribbean are not among the airports
    air_time integer,
    distance integer NOT NULL,
    hour integer NOT NULL,
    minute integer NOT NULL,
    time_hour timestamptz NOT NULL
);
COMMENT ON TABLE flights IS 'All flights that left New York City in 2013, cancelled ones with NULL for what did not happen';
COMMENT ON COLUMN flights.dep_time IS 'Local time of departure, HHMM as a number';
COMMENT ON COLUMN flights.time_hour IS 'The hour of the scheduled departure, as an instant';
