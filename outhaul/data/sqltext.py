"""Reads just enough SQL to tell one SELECT from several statements."""

from __future__ import annotations

import re

# Cut as PostgreSQL's own scanner cuts, to the letter: where the two differ, text passes for code, or code for text.
# All but the code may hide a semicolon. Block comments nest, so they are not here.
_TOKEN = re.compile(
    r"""
    [eE]'(?:[^'\\]|\\.|'')*'  # goes on after a line break, as any text does, and is still one that knows backslashes
        (?:[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'(?:[^'\\]|\\.|'')*')*
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | \$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][0-9A-Za-z_\x80-\U0010ffff]*)?)\$.*?\$(?P=tag)\$
    | --[^\n\r]*
    | (?P<code>[A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LEADING_WORD = re.compile(r"[\s(]*([A-Za-z]+)")
_READING = frozenset({"select", "with", "values", "table"})
_WRITING = re.compile(
    r"\bas\s*(?:not\s+)?(?:materialized\s*)?\(\s*(insert\s+into|delete\s+from|merge\s+into|update\b[^(),]*\sset)\b",
    re.IGNORECASE,
)


def one_select(sql: str) -> str:
    """Return ``sql`` without its trailing semicolon and what follows it.

    The result may end in a line comment, so whoever wraps it starts a new line after it.

    Raises:
        ValueError: if the text is not one reading statement. What it reads, and whether a function in it tries to
            write, is for the read-only transaction and the role's rights to decide.
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
    if writing := _WRITING.search(bare):
        raise ValueError(f"writes ({writing[1].split()[0].upper()}); one SELECT only")
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
            end, code = _comment_end(sql, at), None
        else:
            token = _TOKEN.match(sql, at)
            assert token is not None
            end, code = token.end(), token["code"]
        out.append(code or " " * (end - at))
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
