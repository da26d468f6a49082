"""What data path and store say to each other: a file in the making, and what came of it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from outhaul.domain.job import StoredFile


class Upload(Protocol):
    """A file that nobody can see until it is complete.

    Exactly one of ``complete`` and ``abort`` ends it; ``abort`` may be called again and never raises.
    """

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes and return how many. Raises StoreError."""

    def finish(self) -> None:
        """Take no more bytes, and hold neither memory nor handles until the end. Raises StoreError."""

    def complete(self) -> None:
        """Make the file appear, whole. Raises StoreError; the file is then absent."""

    def abort(self) -> None:
        """Leave nothing behind."""


class OpenUpload(Protocol):
    """How the data path asks the store for the next file of an export."""

    def __call__(self, name: str, content_type: str, /) -> Upload:
        """Start the file ``name``, relative to the attempt's folder."""


@dataclass(frozen=True, slots=True)
class Produced:
    """What an export left in the store.

    Attributes:
        files: the data files, in order.
        manifest: the content of ``manifest.json``, which lies beside them.
        manifest_key: its key.
        rows: in all files together.
        byte_count: of all files together, without the manifest.
        snapshot_time: whatever was committed before it is in the files.
        replaced: how many values became NULL because the format cannot hold them, by column.
        notes: drift between source and contract that did no harm.
    """

    files: tuple[StoredFile, ...]
    manifest: dict[str, Any]
    manifest_key: str
    rows: int
    byte_count: int
    snapshot_time: datetime
    replaced: dict[str, int]
    notes: tuple[str, ...]
