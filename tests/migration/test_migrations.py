import re
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import psycopg
import pytest

from outhaul.errors import NotFound, Unavailable
from outhaul.store.migrate import downgrade, require_current, status, upgrade

FILES = sorted(file.name for file in files("sql").joinpath("migrations").iterdir() if file.name.endswith(".sql"))
VERSIONS = sorted({name[:4] for name in FILES})

# Everything that a migration can change, in one text.
SHAPE = """
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
    SELECT format('column %s.%s %s null=%s default=%s comment=%s', c.relname, a.attname,
        format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
        col_description(c.oid, a.attnum)) AS line
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT 'index ' || pg_get_indexdef(indexrelid) || ' valid=' || indisvalid
    FROM pg_index JOIN pg_class c ON c.oid = indrelid WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
) AS lines
"""


def shape(url):
    with psycopg.connect(url) as connection:
        lines = (connection.execute(SHAPE).fetchone()[0] or "").split("\n")
    # Alembic's own table appears with the first step and stays, as it should.
    return "\n".join(line for line in lines if "alembic_version" not in line)


def run(url, statement):
    with psycopg.connect(url) as connection:
        return (
            connection.execute(statement).fetchall()
            if statement.startswith("SELECT")
            else connection.execute(statement)
        )


def test_files_come_in_numbered_pairs():
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.(up|down)\.sql", name) for name in FILES)
    assert [f"{n:04}" for n in range(1, len(VERSIONS) + 1)] == VERSIONS
    ups = {name.replace(".up.", ".") for name in FILES if ".up." in name}
    assert ups == {name.replace(".down.", ".") for name in FILES if ".down." in name}


def test_each_step_up_down_up_gives_the_same_schema(source_url):
    before = shape(source_url)
    for version in VERSIONS:
        previous = f"{int(version) - 1:04}"
        assert upgrade(source_url, version) == [version]
        after = shape(source_url)
        assert downgrade(source_url, previous) == [version]
        assert shape(source_url) == before
        assert upgrade(source_url, version) == [version]
        assert shape(source_url) == after
        before = after
    assert upgrade(source_url) == []


def test_every_column_has_a_comment(source_url):
    upgrade(source_url)
    bare = [line for line in shape(source_url).split("\n") if line.startswith("column") and line.endswith("comment=")]
    assert bare == []


def test_priority_reaches_rows_from_before_and_rows_of_old_code(source_url):
    upgrade(source_url, "0001")
    old_insert = (
        "INSERT INTO export_jobs (tenant_id, requested_by, dataset, query) "
        "SELECT id, 'old', 'flights', '{}' FROM tenants CROSS JOIN generate_series(1, 2500)"
    )
    run(source_url, "INSERT INTO tenants (name) VALUES ('UA')")
    run(source_url, old_insert)
    upgrade(source_url, "0002")
    run(source_url, old_insert)
    assert run(source_url, "SELECT priority, count(*) FROM export_jobs GROUP BY 1 ORDER BY 1 NULLS FIRST") == [
        (None, 2500), ("normal", 2500),
    ]  # fmt: skip
    upgrade(source_url)
    run(source_url, old_insert)
    assert run(source_url, "SELECT priority, count(*) FROM export_jobs GROUP BY 1") == [("normal", 7500)]


def test_the_backfill_does_not_wait_for_a_row_that_a_worker_holds(source_url):
    upgrade(source_url, "0001")
    run(source_url, "INSERT INTO tenants (name) VALUES ('UA')")
    run(
        source_url,
        "INSERT INTO export_jobs (tenant_id, requested_by, dataset, query) "
        "SELECT id, 'old', 'flights', '{}' FROM tenants CROSS JOIN generate_series(1, 3)",
    )
    upgrade(source_url, "0002")
    with psycopg.connect(source_url) as worker, ThreadPoolExecutor(1) as pool:
        held = worker.execute("SELECT id FROM export_jobs LIMIT 1 FOR UPDATE").fetchone()[0]
        migration = pool.submit(upgrade, source_url, "0003")
        with psycopg.connect(source_url, autocommit=True) as watcher:
            left = [(1,)]
            while left != [(held,)]:
                left = watcher.execute("SELECT id FROM export_jobs WHERE priority IS NULL").fetchall()
        assert not migration.done()
        worker.rollback()
        assert migration.result(timeout=30) == ["0003"]


def test_two_replicas_at_once(source_url):
    with ThreadPoolExecutor(2) as pool:
        done = [future.result(timeout=60) for future in [pool.submit(upgrade, source_url) for _ in range(2)]]
    assert sorted(done[0] + done[1]) == VERSIONS
    assert all(migration.applied for migration in status(source_url))


def test_a_table_that_stays_locked_fails_plainly_and_can_be_tried_again(source_url, monkeypatch):
    monkeypatch.setattr("outhaul.store.migrate.LOCK_TRIES", 1)
    upgrade(source_url, "0001")
    with psycopg.connect(source_url) as other:
        other.execute("LOCK TABLE export_jobs")
        with pytest.raises(Unavailable, match="locked by another session"):
            upgrade(source_url)
    assert upgrade(source_url) == VERSIONS[1:]


def test_an_unmigrated_database_says_what_to_do(source_url):
    with pytest.raises(Unavailable, match=rf"lacks {len(VERSIONS)} migration\(s\), from 0001: run"):
        require_current(source_url)
    upgrade(source_url)
    require_current(source_url)
    with pytest.raises(NotFound, match="'0099' is not a known migration"):
        downgrade(source_url, "0099")


def test_a_database_that_cannot_be_reached_is_one_plain_line():
    with pytest.raises(Unavailable, match="cannot be reached: check OUTHAUL_DATABASE_URL"):
        status("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(Unavailable, match="not a database URL"):
        status("what is this")
    with pytest.raises(Unavailable, match="must be a PostgreSQL URL, not sqlite"):
        status("sqlite:///x")
