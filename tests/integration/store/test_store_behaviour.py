"""What every store does, whatever it keeps its files in."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit

import pytest

from outhaul.domain.retry import Verdict, classify
from outhaul.errors import InvalidRequest, NotFound, StoreError, Unavailable
from outhaul.store.files import open_store
from outhaul.store.s3 import S3Store

MIB = 1 << 20
NEVER_MIND = timedelta(hours=-1)  # older than the future: every unfinished upload counts as abandoned
ODD = "2026/a b+c%20d&é=#?.csv"


def put(store, key: str, data: bytes) -> None:
    upload = store.open_upload(key, "text/csv")
    assert upload.write(data) == len(data)
    upload.complete()


def content(store, key: str) -> bytes:
    return b"".join(store.read(key))


@pytest.mark.parametrize("size", [0, 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB])
def test_a_completed_file_holds_what_was_written(store, size):
    data = os.urandom(size)
    upload = store.open_upload("t/job/1-1/orders-00000.csv", "text/csv")
    sent = sum(upload.write(memoryview(data)[start : start + 300_000]) for start in range(0, size, 300_000))
    assert not store.exists("t/job/1-1/orders-00000.csv")
    upload.complete()
    assert sent == size == store.size("t/job/1-1/orders-00000.csv")
    assert hashlib.sha256(content(store, "t/job/1-1/orders-00000.csv")).digest() == hashlib.sha256(data).digest()
    assert store.clean_uploads("", NEVER_MIND) == 0


@pytest.mark.parametrize("size", [3, 20 * MIB])
def test_a_file_gives_way_only_to_a_whole_one(store, size):
    put(store, "report.csv", b"old")
    upload = store.open_upload("report.csv", "text/csv", replace=True)
    upload.write(bytes(size))
    assert content(store, "report.csv") == b"old"
    upload.abort()
    assert content(store, "report.csv") == b"old"
    upload = store.open_upload("report.csv", "text/csv", replace=True)
    upload.write(bytes(size))
    upload.complete()
    assert content(store, "report.csv") == bytes(size)
    assert store.clean_uploads("", NEVER_MIND) == 0


def test_memoryviews_of_wider_items_count_bytes(store):
    upload = store.open_upload("wide", "text/plain")
    assert upload.write(memoryview(b"abcdefgh").cast("Q")) == 8
    upload.complete()
    assert content(store, "wide") == b"abcdefgh"


@pytest.mark.parametrize("size", [0, 100, 20 * MIB])
def test_an_aborted_upload_leaves_nothing(store, size):
    upload = store.open_upload("a/b/c.csv", "text/csv")
    upload.write(bytes(size))
    upload.abort()
    upload.abort()
    assert list(store.list()) == []
    assert store.clean_uploads("", NEVER_MIND) == 0
    for late in (lambda: upload.write(b"x"), upload.complete):
        with pytest.raises(StoreError, match="has ended"):
            late()
    assert not store.exists("a/b/c.csv")


@pytest.mark.parametrize("size", [5, 9 * MIB])
def test_abort_takes_back_a_file_that_has_appeared(store, size):
    upload = store.open_upload("back", "text/csv")
    upload.write(bytes(size))
    upload.complete()
    assert store.size("back") == size
    upload.abort()
    assert store.size("back") is None
    with pytest.raises(StoreError, match="has ended"):
        upload.write(b"x")
    put(store, "back", b"of another")
    upload.abort()
    assert store.size("back") == len(b"of another")


def test_abort_leaves_a_file_that_replaced_another(store):
    put(store, "kept", b"first")
    upload = store.open_upload("kept", "text/csv", replace=True)
    upload.write(b"second")
    upload.complete()
    upload.abort()
    assert b"".join(store.read("kept")) == b"second"


@pytest.mark.parametrize("size", [0, 5, 9 * MIB])
def test_a_finished_file_waits_for_its_completion(store, size):
    upload = store.open_upload("late", "text/csv")
    upload.write(bytes(size))
    upload.finish()
    assert store.size("late") is None
    upload.complete()
    assert store.size("late") == size


def test_a_finished_file_can_be_aborted(store):
    upload = store.open_upload("late", "text/csv")
    upload.write(bytes(9 * MIB))
    upload.finish()
    upload.abort()
    assert list(store.list()) == []
    assert store.clean_uploads("", timedelta(0)) == 0


@pytest.mark.parametrize("size", [5, 9 * MIB])
def test_a_taken_name_is_refused_and_its_file_untouched(store, size):
    put(store, "same.csv", b"first")
    upload = store.open_upload("same.csv", "text/csv")
    upload.write(bytes(size))
    with pytest.raises(StoreError, match=r"'.*same\.csv': a file of that name exists already") as caught:
        upload.complete()
    assert caught.value.status == 412
    assert classify(caught.value) is Verdict.PERMANENT
    assert content(store, "same.csv") == b"first"
    assert store.clean_uploads("", NEVER_MIND) == 0


def test_delete_tells_whether_the_file_was_there(store):
    put(store, "x/one", b"1")
    put(store, "x/two", b"2")
    assert store.delete("x/one") is True
    assert store.delete("x/one") is False
    assert store.delete("x/two/three") is False
    assert list(store.list()) == ["x/two"]


def test_a_missing_file(store):
    assert store.size("no/such") is None
    assert store.exists("no/such") is False
    for use in (store.read, lambda key: store.link(key, timedelta(hours=1))):
        with pytest.raises(NotFound, match="'no/such' is not in the store"):
            use("no/such")


def test_list_takes_any_beginning_of_a_key_in_order(store):
    keys = ["a/1", "a-b/1", "ab/2", "b", "ä/1", "a/1.csv", "a/b/c/d"]
    for key in keys:
        put(store, key, b"x")
    assert list(store.list()) == sorted(keys, key=str.encode)
    assert list(store.list("a")) == sorted((key for key in keys if key.startswith("a")), key=str.encode)
    assert list(store.list("a/")) == ["a/1", "a/1.csv", "a/b/c/d"]
    assert list(store.list("a/1.")) == ["a/1.csv"]
    assert list(store.list("none/such")) == []
    for outside in ("../", "/", "a/../b", "a//"):
        with pytest.raises(InvalidRequest):
            list(store.list(outside))


@pytest.mark.parametrize("key", ["", "/a", "a/../b", "..", "a//b", "a/", "./a", "a\0b", "a\nb", "\ud800"])
def test_keys_that_lead_elsewhere_are_refused(store, key):
    for use in (lambda: store.open_upload(key, "x"), lambda: store.delete(key), lambda: store.size(key)):
        with pytest.raises(InvalidRequest, match=r"^key: "):
            use()


@pytest.mark.parametrize("key", ["a\\..\\b", "~", "-rf", "*", "...", "a:b", "😀", "e\u0301", ODD, "a;b|c'd\"e<f>"])
def test_odd_keys_are_stored_as_they_are(store, key):
    put(store, key, key.encode())
    assert list(store.list()) == [key]
    assert content(store, key) == key.encode()


def test_case_43_odd_keys(store):
    put(store, ODD, b"a,b\r\n1,2\r\n")
    put(store, "2026/a b+c", b"neighbour")
    put(store, "2026/a b c%20d&é=#?.csv", b"what a wrong decoder would find")
    assert ODD in list(store.list("2026/"))
    assert store.size(ODD) == 10
    url, _ = store.link(ODD, timedelta(minutes=5))
    assert urlsplit(url).path.endswith("2026/a%20b%2Bc%2520d%26%C3%A9%3D%23%3F.csv")
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"a,b\r\n1,2\r\n"
    with pytest.raises(StoreError, match="exists already"):
        put(store, ODD, b"other")
    assert store.delete(ODD)
    assert list(store.list()) == ["2026/a b c%20d&é=#?.csv", "2026/a b+c"]
    put(store, ODD, b"again")
    assert content(store, ODD) == b"again"


def test_case_43_names_over_1024_bytes(store):
    too_long = "/".join(["é" * 100] * 6)  # 605 characters, 1205 bytes
    with pytest.raises(InvalidRequest, match="1205 bytes of UTF-8, the limit is 1024"):
        store.open_upload(too_long, "text/csv")


def test_case_44_links_live_seven_days_at_most(store):
    put(store, "file", b"x")
    start = datetime.now(UTC)
    for asked, given in ((1, 1), (7, 7), (8, 7), (400, 7)):
        _, expires_at = store.link("file", timedelta(days=asked))
        assert timedelta(days=given, seconds=-2) < expires_at - start < timedelta(days=given, seconds=60)


def test_case_44_no_link_to_a_removed_file(store):
    put(store, "file", b"x")
    store.delete("file")
    with pytest.raises(NotFound, match="not in the store"):
        store.link("file", timedelta(days=1))


def test_check_leaves_nothing(store):
    store.check()
    assert list(store.list()) == []
    assert store.clean_uploads("", NEVER_MIND) == 0


def test_two_uploads_at_once_share_a_folder(store):
    one, two = store.open_upload("f/one", "x"), store.open_upload("f/two", "x")
    one.write(b"1")
    two.write(b"2")
    one.abort()
    two.complete()
    assert list(store.list()) == ["f/two"]


def test_uploads_that_race_for_folders(store):
    failures = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                upload = store.open_upload(f"deep/er/{number}-{turn}", "x")
                upload.write(b"x")
                upload.complete() if turn % 2 else upload.abort()
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(store.list("deep/er/"))) == 40


WRITER = """
import sys, time
from outhaul.store.files import open_store
from outhaul.store.s3 import S3Store
upload = open_store(sys.argv[1]).open_upload("t/killed.csv", "text/csv")
upload.write(b"x" * (30 << 20))
print("written", flush=True)
time.sleep(600)
"""


def test_case_33_a_killed_writer_leaves_no_file_and_the_cleaner_takes_the_rest(store, place):
    put(store, "t/good.csv", b"good")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, place.url],
        stdout=subprocess.PIPE,
        env={**os.environ, **place.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with writer:
        assert writer.stdout.readline() == b"written\n"
        assert store.clean_uploads("", timedelta(hours=1)) == 0  # a live one is left alone
        writer.send_signal(signal.SIGKILL)
    assert list(store.list()) == ["t/good.csv"]
    assert store.clean_uploads("", timedelta(hours=1)) == 0
    assert store.clean_uploads("other/", NEVER_MIND) == 0
    assert store.clean_uploads("t/", NEVER_MIND) == 1
    assert store.clean_uploads("", NEVER_MIND) == 0
    assert content(store, "t/good.csv") == b"good"


def test_an_upload_that_the_cleaner_took_fails(store):
    upload = store.open_upload("slow.csv", "text/csv")
    upload.write(bytes(30 * MIB))
    assert store.clean_uploads("", NEVER_MIND) == 1
    with pytest.raises(StoreError):
        upload.complete()
    assert list(store.list()) == []


def test_open_store_finds_the_same_files(store, place, monkeypatch):
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    put(open_store(place.url), "over/there", b"data")
    assert content(store, "over/there") == b"data"
    put(open_store(place.url + "/", None), "second", b"x")
    assert list(store.list()) == ["over/there", "second"]


def test_link_opens_the_file_under_its_download_name(store):
    put(store, "f.csv", b"data")
    url, _ = store.link("f.csv", timedelta(minutes=1), 'Über "Q1"\r\nX-Evil: 1/sum é.csv')
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"data"
        if not url.startswith("file:"):
            header = answer.headers["Content-Disposition"]
            assert answer.headers["X-Evil"] is None
            assert 'filename="sum e.csv"' in header
            assert unquote(header.partition("filename*=UTF-8''")[2]) == "sum é.csv"


@pytest.mark.parametrize(
    ("kind", "url", "wrong", "words"),
    [
        ("moto", "s3://no-such-bucket/x", {}, "the bucket does not exist"),
        ("juicefs", "s3://no-such-bucket/x", {}, "the bucket does not exist"),
        ("juicefs", "s3://exports", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the credentials are not valid"),
        ("juicefs", "s3://exports", {"AWS_ACCESS_KEY_ID": "nobody"}, "the credentials are not valid"),
        ("juicefs", "s3://Bad Bucket", {}, "the bucket's name is not valid"),
    ],
)
def test_check_names_the_setting(kind, url, wrong, words, request, monkeypatch):
    for name, value in {**request.getfixturevalue(kind).environment, **wrong}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable, match=rf"^OUTHAUL_STORE_URL: the bucket .* cannot be used: {words}\.$") as caught:
        open_store(url).check()
    assert "127.0.0.1" not in caught.value.message
    assert caught.value.detail


def test_check_of_an_endpoint_that_does_not_answer(moto):
    with pytest.raises(Unavailable, match=r"^OUTHAUL_STORE_URL: .* it does not answer\.$") as caught:
        S3Store(moto.client(port=9, tries=1), "exports").check()
    assert "127.0.0.1" not in caught.value.message
    assert "127.0.0.1:9" in caught.value.detail


def test_check_names_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "plain").write_text("a file")
    with pytest.raises(Unavailable, match=r"^OUTHAUL_STORE_URL: files cannot be written to the folder .*/plain: "):
        open_store(f"file://{tmp_path}/plain").check()
