"""Where the data path hands bytes to the store: what a file in the making can do."""

from __future__ import annotations

from typing import Protocol


class Upload(Protocol):
    """A file that nobody can see until it is complete.

    Exactly one of ``complete`` and ``abort`` ends it; ``abort`` may be called again and never raises.
    """

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes and return how many. Raises StoreError."""

    def complete(self) -> None:
        """Make the file appear, whole. Raises StoreError; the file is then absent."""

    def abort(self) -> None:
        """Leave nothing behind."""


class OpenUpload(Protocol):
    """How the data path asks the store for the next file of an export."""

    def __call__(self, name: str, content_type: str, /) -> Upload:
        """Start the file ``name``, relative to the attempt's folder."""
