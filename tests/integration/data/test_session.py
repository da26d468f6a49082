from __future__ import annotations

import psycopg
import pytest

from outhaul.data import scan
from outhaul.data.catalog import ad_hoc
from outhaul.data.session import Limits, Session
from outhaul.domain.job import Format
from outhaul.domain.request import parse_query

NAME = "outhaul:7e57:1"
SETTINGS = "SELECT string_agg(name || '=' || setting, E'\\n' ORDER BY name) FROM pg_settings"
QUERY = parse_query({"filters": {"column": "t", "op": "=", "value": "confidential"}})


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_case_60_no_setting_outlives_the_transaction(source_url, end):
    """A pooler in transaction mode hands the connection to the next client as it is."""
    with psycopg.connect(source_url, application_name=NAME) as fresh:
        untouched = fresh.execute(SETTINGS).fetchone()[0]
    with Session(source_url, name=NAME, limits=Limits()) as session:
        planned = scan.plan(session, ad_hoc("SELECT 'confidential' AS t"), QUERY, Format.CSV, None)
        scan.prepare(session, planned)
        assert [len(frame) for frame in scan.frames(session, planned)] == [1]
        during = session.value(SETTINGS)
        assert session.value("SELECT current_setting('outhaul.p1')") == "confidential"
        pid = session.value("SELECT pg_backend_pid()")
        session._run(end)
        assert session.value("SELECT pg_backend_pid()") == pid
        assert session.value(SETTINGS) == untouched
        assert not session.value("SELECT current_setting('outhaul.p1', true)")
        prepared = "(SELECT count(*) FROM pg_prepared_statements) + (SELECT count(*) FROM pg_cursors WHERE name <> '')"
        assert session.value(f"SELECT {prepared}") == 0
    assert during != untouched
