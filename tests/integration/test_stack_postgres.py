"""The embedded PostgreSQL: shared, killed, left behind, in odd places."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from outhaul.errors import Unavailable
from outhaul.stack.accounts import server_account
from outhaul.stack.postgres import EmbeddedPostgres
from outhaul.stack.processes import gone

QUICK = {"fsync": "off"}


@pytest.fixture
def home():
    folder = Path(tempfile.mkdtemp(prefix="outhaul-tests-"))
    yield folder
    server = EmbeddedPostgres(folder)
    if pid := server.pid():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)


def hold(home: Path) -> subprocess.Popen:
    """Another process that holds the server and says so."""
    code = (
        "import sys, pathlib; from outhaul.stack.postgres import EmbeddedPostgres;"
        f"print(EmbeddedPostgres(pathlib.Path({str(home)!r})).start(), flush=True); sys.stdin.read()"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def let_go(holder: subprocess.Popen, *, kill: bool) -> None:
    if kill:
        holder.kill()
    holder.communicate()


def ask(url: str, query: str = "SELECT current_database()") -> object:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


def test_both_databases_are_there_and_speak_utf8_and_utc(pg):
    for name in ("outhaul", "demo"):
        assert ask(pg.url(name)) == name
    assert ask(pg.url(), "SHOW server_encoding") == "UTF8"
    assert ask(pg.url(), "SHOW timezone") == "UTC"


def test_nobody_else_on_the_machine_can_reach_it(pg):
    sockets = Path(pg.url().split("host=")[1])
    assert sockets.stat().st_mode & 0o077 == 0
    assert ask(pg.url(), "SHOW listen_addresses") == ""


def test_it_does_not_run_as_root(pg):
    assert psutil.Process(pg.pid()).uids().real != 0


def test_starting_twice_is_the_same_server_and_stopping_ends_it(home):
    server = EmbeddedPostgres(home, settings=QUICK)
    url, pid = server.start(), server.pid()
    assert (server.start(), server.pid()) == (url, pid)
    server.stop()
    assert not server.is_running()
    server.stop()
    with pytest.raises(Unavailable, match="outhaul up"):
        server.url()


def test_data_is_there_after_a_restart(home):
    with EmbeddedPostgres(home).running() as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with EmbeddedPostgres(home).running() as url:
        assert ask(url, "SELECT answer FROM kept") == 42


@pytest.mark.parametrize("kill", [False, True], ids=["leaves", "killed"])
def test_stays_up_while_another_process_holds_it(home, kill):
    holder = hold(home)
    url = holder.stdout.readline().strip()
    with EmbeddedPostgres(home).running() as own_url:
        assert own_url == url
    assert ask(url) == "outhaul"
    with EmbeddedPostgres(home).running():
        let_go(holder, kill=kill)
        assert ask(url) == "outhaul"
    assert not EmbeddedPostgres(home).is_running()


def test_many_processes_start_at_once_one_server(home):
    holders = [hold(home) for _ in range(4)]
    urls = {holder.stdout.readline().strip() for holder in holders}
    assert len(urls) == 1
    assert ask(urls.pop()) == "outhaul"
    for holder in holders:
        let_go(holder, kill=True)
    server = EmbeddedPostgres(home)
    server.stop()
    assert not server.is_running()


def test_survives_kill_9_of_the_server_with_a_busy_backend(home):
    server = EmbeddedPostgres(home)
    with psycopg.connect(server.start(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    # Nobody reads from this backend, so that it only notices the loss of its server when it is told.
    busy = psycopg.connect(server.url())
    busy.execute("BEGIN")
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 3000000000)")
    time.sleep(0.3)
    process = psutil.Process(server.pid())
    process.kill()
    assert gone([process], 5)
    assert ask(server.start(), "SELECT answer FROM kept") == 42
    busy.close()
    server.stop()


def test_a_recorded_process_id_that_belongs_to_a_stranger_is_no_server(home):
    server = EmbeddedPostgres(home, settings=QUICK)
    server.start()
    recorded = (server.data / "postmaster.pid").read_text()
    server.stop()
    account = server_account()
    stranger = subprocess.Popen(
        [shutil.which("sleep"), "60"],
        user=account.pw_uid if account else None,  # the server's own account, which PostgreSQL itself would trust
    )
    try:
        (server.data / "postmaster.pid").write_text(recorded.replace(recorded.split("\n")[0], str(stranger.pid), 1))
        assert not server.is_running()
        assert ask(server.start()) == "outhaul"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        server.stop()


def test_a_first_start_that_was_interrupted_begins_anew(home):
    (home / "postgres.new" / "base").mkdir(parents=True)
    with EmbeddedPostgres(home).running() as url:
        assert ask(url) == "outhaul"


def test_works_where_the_path_is_too_long_for_a_socket_or_odd(home):
    for name in ("x" * 120, "it's a folder"):
        with EmbeddedPostgres(home / name).running() as url:
            assert ask(url) == "outhaul"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_works_as_an_ordinary_user_and_prints_nothing(home):
    home.chmod(0o777)
    printed = home / "printed"
    child = os.fork()  # not a new interpreter: root's may be out of reach for others
    if child == 0:
        outcome = 1
        try:
            output = os.open(printed, os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            server_account.cache_clear()
            with EmbeddedPostgres(home / "own").running() as url:
                outcome = 0 if ask(url) == "outhaul" else 2
        finally:
            os._exit(outcome)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert printed.read_text() == ""
    assert (home / "own" / "postgres").stat().st_uid == 65534


def test_a_folder_that_cannot_be_written_is_one_plain_line(home):
    (home / "file").touch()
    with pytest.raises(Unavailable, match="cannot be written: set OUTHAUL_HOME"):
        EmbeddedPostgres(home / "file" / "below").start()


def test_a_broken_data_folder_is_one_plain_line_with_the_log_as_detail(home):
    with EmbeddedPostgres(home).running():
        pass
    (home / "postgres" / "global" / "pg_control").unlink()
    with pytest.raises(Unavailable, match=r"did not start .*postgres\.log") as caught:
        EmbeddedPostgres(home).start()
    assert "pg_control" in caught.value.detail
    assert "\n" not in caught.value.message


def test_source_and_queue_databases_of_tests_are_their_own(source_url):
    with psycopg.connect(source_url) as connection:
        connection.execute("CREATE TABLE only_here ()")
