"""Bodies of requests are bounded: nothing that is larger is read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from api.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1 << 20


class BodyLimit:
    """Answers 413 to a body of more than a mebibyte, announced or not."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > MAX_BODY_BYTES:
            await _refuse(scope, receive, send)
            return
        # Without a length the body is read here, so that nothing behind begins to answer before it is known to fit.
        if announced != b"0" or scope["method"] in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MAX_BODY_BYTES:
                await _refuse(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    words = f"the body is larger than {MAX_BODY_BYTES:,} bytes"
    answer = problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", words, headers={"Connection": "close"})
    await answer(scope, receive, send)
