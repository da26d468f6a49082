"""The part plan against S3's limits, and the words for S3's errors."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from outhaul.domain.retry import Verdict, classify
from outhaul.errors import StoreError
from outhaul.store.s3_client import s3_config, translated
from outhaul.store.s3_upload import MEMORY_PART, PART_PLAN

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40


def test_case_41_ten_thousand_parts_hold_five_tebibytes():
    sizes = [size for count, size in PART_PLAN for _ in range(count)]
    assert len(sizes) == 10_000
    assert sizes == sorted(sizes)
    assert 5 * MIB <= sizes[0] <= 8 * MIB
    assert sizes[-1] <= 5 * GIB
    assert sum(sizes) >= 5 * TIB
    assert sum(size for size in sizes if size <= MEMORY_PART) >= 100 * GIB


@pytest.mark.parametrize(
    ("status", "code", "words", "verdict"),
    [
        (403, "AccessDenied", "access is denied", Verdict.PERMANENT),
        (404, "NoSuchBucket", "the bucket does not exist", Verdict.PERMANENT),
        (400, "ExpiredToken", "the credentials have expired", Verdict.PERMANENT),
        (400, "RequestTimeout", "the connection was too slow", Verdict.TRANSIENT),
        (404, "NoSuchUpload", "the unfinished upload was removed by someone else", Verdict.TRANSIENT),
        (409, "ConditionalRequestConflict", "another writer is storing the same file", Verdict.TRANSIENT),
        (400, "EntityTooLarge", "the file is larger than the store allows", Verdict.PERMANENT),
        (500, "InternalError", "it answered 500 InternalError", Verdict.TRANSIENT),
        (503, "SlowDown", "it asks for fewer requests", Verdict.TRANSIENT),
    ],
)
def test_answers_in_plain_words(status, code, words, verdict):
    response = {"Error": {"Code": code, "Message": "see host s3.internal"}}
    response["ResponseMetadata"] = {"HTTPStatusCode": status}
    with pytest.raises(StoreError) as caught, translated("store 'f'"):
        raise ClientError(response, "PutObject")
    assert caught.value.message == f"The file store could not store 'f': {words}."
    assert "s3.internal" in caught.value.detail
    assert classify(caught.value) is verdict


@pytest.mark.parametrize(
    ("error", "words", "verdict"),
    [
        (EndpointConnectionError(endpoint_url="http://s3.internal"), "it does not answer", Verdict.TRANSIENT),
        (ReadTimeoutError(endpoint_url="http://s3.internal"), "it stopped answering", Verdict.TRANSIENT),
        (NoCredentialsError(), "no credentials are set", Verdict.PERMANENT),
    ],
)
def test_silence_in_plain_words(error, words, verdict):
    with pytest.raises(StoreError) as caught, translated("store 'f'"):
        raise error
    assert caught.value.message == f"The file store could not store 'f': {words}."
    assert classify(caught.value) is verdict


def test_every_client_retries_and_keeps_connections_alive():
    config = s3_config()
    assert config.signature_version == "s3v4"
    assert config.retries == {"mode": "standard", "total_max_attempts": 5}
    assert config.tcp_keepalive
    assert 0 < config.connect_timeout <= config.read_timeout
