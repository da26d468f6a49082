"""The data path and a real store together: whatever breaks, the previous file stays and no half file appears."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import psycopg
import pytest
from fault_proxy import RESET

from outhaul.data.catalog import ad_hoc
from outhaul.data.export import Export
from outhaul.data.readers import Attempt
from outhaul.data.session import Limits
from outhaul.domain.job import Format
from outhaul.domain.request import ExportRequest, parse_options, parse_query
from outhaul.domain.retry import Verdict, classify
from outhaul.errors import SourceError, StoreError
from outhaul.store.local import LocalStore

NEVER_MIND = timedelta(hours=-1)  # older than the future: every unfinished upload counts as abandoned
FORMATS = ("csv", "json", "parquet")
ENDINGS = {"csv": "csv", "json": "jsonl", "parquet": "parquet"}
# Random enough that no encoding makes it small: every upload is under way when the source fails.
PAD = "md5(i::text) || md5('a' || i) || md5('b' || i) || md5('c' || i) || md5('d' || i) || md5('e' || i) AS pad"
ROWS = "FROM generate_series(1, 100000) AS i"
LATE = f"SELECT i, {PAD}, 1 / (i - 90000) AS z {ROWS}"
SLOW = f"SELECT i, {PAD}, pg_sleep(CASE WHEN i = 90000 THEN 600 ELSE 0 END) IS NULL AS z {ROWS}"
PLAIN = f"SELECT i, {PAD} {ROWS}"


def prepare(url, select, store, format_, *, limits=None, options=None) -> Export:
    request = ExportRequest(
        dataset="query",
        query=parse_query({}),
        format=Format(format_),
        options=parse_options(Format(format_), options or {}),
    )
    return Export(
        url,
        ad_hoc(select),
        request,
        tenant=None,
        attempt=Attempt("7e57"),
        open_upload=lambda name, content_type: store.open_upload(name, content_type, replace=True),
        limits=limits or Limits(),
        with_manifest=False,
    )


def previous(store, format_) -> str:
    """Store what an earlier export left under the same name."""
    name = f"query-00000.{ENDINGS[format_]}"
    upload = store.open_upload(name, "text/csv")
    upload.write(b"previous")
    upload.complete()
    return name


def untouched(store, name) -> None:
    assert list(store.list()) == [name]
    assert b"".join(store.read(name)) == b"previous"
    assert store.clean_uploads("", NEVER_MIND) == 0, "an upload was left behind"


def under_way(store) -> bool:
    """Whether there is an upload that the cleaner could find."""
    if isinstance(store, LocalStore):
        return any(store.root.glob(".outhaul-*"))
    answer = store.client.list_multipart_uploads(Bucket=store.bucket, Prefix=store.prefix)
    return bool(answer.get("Uploads"))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("options", [{}, {"max_rows_per_file": 20_000}], ids=["one", "parts"])
def test_case_33_a_row_that_cannot_be_computed(store, source_url, format_, options):
    name = previous(store, format_)
    with pytest.raises(SourceError, match=r"divides by zero \(SQLSTATE 22012\)") as caught:
        prepare(source_url, LATE, store, format_, options=options).run()
    assert classify(caught.value) is Verdict.PERMANENT
    untouched(store, name)


@pytest.mark.parametrize("format_", FORMATS)
def test_case_33_a_terminated_backend(store, source_url, format_):
    name = previous(store, format_)

    def cut() -> None:
        with psycopg.connect(source_url, autocommit=True) as connection:
            while not connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'outhaul:7e57:1' AND wait_event = 'PgSleep'"
            ).fetchone():
                time.sleep(0.05)

    killer = threading.Thread(target=cut)
    killer.start()
    with pytest.raises(SourceError, match="ended the connection") as caught:
        prepare(source_url, SLOW, store, format_).run()
    killer.join()
    assert classify(caught.value) is Verdict.TRANSIENT
    untouched(store, name)


def test_a_statement_timeout(store, source_url):
    name = previous(store, "csv")
    limits = Limits(statement_timeout=timedelta(seconds=2))
    with pytest.raises(SourceError, match="ran longer than it may"):
        prepare(source_url, SLOW, store, "csv", limits=limits).run()
    untouched(store, name)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("fault", [500, 503, RESET])
def test_a_server_that_fails_in_mid_upload(s3, spoiled, proxy, source_url, format_, fault):
    name = previous(s3, format_)
    proxy.fault = lambda request: fault if request.part and request.part >= 2 else None
    with pytest.raises(StoreError, match="could not store") as caught:
        prepare(source_url, PLAIN, spoiled, format_).run()
    assert classify(caught.value) is Verdict.TRANSIENT
    untouched(s3, name)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda sign: sign.name)
def test_a_process_that_is_ended(store, place, source_url, tmp_path, sign):
    """Asked to stop, it leaves nothing; killed, it leaves an upload that nobody sees and the cleaner finds."""
    name = previous(store, "csv")
    env = {
        **os.environ,
        **place.environment,
        "OUTHAUL_SOURCE_URL": source_url,
        "OUTHAUL_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "outhaul", "copy", "--sql", SLOW, "--to", f"{place.url}/{name}"]
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^outhaul' AND wait_event = 'PgSleep'"
    with (
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        psycopg.connect(source_url, autocommit=True) as connection,
    ):
        while connection.execute(sleeping).fetchone() == (0,) or not under_way(store):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(sign)
        _, said = process.communicate(timeout=60)
        assert "Traceback" not in said
        if sign != signal.SIGKILL:
            assert connection.execute(sleeping).fetchone() == (0,), "the query must end with its process"
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[sign]
    if sign == signal.SIGKILL:
        assert list(store.list()) == [name]
        assert store.clean_uploads("", NEVER_MIND) == 1
    untouched(store, name)
