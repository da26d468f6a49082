"""Alerts for people: one message to an incoming webhook as Slack, Mattermost and others have it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from outhaul.notify.exchange import post as _post

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from outhaul.notify.answer import Answer
    from outhaul.notify.guard import Guard

MAX_TEXT = 3000  # characters: what Slack takes in one section

# Slack's three control characters. Without them nothing is a link, a mention or a call of the whole channel.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escape(text: str) -> str:
    """``text`` as it stands in mrkdwn, with nothing in it that calls or links."""
    return text.translate(_ESCAPES)


def post(url: str, text: str, *, guard: Guard, blocks: Sequence[Mapping[str, Any]] = ()) -> Answer:
    """Make one attempt. Raises nothing for what the receiver does: the answer tells.

    Args:
        url: of the incoming webhook; it is a secret.
        text: plain text; escaped here, and cut after 3000 characters.
        guard: decides which addresses may be connected to.
        blocks: of Slack's Block Kit, shown in place of the text; ``escape`` what goes into their mrkdwn.
    """
    shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    message: dict[str, Any] = {"text": escape(shown)}
    if blocks:
        message["blocks"] = list(blocks)
    return _post(url, {}, json.dumps(message).encode("ascii"), guard)
