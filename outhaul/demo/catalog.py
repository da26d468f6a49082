"""The demo's datasets, and the pattern for your own: a contract per dataset, and who may read which rows."""

from __future__ import annotations

from typing import Annotated, Any

import polars as pl
from pandera.polars import DataFrameModel, Field

from outhaul.data.catalog import Catalog, Dataset, Select, Table

Instant = Annotated[pl.Datetime, "us", "UTC"]


def clock(description: str, *, nullable: bool = False) -> Any:
    """A time of day as the number HHMM; the data writes midnight as 2400."""
    return Field(ge=1, le=2400, nullable=nullable, description=f"{description}, local time as HHMM")


class Flights(DataFrameModel):
    """One row per scheduled flight."""

    flight_id: pl.Int64 = Field(ge=1, description="Number of the flight in this data")
    year: pl.Int32 = Field(eq=2013, description="Year of departure")
    month: pl.Int32 = Field(ge=1, le=12, description="Month of departure")
    day: pl.Int32 = Field(ge=1, le=31, description="Day of departure")
    dep_time: pl.Int32 = clock("Departure; NULL when cancelled", nullable=True)
    sched_dep_time: pl.Int32 = clock("Scheduled departure")
    dep_delay: pl.Int32 = Field(nullable=True, description="Delay of the departure in minutes, negative when early")
    arr_time: pl.Int32 = clock("Arrival; NULL when it did not arrive", nullable=True)
    sched_arr_time: pl.Int32 = clock("Scheduled arrival")
    arr_delay: pl.Int32 = Field(nullable=True, description="Delay of the arrival in minutes, negative when early")
    carrier: pl.String = Field(str_matches=r"^[A-Z0-9]{2}$", description="Code of the airline")
    flight: pl.Int32 = Field(ge=1, description="Flight number")
    tailnum: pl.String = Field(nullable=True, description="Tail number of the plane, when known")
    origin: pl.String = Field(isin=["EWR", "JFK", "LGA"], description="Airport of departure")
    dest: pl.String = Field(str_matches=r"^[A-Z]{3}$", description="Airport of arrival")
    air_time: pl.Int32 = Field(gt=0, nullable=True, description="Minutes in the air")
    distance: pl.Int32 = Field(gt=0, description="Miles between the airports")
    hour: pl.Int32 = Field(ge=0, le=23, description="Hour of the scheduled departure")
    minute: pl.Int32 = Field(ge=0, le=59, description="Minute of the scheduled departure")
    time_hour: Instant = Field(description="The hour of the scheduled departure, as an instant")


class FlightPlanes(DataFrameModel):
    """One row per flight, with the plane where it is known."""

    flight_id: pl.Int64 = Field(ge=1, description="Number of the flight in this data")
    time_hour: Instant = Field(description="The hour of the scheduled departure, as an instant")
    carrier: pl.String = Field(str_matches=r"^[A-Z0-9]{2}$", description="Code of the airline")
    flight: pl.Int32 = Field(ge=1, description="Flight number")
    origin: pl.String = Field(isin=["EWR", "JFK", "LGA"], description="Airport of departure")
    dest: pl.String = Field(str_matches=r"^[A-Z]{3}$", description="Airport of arrival")
    dep_delay: pl.Int32 = Field(nullable=True, description="Delay of the departure in minutes, negative when early")
    tailnum: pl.String = Field(nullable=True, description="Tail number of the plane, when known")
    manufacturer: pl.String = Field(nullable=True, description="Who made the plane")
    model: pl.String = Field(nullable=True, description="Model of the plane")
    seats: pl.Int32 = Field(gt=0, nullable=True, description="Seats of the plane")
    built: pl.Int32 = Field(ge=1903, le=2013, nullable=True, description="Year the plane was made")


class Weather(DataFrameModel):
    """One row per airport and hour."""

    origin: pl.String = Field(isin=["EWR", "JFK", "LGA"], description="Airport")
    year: pl.Int32 = Field(eq=2013, description="Year")
    month: pl.Int32 = Field(ge=1, le=12, description="Month")
    day: pl.Int32 = Field(ge=1, le=31, description="Day")
    hour: pl.Int32 = Field(ge=0, le=23, description="Hour, local time")
    temp: pl.Float64 = Field(nullable=True, description="Temperature in degrees Fahrenheit")
    dewp: pl.Float64 = Field(nullable=True, description="Dew point in degrees Fahrenheit")
    humid: pl.Float64 = Field(ge=0, le=100, nullable=True, description="Relative humidity in percent")
    wind_dir: pl.Int32 = Field(ge=0, le=360, nullable=True, description="Direction of the wind in degrees")
    wind_speed: pl.Float64 = Field(ge=0, nullable=True, description="Speed of the wind in miles per hour")
    wind_gust: pl.Float64 = Field(ge=0, nullable=True, description="Speed of gusts in miles per hour")
    precip: pl.Float64 = Field(ge=0, description="Precipitation in inches")
    pressure: pl.Float64 = Field(gt=0, nullable=True, description="Pressure at sea level in millibars")
    visib: pl.Float64 = Field(ge=0, description="Visibility in miles")
    time_hour: Instant = Field(description="The hour, as an instant")


FLIGHT_PLANES = """
SELECT f.flight_id, f.time_hour, f.carrier, f.flight, f.origin, f.dest, f.dep_delay, f.tailnum,
       p.manufacturer, p.model, p.seats, p.year AS built
FROM flights f LEFT JOIN planes p USING (tailnum)
"""

catalog = Catalog(
    Dataset(
        "flights",
        Table("flights"),
        Flights,
        tenant="carrier",
        description="All flights from New York City in 2013; each airline sees its own",
    ),
    Dataset(
        "flight_planes",
        Select(FLIGHT_PLANES),
        FlightPlanes,
        tenant="carrier",
        description="Flights with make, model, seats and age of the plane; each airline sees its own",
    ),
    Dataset(
        "weather",
        Table("weather"),
        Weather,
        shared=True,
        description="Hourly weather at the airports of New York City; open to all",
    ),
)
