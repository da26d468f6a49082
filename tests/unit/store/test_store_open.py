"""From a URL to a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outhaul.errors import Unavailable
from outhaul.store.files import open_store
from outhaul.store.local import LocalStore


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("file:///var/files", Path("/var/files")),
        ("file:///var/a%20b #1", Path("/var/a%20b #1")),
        ("file://.outhaul/files", Path.cwd() / ".outhaul/files"),
        ("FILE://files/", Path.cwd() / "files"),
    ],
)
def test_folders(url, root):
    store = open_store(url)
    assert isinstance(store, LocalStore)
    assert store.root == root


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://bucket/a/b", "bucket", "a/b/"),
        ("S3://bucket/a b/", "bucket", "a b/"),
    ],
)
def test_buckets(url, bucket, prefix):
    client = object()
    store = open_store(url, lambda: client)
    assert (store.client, store.bucket, store.prefix) == (client, bucket, prefix)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://me:secret@host/x", " must be file://FOLDER or s3://BUCKET/PREFIX, not postgresql://"),
        ("/var/files", " must be file://FOLDER or s3://BUCKET/PREFIX, not '/var/files'"),
        ("file", " must be file://FOLDER or s3://BUCKET/PREFIX, not 'file'"),
        ("", " must be file://FOLDER or s3://BUCKET/PREFIX, not ''"),
        ("file://", ": 'file://' names no folder"),
        ("s3:///prefix", ": 's3:///prefix' names no bucket"),
    ],
)
def test_other_urls_are_refused_by_the_setting(url, message):
    with pytest.raises(Unavailable) as caught:
        open_store(url)
    assert caught.value.message == f"OUTHAUL_STORE_URL{message}"


def test_a_folder_does_not_cost_the_import_of_boto3():
    code = (
        "import sys; from outhaul.store.files import open_store; open_store('file://x'); print('boto3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
