"""Files in a bucket of S3 or of a server that speaks its protocol."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from outhaul.errors import InvalidRequest, NotFound, Unavailable
from outhaul.store.keys import check_key, check_prefix, content_disposition
from outhaul.store.s3_client import explain, is_missing, make_client, s3_config, translated
from outhaul.store.s3_upload import PART_PLAN, S3Upload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import MultipartUploadTypeDef

__all__ = ["S3Store", "make_client", "s3_config"]

CHUNK_BYTES = 1 << 20
MAX_LINK = timedelta(days=7)  # the longest that a version 4 signature holds
# A session token says nothing of its end. Roles give one hour unless told otherwise.
UNKNOWN_SESSION = timedelta(hours=1)


class S3Store:
    """Objects under ``prefix`` of ``bucket``, each visible only when complete."""

    def __init__(
        self, client: S3Client, bucket: str, prefix: str = "", part_plan: Sequence[tuple[int, int]] = PART_PLAN
    ) -> None:
        self.client = client
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self._part_plan = part_plan

    def open_upload(
        self, key: str, content_type: str, *, download_name: str | None = None, replace: bool = False
    ) -> S3Upload:
        """Start the file ``key``; a browser saves it as ``download_name``, or as its own last step.

        With ``replace``, an object of that name stays as it is until the new one takes its place.

        Raises:
            InvalidRequest: no file may have this key.
        """
        headers = {"ContentType": content_type, "ContentDisposition": content_disposition(download_name or key)}
        place = {"Bucket": self.bucket, "Key": self._key(key)}
        return S3Upload(self.client, place, headers, self._part_plan, replace=replace)

    def delete(self, key: str) -> bool:
        """Remove the file; tells whether it existed. Raises StoreError."""
        existed = self.exists(key)
        with translated(f"delete {key!r}"):
            self.client.delete_object(Bucket=self.bucket, Key=self._key(key))
        return existed

    def exists(self, key: str) -> bool:
        """Tell whether the file is there, whole. Raises StoreError."""
        return self.size(key) is not None

    def size(self, key: str) -> int | None:
        """Bytes of the file, or None if there is none. Raises StoreError."""
        with translated(f"look up {key!r}"):
            try:
                return self.client.head_object(Bucket=self.bucket, Key=self._key(key))["ContentLength"]
            except ClientError as error:
                if is_missing(error):
                    return None
                raise

    def read(self, key: str) -> Iterator[bytes]:
        """The file in pieces of at most 1 MiB.

        Raises:
            NotFound: there is no such file; raised at once, not at the first piece.
            StoreError: reading failed, perhaps half way.
        """
        with translated(f"read {key!r}"):
            try:
                body = self.client.get_object(Bucket=self.bucket, Key=self._key(key))["Body"]
            except ClientError as error:
                if is_missing(error):
                    raise NotFound(f"The file {key!r} is not in the store.") from None
                raise

        def pieces() -> Iterator[bytes]:
            with closing(body), translated(f"read {key!r}"):
                yield from body.iter_chunks(CHUNK_BYTES)

        return pieces()

    def list(self, prefix: str = "") -> Iterator[str]:
        """Keys that begin with ``prefix``, in order; end it with ``/`` to mean a folder. Raises StoreError."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix + check_prefix(prefix)
        )
        with translated("list files"):
            for page in pages:
                yield from (item["Key"].removeprefix(self.prefix) for item in page.get("Contents", ()))

    def link(self, key: str, expires: timedelta, download_name: str | None = None) -> tuple[str, datetime]:
        """A URL that needs no login, and the time until which it works.

        That is the soonest of what was asked, 7 days, and the end of the credentials that sign it.

        Raises:
            NotFound: there is no such file.
            Unavailable: the credentials have ended.
            StoreError: the store could not be asked.
        """
        if expires < timedelta(seconds=1):
            raise InvalidRequest("expires", "a link must live for a second or more")
        if not self.exists(key):
            raise NotFound(f"The file {key!r} is not in the store.")
        now = datetime.now(UTC)
        seconds = int(min(expires, MAX_LINK, self._credentials_end(now) - now).total_seconds())
        if seconds < 1:
            raise Unavailable("OUTHAUL_STORE_URL: the credentials that sign links have expired.")
        with translated(f"sign a link to {key!r}"):
            url = self.client.generate_presigned_url(
                "get_object",
                Params={
                    "Bucket": self.bucket,
                    "Key": self._key(key),
                    "ResponseContentDisposition": content_disposition(download_name or key),
                },
                ExpiresIn=seconds,
            )
        return url, now + timedelta(seconds=seconds)

    def check(self) -> None:
        """List the bucket and start an upload that is taken back, which leaves no object. Raises Unavailable."""
        key = self._key(".outhaul-check")
        try:
            self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix, MaxKeys=1)
            upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=key)
            self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload["UploadId"])
        except (ClientError, BotoCoreError) as error:
            words, _ = explain(error)
            raise Unavailable(
                f"OUTHAUL_STORE_URL: the bucket {self.bucket!r} cannot be used: {words}.", detail=str(error)
            ) from error

    def clean_uploads(self, prefix: str, older_than: timedelta) -> int:
        """Abort what killed writers left under ``prefix``: nothing was sent for ``older_than``. Raises StoreError."""
        limit = datetime.now(UTC) - older_than
        pages = self.client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self.bucket, Prefix=self.prefix + check_prefix(prefix)
        )
        with translated("clean up"):
            return sum(self._clean(upload, limit) for page in pages for upload in page.get("Uploads", ()))

    def _clean(self, upload: MultipartUploadTypeDef, limit: datetime) -> bool:
        key, upload_id = upload["Key"], upload["UploadId"]
        try:
            # A large file may be on its way for days: its last part tells whether somebody still works on it.
            if upload["Initiated"] >= limit or any(
                part["LastModified"] >= limit
                for page in self.client.get_paginator("list_parts").paginate(
                    Bucket=self.bucket, Key=key, UploadId=upload_id
                )
                for part in page.get("Parts", ())
            ):
                return False
            self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
        except ClientError as error:
            if is_missing(error):
                return False
            raise
        return True

    def _key(self, key: str) -> str:
        return check_key(self.prefix + check_key(key))

    def _credentials_end(self, now: datetime) -> datetime:
        # botocore has no public way to ask.
        credentials = getattr(self.client, "_get_credentials", lambda: None)()
        if credentials is None:
            return now + MAX_LINK
        token = credentials.get_frozen_credentials().token  # renews credentials that are about to end
        end: datetime | None = getattr(credentials, "_expiry_time", None)
        return end or now + (UNKNOWN_SESSION if token else MAX_LINK)
