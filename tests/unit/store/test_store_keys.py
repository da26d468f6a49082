"""Names of files and the header that tells them to a browser."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outhaul.errors import InvalidRequest
from outhaul.store.keys import MAX_KEY_BYTES, check_key, check_prefix, content_disposition


@pytest.mark.parametrize("key", ["a", "a/b", "2026/a b+c%20d&é=#?.csv", "...", "a\\b", "k" * MAX_KEY_BYTES, "é" * 512])
def test_allowed_keys_come_back_unchanged(key):
    assert check_key(key) == key
    assert check_prefix(key) == key


@pytest.mark.parametrize("key", ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\x7f", "a\u0085b"])
def test_other_keys_are_refused_by_name(key):
    with pytest.raises(InvalidRequest, match=r"^key: ") as caught:
        check_key(key)
    assert caught.value.field == "key"


@pytest.mark.parametrize("key", ["k" * 1025, "é" * 512 + "k"])
def test_case_43_the_limit_counts_bytes(key):
    with pytest.raises(InvalidRequest, match="is 1025 bytes of UTF-8, the limit is 1024"):
        check_key(key)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", ".", "a/."])
def test_beginnings_of_keys(prefix):
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//b", "a\0"])
def test_what_begins_no_key(prefix):
    with pytest.raises(InvalidRequest):
        check_prefix(prefix)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("orders.csv", "attachment; filename=\"orders.csv\"; filename*=UTF-8''orders.csv"),
        ("a/b/orders.csv", "attachment; filename=\"orders.csv\"; filename*=UTF-8''orders.csv"),
        ('say "hi".csv', "attachment; filename=\"say _hi_.csv\"; filename*=UTF-8''say%20%22hi%22.csv"),
        ("Übersicht.csv", "attachment; filename=\"Ubersicht.csv\"; filename*=UTF-8''%C3%9Cbersicht.csv"),
        ("売上", "attachment; filename=\"file\"; filename*=UTF-8''%E5%A3%B2%E4%B8%8A"),
        ("a\r\nb: c", "attachment; filename=\"a__b: c\"; filename*=UTF-8''a__b%3A%20c"),
        ("..\\x", "attachment; filename=\".._x\"; filename*=UTF-8''.._x"),
        ("", "attachment; filename=\"file\"; filename*=UTF-8''file"),
    ],
)
def test_case_43_content_disposition(name, header):
    assert content_disposition(name) == header


@given(st.text(st.characters()))
def test_case_43_no_name_breaks_the_header(name):
    header = content_disposition(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    plain, _, encoded = header.partition("filename*=UTF-8''")
    assert "%" not in plain
    decoded = unquote(encoded, errors="strict")
    assert "/" not in decoded
    assert decoded
