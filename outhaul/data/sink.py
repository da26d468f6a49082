"""Where a writer's bytes go: counted, then hashed and stored by a thread of their own; compressed first if asked."""

from __future__ import annotations

import gzip
import hashlib
import io
import threading
from queue import Queue
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from outhaul.domain.files import Upload

GZIP_LEVEL = 6
WAITING = 2  # pieces on their way to the store; each may be as large as a batch


class Sink(io.RawIOBase):
    """A file object over an upload that counts and hashes; closing it leaves the upload open.

    What the store says to a piece is raised by a later ``write``, or by ``drain``.
    """

    def __init__(self, upload: Upload) -> None:
        self.upload = upload
        self.byte_count = 0
        self._hash = hashlib.sha256()
        self._pieces: Queue[memoryview | None] = Queue(maxsize=WAITING)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def sha256(self) -> str:
        """The digest of what was drained, in lower-case hexadecimal."""
        return self._hash.hexdigest()

    def writable(self) -> bool:
        """Say yes."""
        return True

    def tell(self) -> int:
        """The bytes written so far."""
        return self.byte_count

    def write(self, data: Any, /) -> int:
        """Pass bytes on. Raises StoreError."""
        if self._error is not None:
            raise self._error
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="outhaul sink", daemon=True)
            self._thread.start()
        piece = memoryview(data).cast("B")
        if not piece.readonly:  # who writes may use its buffer again
            piece = memoryview(bytes(piece))
        self._pieces.put(piece)
        self.byte_count += len(piece)
        return len(piece)

    def drain(self) -> None:
        """Wait until the store has all bytes. Raises StoreError."""
        if self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def abort(self) -> None:
        """Leave nothing behind."""
        if self._error is None:
            self._error = InterruptedError()
        if self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
            self._thread = None
        self.upload.abort()

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            if self._error is not None:
                continue  # so that a writer who waits for room does not wait for ever
            try:
                self._hash.update(piece)
                self.upload.write(piece)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the writer must hear of it
                self._error = error


def compressed(sink: Sink, method: str) -> Any:
    """A file object that compresses into ``sink``; close it to end the stream. ``none`` passes bytes through."""
    if method == "gzip":
        # No time and no name in the header: the same rows give the same bytes.
        return gzip.GzipFile(filename="", fileobj=sink, mode="wb", compresslevel=GZIP_LEVEL, mtime=0)
    if method == "zstd":
        return pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "zstd")
    return sink
