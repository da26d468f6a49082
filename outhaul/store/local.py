"""Files in a folder of this machine, or of a share that it mounts."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING
from uuid import uuid4

from outhaul.errors import InvalidRequest, NotFound, StoreError, Unavailable
from outhaul.store.keys import check_key, check_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedWriter

CHUNK_BYTES = 1 << 20
MAX_LINK = timedelta(days=7)  # as long as S3 can promise, so that both stores promise the same

_UNFINISHED = (".outhaul-", ".part")  # how the name of an unfinished file begins and ends
_OPEN_TRIES = 5  # a folder just made may be pruned by another upload's end before the file is in it

# In words, and as the HTTP status that a retry rule understands: 507 passes, 4xx does not.
_REASONS: dict[int, tuple[str, int]] = {
    errno.ENOSPC: ("its disk is full", 507),
    errno.EDQUOT: ("its quota is used up", 507),
    errno.EFBIG: ("the file is larger than a file may be there", 400),
    errno.EACCES: ("Outhaul lacks the permission", 403),
    errno.EPERM: ("Outhaul lacks the permission", 403),
    errno.EROFS: ("it is read-only", 403),
    errno.ENAMETOOLONG: ("a step of the name is longer than its file system allows", 400),
    errno.EEXIST: ("a file of that name exists already", 412),
    errno.ENOTDIR: ("a file stands where a folder is needed", 412),
    errno.EISDIR: ("a folder stands where the file is needed", 412),
}
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


class LocalStore:
    """A folder that holds each file under its key. Unfinished files are hidden beside it and never listed."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def open_upload(
        self, key: str, content_type: str, *, download_name: str | None = None, replace: bool = False
    ) -> LocalUpload:
        """Start the file ``key``. A folder keeps neither type nor download name.

        With ``replace``, a file of that name stays as it is until the new one takes its place.

        Raises:
            InvalidRequest: no file may have this key.
            StoreError: the folder cannot be written.
        """
        del content_type, download_name
        return LocalUpload(self, key, replace=replace)

    def delete(self, key: str) -> bool:
        """Remove the file and folders left empty; tells whether it existed. Raises StoreError."""
        path = self.path(key)
        with _translated(f"delete {key!r}"):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return False
        self.prune(path.parent)
        return True

    def exists(self, key: str) -> bool:
        """Tell whether the file is there, whole. Raises StoreError."""
        return self.size(key) is not None

    def size(self, key: str) -> int | None:
        """Bytes of the file, or None if there is none. Raises StoreError."""
        path = self.path(key)
        with _translated(f"look up {key!r}"):
            return path.stat().st_size if path.is_file() else None

    def read(self, key: str) -> Iterator[bytes]:
        """The file in pieces of at most 1 MiB.

        Raises:
            NotFound: there is no such file; raised at once, not at the first piece.
            StoreError: reading failed, perhaps half way.
        """
        path = self.path(key)
        with _translated(f"read {key!r}"):
            try:
                file = path.open("rb")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise NotFound(f"The file {key!r} is not in the store.") from None

        def pieces() -> Iterator[bytes]:
            with file, _translated(f"read {key!r}"):
                while piece := file.read(CHUNK_BYTES):
                    yield piece

        return pieces()

    def list(self, prefix: str = "") -> Iterator[str]:
        """Keys that begin with ``prefix``, in order; end it with ``/`` to mean a folder."""
        start = f"{self.root}/{check_prefix(prefix)}"
        found = (str(path) for path in self._walk(prefix) if not _unfinished(path.name))
        yield from sorted(path[len(f"{self.root}/") :] for path in found if path.startswith(start))

    def link(self, key: str, expires: timedelta, download_name: str | None = None) -> tuple[str, datetime]:
        """A ``file://`` URI and the time until which it is promised, at most 7 days from now. Raises NotFound."""
        del download_name
        if not self.exists(key):
            raise NotFound(f"The file {key!r} is not in the store.")
        return self.path(key).as_uri(), datetime.now(UTC) + min(expires, MAX_LINK)

    def check(self) -> None:
        """Make the folder if need be and write to it. Raises Unavailable."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.root, prefix=_UNFINISHED[0]) as file:
                file.write(b"x")
        except OSError as error:
            words, _ = _explain(error)
            raise Unavailable(
                f"OUTHAUL_STORE_URL: files cannot be written to the folder {self.root}: {words}.", detail=str(error)
            ) from error

    def clean_uploads(self, prefix: str, older_than: timedelta) -> int:
        """Remove what killed writers left under ``prefix``: nothing was written to it for ``older_than``."""
        limit = time.time() - older_than.total_seconds()
        start = f"{self.root}/{check_prefix(prefix)}"
        removed = 0
        for path in [path for path in self._walk(prefix) if _unfinished(path.name) and str(path).startswith(start)]:
            with suppress(FileNotFoundError), _translated("clean up"):
                if path.stat().st_mtime < limit:
                    path.unlink()
                    self.prune(path.parent)
                    removed += 1
        return removed

    def path(self, key: str) -> Path:
        """Where the file is. Raises InvalidRequest."""
        path = self.root / check_key(key)
        if _unfinished(path.name):
            raise InvalidRequest("key", f"{path.name!r} is how unfinished files are called")
        return path

    def prune(self, folder: Path) -> None:
        """Remove ``folder`` and those above it as long as they are empty; the root stays."""
        while folder != self.root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            folder = folder.parent

    def _walk(self, prefix: str) -> Iterator[Path]:
        for folder, _, names in os.walk(self.root / prefix.rpartition("/")[0]):
            yield from (Path(folder, name) for name in names)


class LocalUpload:
    """A file that is written hidden in its final folder, made durable, then linked to its name."""

    def __init__(self, store: LocalStore, key: str, *, replace: bool) -> None:
        self._store = store
        self._replace = replace
        self._key = key
        self._path = store.path(key)
        self._hidden = self._path.with_name(uuid4().hex.join(_UNFINISHED))
        self._published = False
        self._ended = False
        try:
            with _translated(f"store {key!r}"):
                self._file = self._open(_OPEN_TRIES)
        except StoreError:
            store.prune(self._path.parent)
            raise

    def _open(self, tries: int) -> BufferedWriter:
        self._hidden.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._hidden.open("xb")
        except FileNotFoundError:
            if tries == 1:
                raise
            return self._open(tries - 1)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes and return how many. Raises StoreError; nothing is left then."""
        with self._or_nothing():
            return self._file.write(data)

    def finish(self) -> None:
        """Take no more bytes, and hold no handle until the end. Raises StoreError; nothing is left then."""
        with self._or_nothing():
            self._persist()

    def complete(self) -> None:
        """Make the file appear, whole and durable. Raises StoreError if that fails or the name is taken."""
        with self._or_nothing():
            self._persist()
            self._publish()
            self._published = not self._replace  # what took the place of another file stays
            self._sync_folders()
            self._ended = True

    def _persist(self) -> None:
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _publish(self) -> None:
        if self._replace:
            self._hidden.replace(self._path)
            return
        try:
            self._path.hardlink_to(self._hidden)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without hard links another writer may win the name unseen, but the file is still whole or not there.
            if self._path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._path)) from None
            self._hidden.rename(self._path)
        else:
            self._hidden.unlink()

    def _sync_folders(self) -> None:
        for folder in self._path.parents:
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
            if folder == self._store.root:
                return

    def abort(self) -> None:
        """Leave nothing behind, not even a file that has appeared."""
        self._ended = True
        # Closing writes what is still buffered, and that may be the very thing that failed.
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._hidden.unlink()
        if self._published:
            self._published = False
            with suppress(OSError):
                self._path.unlink()
        self._store.prune(self._path.parent)

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        if self._ended:
            raise StoreError(f"The upload of {self._key!r} has ended already.")
        try:
            with _translated(f"store {self._key!r}"):
                yield
        except BaseException:
            self.abort()
            raise


@contextmanager
def _translated(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words, status = _explain(error)
        raise StoreError(f"The file store could not {action}: {words}.", status=status, detail=str(error)) from error


def _explain(error: OSError) -> tuple[str, int | None]:
    return _REASONS.get(error.errno or 0, ("its disk or file system failed", None))


def _unfinished(name: str) -> bool:
    begin, end = _UNFINISHED
    return name.startswith(begin) and name.endswith(end)
