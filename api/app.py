"""The HTTP API: ``uvicorn api.app:app``. Settings come from the environment when the server starts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api import datasets, exports, files, health, webhooks
from api.access import Gate
from api.bounds import BodyLimit
from api.models import NewExport
from api.problems import Problem, add_handlers
from outhaul import __version__
from outhaul.wiring import outhaul

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager

    from outhaul.wiring import App

DESCRIPTION = """
Ask for rows of a dataset as files, and be told when they are there. An export is asked for with `POST /v1/exports` and
is done when it is its turn: look at it with `GET`, or add a webhook.

Errors are problem details (RFC 9457) with a stable `code` and, for bad input, the path of the `field`.
"""


def create_app(open_outhaul: Callable[[], AbstractContextManager[App]]) -> FastAPI:
    """The application; Outhaul is opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with open_outhaul() as oh:
            app.state.outhaul = oh
            app.state.gate = Gate(oh)
            yield

    app = FastAPI(
        title="Outhaul",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_middleware(BodyLimit)
    add_handlers(app)
    for part in (exports, files, datasets, webhooks):
        app.include_router(part.router, prefix="/v1")
    app.include_router(health.router)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, in which the body of a request is spelled out and every error is a Problem."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, openapi_version="3.1.0"
    )
    schemas = document["components"]["schemas"]
    for model in (NewExport, Problem):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}", by_alias=True)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    for name in ("/v1/exports", "/v1/exports:estimate"):
        content = document["paths"][name]["post"]["requestBody"]["content"]["application/json"]
        content["schema"] = {"$ref": f"#/components/schemas/{NewExport.__name__}"}
    for path in document["paths"].values():
        for operation in path.values():
            if answer := operation["responses"].get("422"):
                answer["description"] = HTTPStatus.UNPROCESSABLE_ENTITY.phrase
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    app.openapi_schema = document
    return document


app = create_app(partial(outhaul, serves=True))
