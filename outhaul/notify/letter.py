"""The words of an e-mail about an export, once as plain text and once as HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from outhaul.domain.job import Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

MAX_NAME = 150  # characters of it in a subject

_SUBJECTS = {
    Status.COMPLETED: "Export of {} is ready",
    Status.FAILED: "Export of {} failed and will be tried again",
    Status.DEAD: "Export of {} failed for good",
    Status.CANCELLED: "Export of {} was cancelled",
}
# All that some reader of mail takes for the end of a line, and the other control characters.
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Letter:
    """What there is to say about one export.

    Attributes:
        status: completed, failed, dead or cancelled.
        job: the job's short id.
        name: what its owner calls the export; the dataset's name if it has none.
        dataset: its name.
        rows: number of rows written, or None.
        size: of all files, in bytes, or None.
        links: the URLs of its files, in order.
        expires: until when the links are promised, in the reader's zone, or None.
        error: what went wrong, in plain words, or empty.
    """

    status: Status
    job: str
    name: str
    dataset: str
    rows: int | None = None
    size: int | None = None
    links: Sequence[str] = ()
    expires: datetime | None = None
    error: str = ""


def subject_of(notice: Letter) -> str:
    """The subject, on one line whatever the export is called."""
    return _SUBJECTS[notice.status].format(_one_line(notice.name)[:MAX_NAME])


def text_of(notice: Letter) -> str:
    """The message in plain text."""
    lines = [f"{subject_of(notice)}.", "", *(f"{label}: {value}" for label, value in _facts(notice))]
    if notice.links:
        lines += ["", *notice.links]
    return "\n".join([*lines, ""])


def html_of(notice: Letter) -> str:
    """The message in HTML, which loads nothing from anywhere."""
    rows = (
        f'<tr><td style="padding-right:1em">{escape(label)}</td><td>{escape(value)}</td></tr>\n'
        for label, value in _facts(notice)
    )
    count = len(notice.links)
    links = (
        f'<p><a href="{escape(link)}">{"Download" if count == 1 else f"Download file {number} of {count}"}</a></p>\n'
        for number, link in enumerate(notice.links, 1)
    )
    head = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>\n'
    title = f"<p><strong>{escape(subject_of(notice))}.</strong></p>\n"
    return f"{head}{title}<table>\n{''.join(rows)}</table>\n{''.join(links)}</body></html>\n"


def size_in_words(count: int) -> str:
    """Bytes in the unit that suits them: ``0 bytes``, ``1.5 KiB``, ``12.0 GiB``."""
    if count < 1024:
        return "1 byte" if count == 1 else f"{count} bytes"
    size, units = count / 1024, iter(("KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while round(size, 1) >= 1024 and (larger := next(units, None)):
        size, unit = size / 1024, larger
    return f"{size:,.1f} {unit}"


def _facts(notice: Letter) -> list[tuple[str, str]]:
    facts = (
        ("Dataset", notice.dataset),
        ("Rows", "" if notice.rows is None else f"{notice.rows:,}"),
        ("Size", "" if notice.size is None else size_in_words(notice.size)),
        ("Available until", _time(notice.expires) if notice.expires else ""),
        ("Error", notice.error),
        ("Job", notice.job),
    )
    return [(label, _one_line(value)) for label, value in facts if value]


def _time(at: datetime) -> str:
    """With its zone by name and by offset, since names such as IST mean more than one."""
    offset = f"{at:%z}"
    zone = f"UTC{offset[:3]}:{offset[3:5]}"
    name = at.tzname()
    return f"{at:%Y-%m-%d %H:%M} " + ("UTC" if offset == "+0000" else zone if name == zone else f"{name} ({zone})")


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text).strip()
