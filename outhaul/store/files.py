"""The file store that ``OUTHAUL_STORE_URL`` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from outhaul.errors import Unavailable
from outhaul.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from outhaul.store.s3 import S3Store

# Both classes offer the same methods, and one test suite holds them to the same behaviour.
FileStore: TypeAlias = "LocalStore | S3Store"


def open_store(url: str, s3_client: Callable[[], Any] | None = None) -> FileStore:
    """The store at ``file://FOLDER`` (relative or absolute) or ``s3://BUCKET/PREFIX``, names taken literally.

    Nothing is reached yet: ``check()`` does that.

    Args:
        url: where the files are.
        s3_client: makes the boto3 client, with ``s3_config()`` as its config; by default boto3 finds credentials,
            region and endpoint itself (environment, profile, role).

    Raises:
        Unavailable: the URL names no store.
    """
    scheme, separator, rest = url.partition("://")
    bucket, _, prefix = rest.partition("/")
    match scheme.lower() + separator:
        case "file://" if rest:
            return LocalStore(Path(rest))
        case "s3://" if bucket:
            from outhaul.store.s3 import S3Store, make_client  # boto3 takes half a second to import

            return S3Store((s3_client or make_client)(), bucket, prefix.strip("/"))
        case "file://":
            raise Unavailable(f"OUTHAUL_STORE_URL: {url!r} names no folder")
        case "s3://":
            raise Unavailable(f"OUTHAUL_STORE_URL: {url!r} names no bucket")
        case _:
            given = f"{scheme}://" if separator else repr(url)
            raise Unavailable(f"OUTHAUL_STORE_URL must be file://FOLDER or s3://BUCKET/PREFIX, not {given}")
