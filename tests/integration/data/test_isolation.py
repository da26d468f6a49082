"""Whatever a request says, it sees its own tenant's rows: the same as if no others existed."""

import pandera.polars as pa
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from requests_of import comparison, filters, matching, sorts

from outhaul.data.catalog import Dataset, Table

CARRIERS = ["UA", "DL", "ua", "U", "U%", "UA' OR '1'='1", ""]
PARTS = st.sampled_from([*CARRIERS, "%", "_", "\\", "'", "x"])


class Flights(pa.DataFrameModel):
    id: pl.Int32
    carrier: str
    delay: pl.Int32 = pa.Field(nullable=True)
    note: str = pa.Field(nullable=True)


ALL = Dataset("flights", Table("flights"), Flights, tenant="carrier")
ONLY_UNITED = Dataset("flights", Table("united"), Flights, shared=True)


LEAVES = (
    comparison("carrier", st.sampled_from(CARRIERS))
    | comparison("delay", st.integers(-3, 3))
    | comparison("note", st.sampled_from(["", "a", "') OR true --", "NULL"]))
    | matching("carrier", PARTS)
    | matching("note", PARTS)
)
FILTERS = filters(LEAVES)
SORTS = sorts(["carrier", "delay", "note"])


@pytest.fixture
def flights(export):
    export.sql(
        "CREATE TABLE flights (id int NOT NULL, carrier text NOT NULL, delay int, note text)",
        """INSERT INTO flights
        SELECT i, (ARRAY['UA', 'DL', 'ua', 'U', 'U%', 'UA'' OR ''1''=''1', ''])[1 + i % 7], NULLIF(i % 5, 0) - 2,
            (ARRAY['', 'a', ''') OR true --', 'NULL', NULL])[1 + i % 11 % 5]
        FROM generate_series(1, 400) AS i""",
        "CREATE TABLE united AS SELECT * FROM flights WHERE carrier = 'UA'",
        "ALTER TABLE united ALTER id SET NOT NULL, ALTER carrier SET NOT NULL",
    )
    return export


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=FILTERS, sort=SORTS, limit=st.none() | st.integers(0, 60))
def test_a_tenant_gets_what_it_would_get_alone(flights, where, sort, limit):
    query = {"filters": where, "sort": [*sort, {"column": "id"}], "limit": limit}
    found = flights(ALL, query=query, tenant="UA").data
    assert found == flights(ONLY_UNITED, query=query).data
    assert {line.split(b",")[1] for line in found.splitlines()[1:]} <= {b"UA"}
