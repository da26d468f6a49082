"""Where a writer's bytes go: counted and hashed on the way to the store, compressed if asked."""

from __future__ import annotations

import gzip
import hashlib
import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from outhaul.domain.files import Upload

GZIP_LEVEL = 6


class Sink(io.RawIOBase):
    """A file object over an upload that counts and hashes; closing it leaves the upload open."""

    def __init__(self, upload: Upload) -> None:
        self.upload = upload
        self.byte_count = 0
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The digest so far, in lower-case hexadecimal."""
        return self._hash.hexdigest()

    def writable(self) -> bool:
        """Say yes."""
        return True

    def tell(self) -> int:
        """The bytes written so far."""
        return self.byte_count

    def write(self, data: Any, /) -> int:
        """Pass bytes on. Raises StoreError."""
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self.upload.write(view)
        self.byte_count += len(view)
        return len(view)


def compressed(sink: Sink, method: str) -> Any:
    """A file object that compresses into ``sink``; close it to end the stream. ``none`` passes bytes through."""
    if method == "gzip":
        # No time and no name in the header: the same rows give the same bytes.
        return gzip.GzipFile(filename="", fileobj=sink, mode="wb", compresslevel=GZIP_LEVEL, mtime=0)
    if method == "zstd":
        return pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "zstd")
    return sink
