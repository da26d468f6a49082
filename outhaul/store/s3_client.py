"""How Outhaul speaks to S3: the client's settings, and plain words for what goes wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
from botocore import exceptions as botocore
from botocore.config import Config

from outhaul.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from types_boto3_s3 import S3Client

# Words and, where the server's own HTTP status would mislead a retry rule, the status to report.
_REASONS: dict[str, tuple[str, int | None]] = {
    "AccessDenied": ("access is denied", None),
    "403": ("access is denied", None),
    "AllAccessDisabled": ("access is denied", None),
    "InvalidAccessKeyId": ("the credentials are not valid", None),
    "SignatureDoesNotMatch": ("the credentials are not valid", None),
    "InvalidToken": ("the credentials are not valid", 403),
    "ExpiredToken": ("the credentials have expired", 403),
    "RequestTimeTooSkewed": ("this machine's clock and the store's differ by more than 15 minutes", None),
    "NoSuchBucket": ("the bucket does not exist", None),
    "InvalidBucketName": ("the bucket's name is not valid", None),
    "PermanentRedirect": ("the bucket is in another region; set AWS_DEFAULT_REGION", 400),
    "AuthorizationHeaderMalformed": ("the bucket is in another region; set AWS_DEFAULT_REGION", None),
    "PreconditionFailed": ("a file of that name exists already", 412),
    "ConditionalRequestConflict": ("another writer is storing the same file", None),
    "NoSuchUpload": ("the unfinished upload was removed by someone else", 410),
    "EntityTooLarge": ("the file is larger than the store allows", 400),
    "KeyTooLongError": ("the file's name is too long", None),
    "QuotaExceeded": ("its quota is used up", 507),
    "XMinioStorageFull": ("its disk is full", 507),
    "RequestTimeout": ("the connection was too slow", 408),
    "SlowDown": ("it asks for fewer requests", None),
}
# The first class that fits counts, so the special come before the general.
_FAILURES: tuple[tuple[type[botocore.BotoCoreError], str, int | None], ...] = (
    (botocore.NoCredentialsError, "no credentials are set", 401),
    (botocore.PartialCredentialsError, "the credentials are incomplete", 401),
    (botocore.ParamValidationError, "the bucket's name is not valid", 400),
    (botocore.SSLError, "its certificate is not trusted", None),
    (botocore.ProxyConnectionError, "the proxy does not answer", None),
    (botocore.ReadTimeoutError, "it stopped answering", None),
    (botocore.EndpointConnectionError, "it does not answer", None),
    (botocore.ConnectTimeoutError, "it does not answer", None),
    (botocore.BotoCoreError, "the connection broke off", None),
)


def s3_config() -> Config:
    """Settings of every S3 client of Outhaul.

    Checksums stay boto3's default, which AWS_REQUEST_CHECKSUM_CALCULATION=when_required turns down for servers that
    know none. Signature version 4 is named because boto3 would sign links with version 2 in some regions.
    """
    return Config(
        signature_version="s3v4",
        retries={"mode": "standard", "total_max_attempts": 5},
        connect_timeout=10,
        read_timeout=120,
        tcp_keepalive=True,
    )


def make_client(session: boto3.Session | None = None, parameters: Mapping[str, Any] | None = None) -> S3Client:
    """A client with Outhaul's own settings.

    Args:
        session: where the credentials are; by default boto3 finds them, with region and endpoint, in the environment,
            a profile or a role.
        parameters: of the client, such as ``endpoint_url``; a ``config`` among them wins over Outhaul's.
    """
    chosen = dict(parameters or {})
    config = s3_config().merge(chosen.pop("config", None) or Config())
    # A session of its own: boto3's default one keeps the first credentials it finds for the life of the process.
    return (session or boto3.Session()).client("s3", config=config, **chosen)


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn boto3's errors into StoreError; ``action`` completes the sentence "The file store could not ..."."""
    try:
        yield
    except (botocore.ClientError, botocore.BotoCoreError) as error:
        words, status = explain(error)
        raise StoreError(f"The file store could not {action}: {words}.", status=status, detail=str(error)) from error


def explain(error: botocore.ClientError | botocore.BotoCoreError) -> tuple[str, int | None]:
    """What went wrong in words without host names, and the HTTP status, or None if there was no answer."""
    if isinstance(error, botocore.ClientError):
        code = error.response.get("Error", {}).get("Code", "")
        answered = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        words, status = _REASONS.get(code, (f"it answered {answered} {code}".rstrip(), None))
        return words, status or answered
    return next((words, status) for kind, words, status in _FAILURES if isinstance(error, kind))


def is_missing(error: botocore.ClientError) -> bool:
    """Tell whether there simply is no such object or upload. HEAD answers have no body, so only the number is known."""
    return error.response.get("Error", {}).get("Code") in {"404", "NoSuchKey", "NoSuchUpload"}
