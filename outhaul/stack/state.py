"""Who runs the stack of a home folder, and what it runs, as other processes see it.

The supervisor is whoever holds ``<home>/stack.lock``: the kernel frees that with the process, whatever its end.
``<home>/stack.json`` holds its process id and those of the components.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import psutil

from outhaul.errors import Unavailable
from outhaul.stack import processes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Standing:
    """How one component stands: starting, running, done, stopped, outside (not ours) or unreachable (nor that)."""

    component: str
    state: str
    pid: int | None
    address: str


class State:
    """The lock and the record of one home folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / "stack.json"
        self._lock: int | None = None

    def take(self) -> bool:
        """Become the supervisor; False when there is one. Raises Unavailable when the folder cannot be written."""
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._home / "stack.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Unavailable(f"{self._home} cannot be written: set OUTHAUL_HOME", detail=str(error)) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        """Be the supervisor no more."""
        self._file.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, components: Sequence[Standing], *, ready: bool) -> None:
        """Record this process as the supervisor, with its components."""
        me = psutil.Process()
        record = {"pid": me.pid, "created": me.create_time(), "ready": ready, "components": [*map(asdict, components)]}
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(record, indent=2))
        fresh.replace(self._file)

    def supervisor(self) -> psutil.Process | None:
        """The live supervisor, or None."""
        record = self._read()
        return processes.find(record["pid"], record["created"])

    def ready(self) -> bool:
        """Whether all components of a live supervisor have answered."""
        return bool(self._read()["ready"]) and self.supervisor() is not None

    def components(self) -> dict[str, Standing]:
        """The components that a live supervisor has recorded, by name."""
        if self.supervisor() is None:
            return {}
        return {record["component"]: Standing(**record) for record in self._read()["components"]}

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            record: dict[str, Any] = json.loads(self._file.read_text())
            return record
        return {"pid": 0, "created": 0.0, "ready": False, "components": []}
