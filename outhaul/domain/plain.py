"""What any request may hold: JSON that PostgreSQL can store, and not nested without end."""

from __future__ import annotations

import math
from typing import Any

from outhaul.errors import InvalidRequest

MAX_DEPTH = 60  # of lists and objects in each other; a filter of any sense has a tenth of it


def check_plain(value: Any, path: str = "", depth: int = 0) -> None:
    """Look through plain data.

    Raises:
        InvalidRequest: with the path of a text with a NUL character or half of a surrogate pair, of a number that is
            none, or of what is nested too deeply.
    """
    where = path or "request"
    match value:
        case str():
            if "\x00" in value:
                raise InvalidRequest(where, "holds a NUL character, which PostgreSQL cannot store")
            if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
                raise InvalidRequest(where, "is not a text: it holds half of a surrogate pair")
        case float() if not math.isfinite(value):
            raise InvalidRequest(where, f"{value} is not a number that JSON knows")
        case dict() | list() if depth == MAX_DEPTH:
            raise InvalidRequest(where.partition(".")[0], f"is nested more than {MAX_DEPTH} deep")
        case dict():
            for name, part in value.items():
                check_plain(name, path, depth + 1)
                check_plain(part, f"{path}.{name}".removeprefix("."), depth + 1)
        case list():
            for place, part in enumerate(value):
                check_plain(part, f"{path}[{place}]", depth + 1)
