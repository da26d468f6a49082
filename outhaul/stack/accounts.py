"""The account that PostgreSQL runs as: it refuses to run as root."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from outhaul.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM_USER = "outhaul-pg"
PASS_THROUGH = 0o001


@cache
def server_account() -> pwd.struct_passwd | None:
    """The account to start the server as when we are root, made when needed; None stands for our own.

    Raises:
        Unavailable: when there is no such account and none can be made.
    """
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    with suppress(OSError):
        subprocess.run(command, capture_output=True, check=False)
    for _ in range(10):  # another process may be making it just now
        with suppress(KeyError):
            return pwd.getpwnam(SYSTEM_USER)
        time.sleep(0.1)
    raise Unavailable(
        f"PostgreSQL does not run as root and the user {SYSTEM_USER} cannot be made: "
        "run Outhaul as an ordinary user, or set OUTHAUL_DATABASE_URL"
    )


def make_reachable(path: Path) -> None:
    """When we are root, let that account pass through ``path`` and the folders above it, no more."""
    if os.geteuid() != 0:
        return
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        if not mode & PASS_THROUGH:
            folder.chmod(mode | PASS_THROUGH)


def give(path: Path) -> None:
    """Hand a path to that account. Raises Unavailable when it belongs to somebody else."""
    account = server_account()
    allowed = {os.geteuid(), account.pw_uid} if account else {os.geteuid()}
    if path.is_symlink() or path.stat().st_uid not in allowed:
        raise Unavailable(f"{path} belongs to another user")
    if account:
        os.chown(path, account.pw_uid, account.pw_gid)
