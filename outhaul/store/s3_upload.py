"""One file on its way to S3: cut into parts, sent in the background, visible only when complete."""

from __future__ import annotations

import errno
import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from outhaul.errors import StoreError
from outhaul.store.s3_client import is_missing, translated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import CompletedPartTypeDef

log = logging.getLogger(__name__)

MIB = 1 << 20
# (how many parts, bytes of each). S3 takes 10,000 parts of 5 MiB to 5 GiB. Small parts first keep memory low for
# files of everyday size: 31 GiB, 125 GiB, 500 GiB and 6.3 TiB are reached at the end of each row.
PART_PLAN = ((4000, 8 * MIB), (3000, 32 * MIB), (1500, 256 * MIB), (1500, 4096 * MIB))
MEMORY_PART = 32 * MIB  # larger parts wait in a temporary file instead
IN_FLIGHT = 2  # parts being sent while the next one fills; memory is one part more than this

_TOKEN = "outhaul-upload"  # noqa: S105 - the name of object metadata that tells whose upload an object came from


class S3Upload:
    """An upload that is one PutObject if the file fits in one part, and a multipart upload if it does not."""

    def __init__(
        self,
        client: S3Client,
        place: dict[str, str],
        headers: dict[str, str],
        plan: Sequence[tuple[int, int]] = PART_PLAN,
        *,
        replace: bool = False,
    ) -> None:
        """Nothing is sent yet.

        Args:
            client: used from several threads at once, which boto3 allows.
            place: ``Bucket`` and ``Key``.
            headers: what the object is stored with, such as ``ContentType``.
            plan: (how many parts, bytes of each), in order.
            replace: whether an object of that name may give way.
        """
        self._client: Any = client  # the calls below share keyword arguments, which stubs cannot follow
        self._place = place
        self._replace = replace
        self._token = uuid4().hex
        self._headers = {**headers, "Metadata": {_TOKEN: self._token}}
        self._sizes = (size for count, size in plan for _ in range(count))
        self._limit = sum(count * size for count, size in plan)
        self._part: IO[bytes] = BytesIO()
        self._room = 0
        self._written = 0
        self._upload_id: str | None = None
        self._sending: deque[Future[CompletedPartTypeDef]] = deque()
        self._sent: list[CompletedPartTypeDef] = []
        self._executor = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="outhaul-upload")
        self._finished = False
        self._published = False
        self._ended = False

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes and return how many; waits while two parts are on their way. Raises StoreError."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        with self._or_nothing():
            while rest:
                if not self._room:
                    self._next_part()
                piece = rest[: self._room]
                self._part.write(piece)
                self._room -= len(piece)
                self._written += len(piece)
                rest = rest[len(piece) :]
        return size

    def finish(self) -> None:
        """Take no more bytes, and hold no memory until the end. Raises StoreError; nothing is left then."""
        with self._or_nothing():
            if not self._finished:
                if self._written:
                    self._send_part()
                    self._wait(0)
                self._executor.shutdown()
                self._finished = True

    def complete(self) -> None:
        """Make the object appear. Raises StoreError, also if the name is taken; no object of ours is there then."""
        with self._or_nothing():
            if self._upload_id and not self._finished:
                self._send_part()
                self._wait(0)
            # Servers that do not know conditional requests ignore the header and would overwrite.
            if not self._replace and self._head() is not None:
                raise StoreError(f"{self._failed}: a file of that name exists already.", status=412)
            try:
                self._publish()
            except StoreError:
                if not self._arrived():
                    raise
            self._upload_id = None
            self._published = not self._replace  # what took the place of another file stays
            self._end()

    def abort(self) -> None:
        """Leave nothing behind, not even an object that has appeared.

        Waits for parts that are on their way, since they could outlive the upload.
        """
        self._end()
        if self._published:
            self._published = False
            try:
                self._client.delete_object(**self._place)
            except (ClientError, BotoCoreError) as error:
                log.warning("%s not removed: %s", self._place["Key"], error)
        if not self._upload_id:
            return
        try:
            self._client.abort_multipart_upload(**self._place, UploadId=self._upload_id)
        except (ClientError, BotoCoreError) as error:
            log.warning("upload of %s not aborted, left to the cleaner: %s", self._place["Key"], error)
        self._upload_id = None

    @property
    def _failed(self) -> str:
        return f"The file store could not {self._action}"

    @property
    def _action(self) -> str:
        return f"store {self._place['Key']!r}"

    def _next_part(self) -> None:
        if self._written:
            self._send_part()
        size = next(self._sizes, None)
        if size is None:
            raise StoreError(
                f"{self._failed}: it is larger than {self._limit:,} bytes, the most that fits; "
                "set max_bytes_per_file to split it.",
                status=400,
            )
        self._part = BytesIO() if size <= MEMORY_PART else TemporaryFile()  # noqa: SIM115 - closed once sent
        self._room = size

    def _send_part(self) -> None:
        if self._upload_id is None:
            with translated(self._action):
                answer = self._client.create_multipart_upload(**self._place, **self._headers, **self._checksum())
            self._upload_id = answer["UploadId"]
        self._wait(IN_FLIGHT - 1)
        number = len(self._sent) + len(self._sending) + 1
        self._sending.append(self._executor.submit(self._upload_part, number, self._part))

    def _upload_part(self, number: int, part: IO[bytes]) -> CompletedPartTypeDef:
        with part, translated(self._action):
            part.seek(0)
            answer = self._client.upload_part(**self._place, UploadId=self._upload_id, PartNumber=number, Body=part)
        part_checksum: CompletedPartTypeDef = (
            {"ChecksumCRC32": answer["ChecksumCRC32"]} if "ChecksumCRC32" in answer else {}
        )
        return {"PartNumber": number, "ETag": answer["ETag"], **part_checksum}

    def _wait(self, allowed: int) -> None:
        while len(self._sending) > allowed:
            self._sent.append(self._sending.popleft().result())

    def _checksum(self) -> dict[str, str]:
        # Parts carry CRC-32 by boto3's default, and AWS checks it in the end only if it was announced at the start.
        supported = self._client.meta.config.request_checksum_calculation == "when_supported"
        return {"ChecksumAlgorithm": "CRC32"} if supported else {}

    def _publish(self) -> None:
        if self._replace:
            self._put()
            return
        try:
            self._put(IfNoneMatch="*")
        except StoreError as error:
            if error.status != 501:  # the server says that it has no conditional requests
                raise
            self._put()

    def _put(self, **condition: str) -> None:
        with translated(self._action):
            if self._upload_id is None:
                self._part.seek(0)
                self._client.put_object(**self._place, **self._headers, **condition, Body=self._part)
            else:
                parts = {"Parts": self._sent}
                self._client.complete_multipart_upload(
                    **self._place, **condition, UploadId=self._upload_id, MultipartUpload=parts
                )

    def _head(self) -> Any:
        with translated(self._action):
            try:
                return self._client.head_object(**self._place)
            except ClientError as error:
                if is_missing(error):
                    return None
                raise

    def _arrived(self) -> bool:
        """Tell whether the object is there although publishing failed.

        The server may have done its work and the answer got lost: the client's own retry then meets 412 or 404. Not
        every server keeps metadata; there the size must do, on a name that was free a moment ago.
        """
        try:
            found = self._head()
        except StoreError:
            return False
        return (
            found is not None
            and found["ContentLength"] == self._written
            and found["Metadata"].get(_TOKEN, self._token) == self._token
        )

    def _end(self) -> None:
        self._ended = True
        self._executor.shutdown(cancel_futures=True)
        self._sending.clear()
        self._part.close()

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        if self._ended:
            raise StoreError(f"The upload of {self._place['Key']!r} has ended already.")
        try:
            yield
        except OSError as error:
            self.abort()
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            words = "no room is left for temporary files" if full else "the temporary file failed"
            raise StoreError(f"{self._failed}: {words}.", status=507, detail=str(error)) from error
        except BaseException:
            self.abort()
            raise
