"""What is a folder's own: hidden files, permissions, file systems without hard links."""

from __future__ import annotations

import errno
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from outhaul.domain.retry import Verdict, classify
from outhaul.errors import InvalidRequest, StoreError
from outhaul.store.local import LocalStore


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(tmp_path / "root")


def put(store, key, data=b"x"):
    upload = store.open_upload(key, "text/csv")
    upload.write(data)
    upload.complete()


def names(store) -> list[str]:
    return sorted(str(path.relative_to(store.root)) for path in store.root.rglob("*"))


def test_an_unfinished_file_is_hidden_beside_its_place(store):
    upload = store.open_upload("t/f.csv", "text/csv")
    folder, hidden = names(store)
    assert folder == "t"
    assert hidden.startswith("t/.outhaul-")
    assert list(store.list()) == []
    upload.complete()
    assert names(store) == ["t", "t/f.csv"]
    assert (store.root / "t/f.csv").stat().st_nlink == 1


def test_folders_that_an_upload_or_a_file_needed_go_with_it(store):
    put(store, "kept/f")
    store.open_upload("a/b/c/f", "x").abort()
    put(store, "d/e/f")
    store.delete("d/e/f")
    assert names(store) == ["kept", "kept/f"]
    store.delete("kept/f")
    assert names(store) == []
    assert store.root.is_dir()


def test_names_of_unfinished_files_are_no_keys(store):
    for use in (store.size, store.delete, lambda key: store.open_upload(key, "x")):
        with pytest.raises(InvalidRequest, match="unfinished"):
            use("t/.outhaul-1.part")


def test_the_cleaner_takes_old_unfinished_files_only(store):
    old, young = store.open_upload("t/old", "x"), store.open_upload("t/young", "x")
    elsewhere = store.open_upload("u/old", "x")
    put(store, "t/finished")
    for upload in (old, elsewhere):
        os.utime(upload._hidden, (0, 0))
    os.utime(store.root / "t/finished", (0, 0))
    assert store.clean_uploads("t/", timedelta(days=1)) == 1
    with pytest.raises(StoreError):
        old.complete()
    young.complete()
    elsewhere.complete()
    assert list(store.list()) == ["t/finished", "t/young", "u/old"]


def test_without_hard_links_a_file_still_appears_whole_and_overwrites_none(store, monkeypatch):
    def refuse(self, target):
        raise OSError(errno.EOPNOTSUPP, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    put(store, "f", b"one")
    with pytest.raises(StoreError, match="exists already"):
        put(store, "f", b"two")
    assert b"".join(store.read("f")) == b"one"
    assert names(store) == ["f"]


def test_a_folder_that_cannot_be_made_durable_keeps_no_file(store, monkeypatch):
    real = os.fsync

    def fail_for_folders(number):
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EIO, "disk on fire")
        real(number)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    with pytest.raises(StoreError, match="its disk or file system failed") as caught:
        put(store, "t/f")
    assert caught.value.detail == "[Errno 5] disk on fire"
    assert names(store) == []


@pytest.mark.parametrize(
    ("number", "words", "verdict"),
    [
        (errno.ENOSPC, "its disk is full", Verdict.TRANSIENT),
        (errno.EDQUOT, "its quota is used up", Verdict.TRANSIENT),
        (errno.EIO, "its disk or file system failed", Verdict.TRANSIENT),
        (errno.EACCES, "Outhaul lacks the permission", Verdict.PERMANENT),
        (errno.EROFS, "it is read-only", Verdict.PERMANENT),
    ],
)
def test_plain_words(store, monkeypatch, number, words, verdict):
    def fail(_):
        raise OSError(number, "vendor words", "/secret/place")

    upload = store.open_upload("t/f.csv", "x")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError) as caught:
        upload.complete()
    assert caught.value.message == f"The file store could not store 't/f.csv': {words}."
    assert "vendor words" in caught.value.detail
    assert classify(caught.value) is verdict
    assert names(store) == []


def test_a_file_where_a_folder_is_needed(store):
    put(store, "a")
    with pytest.raises(StoreError, match="exists already"):
        store.open_upload("a/b", "x")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        store.open_upload("a/b/c", "x")
    assert names(store) == ["a"]
    assert store.size("a/b") is None


def test_a_name_that_the_file_system_cannot_hold(store):
    with pytest.raises(StoreError, match="a step of the name is longer") as caught:
        put(store, "t/" + "k" * 300)
    assert classify(caught.value) is Verdict.PERMANENT
    assert names(store) == []


def test_a_folder_is_no_file(store):
    put(store, "a/b")
    assert store.size("a") is None
    with pytest.raises(StoreError):
        store.delete("a")
    assert list(store.list()) == ["a/b"]


def test_the_link_is_a_file_uri(store):
    put(store, "a b#é.csv")
    url, _ = store.link("a b#é.csv", timedelta(days=1))
    assert url == f"file://{store.root}/a%20b%23%C3%A9.csv"
