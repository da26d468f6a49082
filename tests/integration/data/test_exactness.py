"""Whatever PostgreSQL can hold, the CSV is what PostgreSQL prints."""

from __future__ import annotations

import struct

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIRST_US, LAST_US = -211813488000000000, 9223371331199999999
COUNT = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def f4(bits: int) -> str:
    return repr(struct.unpack("<f", struct.pack("<I", bits))[0])


def f8(bits: int) -> str:
    return repr(struct.unpack("<d", struct.pack("<Q", bits))[0])


us = st.integers(FIRST_US, LAST_US) | st.integers(-(10**17), 10**17) | st.sampled_from([FIRST_US, LAST_US])
# Days and the rest apart: PostgreSQL multiplies intervals in doubles, which are exact for one day's microseconds.
moments = us.map(lambda value: "{} {}".format(*divmod(value, 86_400_000_000)))
STAMP = (
    "timestamp '2000-01-01' + split_part({0}, ' ', 1)::int * interval '1 day'"
    " + split_part({0}, ' ', 2)::bigint * interval '1 microsecond'"
)
KINDS = {
    "float8": st.floats().map(repr)
    | st.integers(2**53, 2**70).map(str)
    | st.integers(0, 2**64 - 1).map(f8)
    | st.integers(-(10**17), 10**17).map(str),
    "float4": st.integers(0, 2**32 - 1).map(f4)
    | st.integers(2**24, 2**40).map(str)
    | st.integers(-(10**8), 10**8).map(str),
    "numeric": st.decimals(allow_nan=True, allow_infinity=True)
    .filter(lambda d: not d.is_snan())
    .map(lambda d: str(d).removeprefix("-") if d.is_nan() else str(d))
    | st.from_regex(r"-?[0-9]{1,60}(\.[0-9]{1,60})?", fullmatch=True),
    "text": st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    "bytea": st.binary().map(lambda data: "\\x" + data.hex()),
    "uuid": st.uuids().map(str),
    "date": st.integers(-2451545, 2145031948),
    "timestamp": moments,
    "timestamptz": moments,
    "time": st.integers(0, 86_400_000_000),
}
FROM = {
    "date": "date '2000-01-01' + {0}::int",
    "timestamp": STAMP,
    "timestamptz": f"({STAMP}) AT TIME ZONE 'UTC'",
    "time": "time '00:00' + {0}::bigint * interval '1 microsecond'",
}


@pytest.mark.parametrize("kind", KINDS)
def test_prints_as_copy_does(export, kind):
    export.sql(f"CREATE TABLE t (n int, v {kind})")

    @COUNT
    @given(st.lists(KINDS[kind] | st.none(), min_size=1, max_size=200))
    def hold(values):
        with psycopg.connect(export.url, autocommit=True) as connection:
            connection.execute("TRUNCATE t")
            form = FROM.get(kind, f"{{0}}::{kind}").format("%(v)s::text")
            with connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO t VALUES (%(n)s, {form})",
                    [{"n": n, "v": None if v is None else str(v)} for n, v in enumerate(values)],
                )
        select = "SELECT * FROM t ORDER BY n"
        assert export(select).data == export.copy(select)

    hold()
