"""What a file in a store may be called, and how a browser is told that name."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

from outhaul.errors import InvalidRequest

MAX_KEY_BYTES = 1024  # S3's limit, kept by every store so that a file can move between them

# RFC 5987's attr-char besides letters and digits: what may stand unescaped in `filename*`.
_ATTR_CHARS = "!#$&+-.^_`|~"
_UNSAFE_IN_QUOTES = frozenset('"\\/%')


def check_key(key: str) -> str:
    """Return ``key`` if a file may be stored under it: relative, without ``.`` or ``..``, at most 1024 UTF-8 bytes.

    Raises:
        InvalidRequest: it may not.
    """
    _check_text(key)
    if any(step in {"", ".", ".."} for step in key.split("/")):
        raise InvalidRequest("key", f"{key!r} is not a relative path without empty, '.' or '..' steps")
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if keys may begin with it: empty, or the beginning of an allowed key.

    Raises:
        InvalidRequest: no key begins so.
    """
    _check_text(prefix)
    *folders, _ = prefix.split("/")
    if any(step in {"", ".", ".."} for step in folders):
        raise InvalidRequest("prefix", f"{prefix!r} is not the beginning of a relative path")
    return prefix


def _check_text(key: str) -> None:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("key", f"{key!r} is not valid Unicode") from None
    if size > MAX_KEY_BYTES:
        raise InvalidRequest("key", f"is {size} bytes of UTF-8, the limit is {MAX_KEY_BYTES}")
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise InvalidRequest("key", f"{key!r} holds a control character")


def content_disposition(name: str) -> str:
    """The header that makes a browser save a file as ``name``: plain ASCII for old ones, RFC 5987 for the rest.

    The result is ASCII without control characters, whatever ``name`` holds.
    """
    name = "".join(_visible(character) for character in name.rpartition("/")[2]) or "file"
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().strip()
    plain = "".join("_" if character in _UNSAFE_IN_QUOTES else character for character in plain) or "file"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe=_ATTR_CHARS)}"


def _visible(character: str) -> str:
    # Controls, lone surrogates and line or paragraph separators name nothing and can break a header.
    return "_" if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or character == "\\" else character
