"""Reads just enough SQL to tell one SELECT from several statements."""

from __future__ import annotations

import re

# What may hide a semicolon: quoted text and names, dollar quotes, comments. Block comments nest, so they are not here.
_OPAQUE = re.compile(
    r"""
    [eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?<![\w$])\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?)\$.*?\$(?P=tag)\$
    | --[^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
_LEADING_WORD = re.compile(r"[\s(]*([A-Za-z]+)")
_READING = frozenset({"select", "with", "values", "table"})


def one_select(sql: str) -> str:
    """Return ``sql`` without its trailing semicolon and what follows it.

    The result may end in a line comment, so whoever wraps it starts a new line after it.

    Raises:
        ValueError: if the text is not one reading statement. What it reads, and whether it tries to write, is for
            the read-only transaction and the role's rights to decide.
    """
    bare = _blank_out(sql)
    end = bare.find(";")
    if end >= 0:
        if bare[end:].strip("; \t\r\n\f\v"):
            raise ValueError("holds more than one statement; one SELECT only")
        sql, bare = sql[:end], bare[:end]
    word = _LEADING_WORD.match(bare)
    if word is None or word[1].lower() not in _READING:
        raise ValueError("is not a SELECT; one SELECT only")
    if "\x00" in sql:
        raise ValueError("holds a NUL character")
    depth = 0
    for char in bare:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
    if depth:
        raise ValueError("has parentheses that do not match")
    return sql


def _blank_out(sql: str) -> str:
    """Replace by blanks, one for one, everything that is not code."""
    out: list[str] = []
    at = 0
    while at < len(sql):
        if sql.startswith("/*", at):
            end = _comment_end(sql, at)
        elif match := _OPAQUE.match(sql, at):
            end = match.end()
        else:
            out.append(sql[at])
            at += 1
            continue
        out.append(" " * (end - at))
        at = end
    return "".join(out)


def _comment_end(sql: str, start: int) -> int:
    depth, at = 1, start + 2
    while depth and at < len(sql):
        if sql.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif sql.startswith("*/", at):
            depth, at = depth - 1, at + 2
        else:
            at += 1
    return at
