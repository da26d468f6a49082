"""What is S3's own: parts, checksums, links, credentials."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.config import Config

from outhaul.domain.retry import Verdict, classify
from outhaul.errors import InvalidRequest, NotFound, StoreError, Unavailable
from outhaul.store import s3_upload
from outhaul.store.files import open_store
from outhaul.store.s3 import S3Store

MIB = 1 << 20
MINIMUM = 5 * MIB
NEVER_MIND = timedelta(hours=-1)
BATCH = bytes(range(200)) * 1000  # 200 KB


def planned(spoiled, *plan: tuple[int, int]) -> S3Store:
    return S3Store(spoiled.client, spoiled.bucket, spoiled.prefix.rstrip("/"), plan)


def sent_parts(proxy) -> dict[int, int]:
    return {request.part: request.length for request in proxy.seen if request.part}


def test_case_41_small_batches_become_parts_of_five_mib_or_more(spoiled, proxy):
    store = planned(spoiled, (10_000, MINIMUM))
    upload = store.open_upload("batches.csv", "text/csv")
    for _ in range(115):  # 23 MB
        upload.write(BATCH)
    upload.complete()
    assert b"".join(store.read("batches.csv")) == BATCH * 115
    *sizes, last = (size for _, size in sorted(sent_parts(proxy).items()))
    assert sizes == [MINIMUM] * 4
    assert last == 115 * len(BATCH) - 4 * MINIMUM


def test_case_41_the_part_size_grows(spoiled, proxy):
    store = planned(spoiled, (2, MINIMUM), (2, 6 * MIB), (1, 7 * MIB))
    upload = store.open_upload("growing.bin", "x")
    data = os.urandom(29 * MIB)
    upload.write(data)  # in one go, over all parts, and as much as fits
    upload.complete()
    assert b"".join(store.read("growing.bin")) == data
    assert sent_parts(proxy) == {1: MINIMUM, 2: MINIMUM, 3: 6 * MIB, 4: 6 * MIB, 5: 7 * MIB}


def test_case_41_a_file_beyond_the_last_part_fails_for_good(spoiled, proxy):
    store = planned(spoiled, (20, MINIMUM))
    upload = store.open_upload("too-large.bin", "x")
    chunk = bytes(MINIMUM)
    for _ in range(20):
        upload.write(chunk)
    with pytest.raises(StoreError, match=r"larger than 104,857,600 bytes.*max_bytes_per_file") as caught:
        upload.write(b"x")
    assert classify(caught.value) is Verdict.PERMANENT
    assert max(sent_parts(proxy)) <= 20
    assert not any(request.completes for request in proxy.seen)
    assert list(store.list()) == []
    assert store.clean_uploads("", NEVER_MIND) == 0


@pytest.mark.parametrize("size", [0, 1, MINIMUM])
def test_case_41_one_part_or_less_is_a_single_put(spoiled, proxy, size):
    store = planned(spoiled, (20, MINIMUM))
    upload = store.open_upload("small.bin", "x")
    upload.write(bytes(size))
    upload.complete()
    assert store.size("small.bin") == size
    assert [request.length for request in proxy.seen if request.method == "PUT"] == [size]
    assert not any(request.method == "POST" for request in proxy.seen)


def test_large_parts_wait_in_a_file(spoiled, proxy, monkeypatch):
    monkeypatch.setattr(s3_upload, "MEMORY_PART", 0)
    data = os.urandom(17 * MIB)
    upload = spoiled.open_upload("spooled.bin", "x")
    upload.write(data)
    upload.complete()
    assert b"".join(spoiled.read("spooled.bin")) == data
    assert sent_parts(proxy) == {1: 8 * MIB, 2: 8 * MIB, 3: MIB}


def test_parts_are_sent_while_more_is_written(spoiled, proxy):
    upload = spoiled.open_upload("early.bin", "x")
    upload.write(bytes(9 * MIB))
    deadline = time.monotonic() + 10
    while not sent_parts(proxy) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sent_parts(proxy) == {1: 8 * MIB}
    upload.abort()


def test_an_object_carries_type_and_download_name(moto, prefix):
    # JuiceFS keeps neither.
    store = S3Store(moto.client(), "exports", prefix)
    for key, size in (("a b.csv", 3), ("c.csv", 9 * MIB)):
        upload = store.open_upload(key, "text/csv; charset=utf-8", download_name="Größe.csv")
        upload.write(bytes(size))
        upload.complete()
        head = store.client.head_object(Bucket="exports", Key=f"{prefix}/{key}")
        assert head["ContentType"] == "text/csv; charset=utf-8"
        assert head["ContentDisposition"] == "attachment; filename=\"Groe.csv\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe.csv"


@pytest.mark.parametrize("size", [10, 20 * MIB])
@pytest.mark.parametrize("checksums", ["when_supported", "when_required"])
def test_both_ways_of_checksums_are_accepted(server, prefix, checksums, size, monkeypatch):
    for name, value in {**server.environment, "AWS_REQUEST_CHECKSUM_CALCULATION": checksums}.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://exports/{prefix}")
    upload = store.open_upload("f", "x")
    upload.write(bytes(size))
    upload.complete()
    assert store.size("f") == size


MEMORY = """
import resource, sys
from outhaul.store.files import open_store
store = open_store(sys.argv[1])
def put(key, mib):
    upload = store.open_upload(key, "x")
    for _ in range(mib * 4):
        upload.write(bytes(1 << 18))
    upload.complete()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
first = put("warm", 40)
print(put("large", 240) - first)
"""


def test_memory_does_not_grow_with_the_file(server, prefix):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, f"s3://exports/{prefix}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **server.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16  # MiB more for six times the size


def test_case_43_the_link_names_the_file(s3):
    upload = s3.open_upload("2026/a b+c%20d&é=#?.csv", "text/csv")
    upload.write(b"x")
    upload.complete()
    url, _ = s3.link("2026/a b+c%20d&é=#?.csv", timedelta(minutes=1))
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Disposition"] == (
            "attachment; filename=\"a b+c_20d&e=#?.csv\"; filename*=UTF-8''a%20b+c%2520d&%C3%A9%3D#%3F.csv"
        )


def test_case_44_a_link_ends_with_the_credentials_that_sign_it(moto, prefix, monkeypatch):
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "role")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", end.isoformat())
    store = open_store(f"s3://exports/{prefix}")
    store.open_upload("f", "x").complete()
    url, expires_at = store.link("f", timedelta(days=7))
    assert end - timedelta(seconds=2) < expires_at <= end
    assert 3590 < int(parse_qs(urlsplit(url).query)["X-Amz-Expires"][0]) <= 3600
    _, expires_at = store.link("f", timedelta(minutes=10))
    assert expires_at < end - timedelta(minutes=49)


def test_case_44_a_token_of_unknown_end_promises_an_hour(moto, prefix, monkeypatch):
    for name, value in {**moto.environment, "AWS_SESSION_TOKEN": "role"}.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://exports/{prefix}")
    store.open_upload("f", "x").complete()
    _, expires_at = store.link("f", timedelta(days=7))
    assert timedelta(minutes=59) < expires_at - datetime.now(UTC) <= timedelta(hours=1)


def test_case_44_eight_days_are_capped_visibly(s3):
    s3.open_upload("f", "x").complete()
    url, expires_at = s3.link("f", timedelta(days=8))
    assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == ["604800"]
    assert expires_at - datetime.now(UTC) <= timedelta(days=7)
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
    with pytest.raises(InvalidRequest, match="a second or more"):
        s3.link("f", timedelta(0))


def test_case_44_a_link_works_until_its_end_and_not_after(juicefs, prefix):
    # moto checks no signatures
    store = S3Store(juicefs.client(), "exports", prefix)
    store.open_upload("f", "x").complete()
    url, expires_at = store.link("f", timedelta(seconds=2))
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
    time.sleep((expires_at - datetime.now(UTC)).total_seconds() + 1.5)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url)
    caught.value.close()
    assert caught.value.code == 403


def test_case_44_a_wrong_clock_is_reported_as_such(juicefs, prefix, monkeypatch):
    store = S3Store(juicefs.client(), "exports", prefix)
    late = datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=20)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: late)
    with pytest.raises(Unavailable, match="clock and the store's differ by more than 15 minutes"):
        store.check()
    upload = store.open_upload("f", "x")
    with pytest.raises(StoreError, match="clock") as caught:
        upload.write(bytes(9 * MIB))
    assert caught.value.status == 403


def test_a_prefix_is_a_world_of_its_own(server, prefix):
    inner, outer = S3Store(server.client(), "exports", f"{prefix}/in"), S3Store(server.client(), "exports", prefix)
    inner.open_upload("f", "x").complete()
    outer.open_upload("inside", "x").complete()
    assert list(inner.list()) == ["f"]
    assert list(outer.list("in")) == ["in/f", "inside"]
    with pytest.raises(InvalidRequest, match="the limit is 1024"):
        inner.size("/".join(["k" * 203] * 5))  # 1019 bytes, and more with the prefix
    with pytest.raises(NotFound):
        inner.read("inside")


def test_list_goes_over_pages(s3):
    for number in range(7):
        s3.open_upload(f"p/{number}", "x").complete()
    paginator = type(s3.client.get_paginator("list_objects_v2"))
    original = paginator.paginate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paginator, "paginate", lambda self, **k: original(self, **k, PaginationConfig={"PageSize": 2}))
        assert list(s3.list("p/")) == [f"p/{number}" for number in range(7)]


def test_given_clients_are_used(moto, prefix):
    client = moto.client()
    store = open_store(f"s3://exports/{prefix}/", lambda: client)
    assert isinstance(store, S3Store)
    assert store.client is client
    assert isinstance(client.meta.config, Config)
    store.check()
