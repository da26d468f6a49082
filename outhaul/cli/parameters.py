"""Parameters that several commands share, and how their text is read."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from outhaul.domain.request import parse_sort, parse_where
from outhaul.errors import InvalidRequest

Json = Annotated[bool, Parameter("--json", negative="", help="Print JSON for programs.")]
Where = Annotated[
    str | None,
    Parameter(
        help='Filter as JSON: \'{"column": "dep_delay", "op": ">", "value": 60}\', a list of those, or and/or/not.'
    ),
]
Columns = Annotated[str | None, Parameter(help="Columns, separated by commas. Default: all.")]
SortBy = Annotated[
    str | None, Parameter(help="Sort keys, separated by commas; -name is descending.", allow_leading_hyphen=True)
]
FormatName = Annotated[str, Parameter("--format", help="csv, json or parquet.")]
JobId = Annotated[str, Parameter(help="The job's id, or its first four or more digits.")]
Limit = Annotated[int | None, Parameter(help="At most this many rows.")]
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
Options = Annotated[
    list[str] | None, Parameter("--option", help="Format option as name=value; may be repeated.", negative="")
]


def read_query(where: str | None, columns: str | None, sort: str | None, limit: int | None) -> dict[str, Any]:
    """The query part of a request. Raises InvalidRequest."""
    return {
        "columns": [name.strip() for name in columns.split(",")] if columns is not None else None,
        "filters": parse_where(where) if where is not None else None,
        "sort": parse_sort(sort) if sort else [],
        "limit": limit,
    }


def read_span(name: str, text: str | None) -> timedelta | None:
    """Read a span such as ``90s``, ``30m``, ``2h`` or ``1d``. Raises InvalidRequest that names the option."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None or int(match[1]) == 0:
        raise InvalidRequest(name, f"{text!r} is not a span such as 90s, 30m, 2h or 1d")
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def read_options(pairs: list[str] | None) -> dict[str, Any]:
    """Read name=value pairs; the format's own model gives the values their types. Raises InvalidRequest."""
    options = {}
    for pair in pairs or []:
        name, sign, value = pair.partition("=")
        if not sign:
            raise InvalidRequest("option", f"{pair!r} is not of the form name=value")
        options[name.strip()] = value
    return options
