"""Every error as problem details (RFC 9457), with a stable code and, for bad input, the path of the field."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from outhaul.errors import Gone, InvalidRequest, NotFound, OuthaulError, Refused, TooMany, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"
logger = logging.getLogger(__name__)

# The first that fits counts. What is none of these failed behind us: a source broke its contract, the store broke off.
STATUSES: tuple[tuple[type[OuthaulError], HTTPStatus], ...] = (
    (InvalidRequest, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Gone, HTTPStatus.GONE),
    (Refused, HTTPStatus.CONFLICT),
    (TooMany, HTTPStatus.TOO_MANY_REQUESTS),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (OuthaulError, HTTPStatus.BAD_GATEWAY),
)
RETRY_AFTER_S = {HTTPStatus.TOO_MANY_REQUESTS: 30, HTTPStatus.SERVICE_UNAVAILABLE: 5}


class Problem(BaseModel):
    """What went wrong."""

    type: str = Field(default="about:blank", description="Always about:blank: the code tells.")
    title: str = Field(description="The status in words.", examples=["Unprocessable Content"])
    status: int = Field(description="The HTTP status.", examples=[422])
    detail: str = Field(description="One plain line.", examples=["format: 'xls' is not a known format."])
    code: str = Field(description="Stable code of the kind of error.", examples=["invalid_request"])
    field: str | None = Field(default=None, description="Path of the field that is wrong.", examples=["format"])


class ApiError(Exception):
    """An error that HTTP alone knows, such as a key that is missing."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})


def problem(
    status: HTTPStatus, code: str, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer that tells of an error."""
    body = Problem(title=status.phrase, status=status, detail=detail, code=code, field=field)
    return JSONResponse(body.model_dump(exclude_none=True), status, dict(headers or {}), media_type=MEDIA_TYPE)


# What any route that needs a key can answer: the tenant that an admin names may not exist.
USUAL = (401, 403, 404, 422, 429, 503)


def documented(*more: int) -> dict[int | str, dict[str, Any]]:
    """How the errors of a route that needs a key stand in the OpenAPI document."""
    return {status: problem_answer(status) for status in sorted({*USUAL, *more})}


def problem_answer(status: int) -> dict[str, Any]:
    """How one error stands there."""
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def add_handlers(app: FastAPI) -> None:
    """Have ``app`` answer every error so."""

    @app.exception_handler(ApiError)
    def of_api(_: Request, error: ApiError) -> JSONResponse:
        return problem(error.status, error.code, error.detail, field=error.field, headers=error.headers)

    @app.exception_handler(OuthaulError)
    def of_outhaul(request: Request, error: OuthaulError) -> JSONResponse:
        status = next(status for kind, status in STATUSES if isinstance(error, kind))
        if status >= 500:
            logger.warning("%s %s: %s %s", request.method, request.url.path, error.message, error.detail)
        wait = RETRY_AFTER_S.get(status)
        field = error.field if isinstance(error, InvalidRequest) else None
        headers = {"Retry-After": str(wait)} if wait else {}
        return problem(status, error.code, error.message, field=field, headers=headers)

    @app.exception_handler(RequestValidationError)
    def of_validation(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place, *path = first["loc"]
        field = ".".join(map(str, path)) or str(place)
        message = str(first["msg"]).removeprefix("Value error, ")
        return problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            InvalidRequest.code,
            f"{field}: {message[:1].lower()}{message[1:]}",
            field=field,
        )

    @app.exception_handler(HTTPException)
    def of_http(request: Request, error: HTTPException) -> JSONResponse:
        status = HTTPStatus(error.status_code)
        headers = dict(error.headers or {})
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods(app, request))
        return problem(status, status.name.lower(), str(error.detail), headers=headers)

    @app.exception_handler(Exception)
    def of_us(request: Request, error: Exception) -> JSONResponse:
        logger.error("%s %s", request.method, request.url.path, exc_info=error)
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "this is a fault of Outhaul, and has been logged")


def _methods(app: FastAPI, request: Request) -> list[str]:
    """All that the path allows: each method is a route of its own, and the first alone would name only its own."""
    found = (route for route in app.routes if isinstance(route, Route) and route.path_regex.match(request.url.path))
    return sorted({method for route in found for method in route.methods or ()})
