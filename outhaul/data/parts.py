"""The files of one export: each goes to a writer of its own, and all appear together or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outhaul.data.sink import Sink
from outhaul.data.writers import file_kind, open_writer
from outhaul.domain.job import StoredFile
from outhaul.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from outhaul.data.scan import PlannedColumn
    from outhaul.data.typed import Tally
    from outhaul.data.writers import Writer
    from outhaul.domain.files import OpenUpload
    from outhaul.domain.options import FormatOptions

MAX_PARTS = 10_000
SLICES = 16  # with a limit of bytes, rows are written in pieces of about this fraction of it


class Parts:
    """Writes frames into as many files as their options ask for; at least one.

    Args:
        open_upload: how the store starts a file.
        name: the stem of the files' names.
        columns: of every file.
        options: of the format.
        metadata: kept in files that can hold it.
        tally: judges values that the format cannot hold.
    """

    def __init__(
        self,
        open_upload: OpenUpload,
        name: str,
        *,
        columns: Sequence[PlannedColumn],
        options: FormatOptions,
        metadata: Mapping[str, str],
        tally: Tally,
    ) -> None:
        self._open_upload = open_upload
        self._name = name
        self._columns = columns
        self._options = options
        self._metadata = metadata
        self._tally = tally
        self._largest_step = 0
        self._sinks: list[Sink] = []
        self._files: list[StoredFile] = []
        self._writer: Writer | None = None

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows. Raises UnrepresentableValue, StoreError, and InvalidRequest if the files become too many."""
        while len(frame):
            writer = self._writer or self._open()
            if self._full(writer):
                self._end(writer)
                self._sinks[-1].upload.finish()
                writer = self._open()
            rows = self._room(frame, writer)
            before = self._sinks[-1].byte_count
            writer.write(frame.head(rows))
            self._largest_step = max(self._largest_step, self._sinks[-1].byte_count - before)
            frame = frame.slice(rows)

    def close(self) -> list[StoredFile]:
        """End the last file, and tell what all of them are; nobody sees them yet. Raises StoreError."""
        self._end(self._writer or self._open())
        return self._files

    def complete(self) -> None:
        """Let the files appear. Raises StoreError."""
        for sink in self._sinks:
            sink.upload.complete()

    def abort(self) -> None:
        """Leave nothing behind."""
        for sink in self._sinks:
            sink.abort()

    def _open(self) -> Writer:
        number = len(self._sinks)
        if number == MAX_PARTS:
            raise InvalidRequest(
                "options",
                f"more than {MAX_PARTS:,} files would be needed: raise max_rows_per_file or max_bytes_per_file",
            )
        extension, content_type = file_kind(self._options)
        self._key = f"{self._name}-{number:05}.{extension}"
        self._sinks.append(Sink(self._open_upload(self._key, content_type)))
        self._largest_step = 0
        self._writer = open_writer(self._sinks[-1], self._columns, self._options, self._metadata, self._tally)
        return self._writer

    def _end(self, writer: Writer) -> None:
        writer.close()
        sink = self._sinks[-1]
        sink.drain()
        self._files.append(StoredFile(len(self._files), self._key, writer.rows, sink.byte_count, sink.sha256))

    def _full(self, writer: Writer) -> bool:
        rows, size = self._options.max_rows_per_file, self._options.max_bytes_per_file
        if rows is not None and writer.rows >= rows:
            return True
        return size is not None and writer.rows > 0 and self._sinks[-1].byte_count + self._largest_step > size

    def _room(self, frame: pl.DataFrame, writer: Writer) -> int:
        """How many of the rows to write before looking again whether the file is full."""
        rows, size = self._options.max_rows_per_file, self._options.max_bytes_per_file
        room = len(frame) if rows is None else min(len(frame), rows - writer.rows)
        if size is not None:
            room = min(room, max(1, len(frame) * size // SLICES // max(1, int(frame.estimated_size()))))
        return room
