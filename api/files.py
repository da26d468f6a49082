"""Hand out the files of exports."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response, Security
from fastapi.responses import FileResponse, RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials

from api.access import Caller, Outhaul, Reader, bearer, caller
from api.models import Files, file_model
from api.problems import documented
from outhaul.domain.access import Scope

router = APIRouter(tags=["files"])
MAX_PART = 99_999


@router.get("/exports/{job_id}/files", responses=documented(409))
def list_files(app: Outhaul, asker: Reader, job_id: UUID) -> Files:
    """The files of a completed export, each with a link that needs no key for a while."""
    job = app.exports.get(job_id, asker.tenant_id)
    files = [file_model(file, url) for file, url in app.downloads.of_job(job)]
    return Files(files=files, links_end_at=app.links.end(job))


Token = Annotated[str | None, Query(description="Part of the links that the API gives; without it a key is needed.")]


async def asker_of_file(
    request: Request,
    app: Outhaul,
    given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
    token: Token = None,
) -> Caller | None:
    """Who asks with a key; None for who comes by a link."""
    return await caller(Scope.READ)(request, app, given) if token is None else None


@router.get(
    "/exports/{job_id}/files/{part}",
    response_class=Response,
    responses={
        200: {"description": "The file, from a store on this machine.", "content": {"application/octet-stream": {}}},
        206: {"description": "The part of it that `Range` asks for.", "content": {"application/octet-stream": {}}},
        302: {"description": "Where the object store hands it out: signed now, for fifteen minutes."},
        400: {"description": "`Range` cannot be read.", "content": {"text/plain": {}}},
        416: {"description": "`Range` is beyond the file.", "content": {"text/plain": {}}},
        **documented(409, 410, 502),
    },
)
def download_file(
    app: Outhaul,
    asker: Annotated[Caller | None, Depends(asker_of_file)],
    job_id: UUID,
    part: Annotated[int, Path(ge=0, le=MAX_PART, description="Place in the set of files, from 0.")],
    token: Token = None,
) -> Response:
    """Download one file. The link is stable: it is signed anew, or streamed with `Range`, whenever it is opened."""
    if token is not None:
        app.links.check(job_id, part, token)
    download = app.downloads.open(app.exports.get(job_id, asker.tenant_id if asker else None), part)
    if download.path is None:
        assert download.url is not None
        return RedirectResponse(download.url, HTTPStatus.FOUND, headers={"Cache-Control": "private, no-store"})
    return FileResponse(
        download.path,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": download.disposition,
            "Cache-Control": "private, no-store",
            "X-Content-Type-Options": "nosniff",
            "Repr-Digest": f"sha-256=:{_base64(download.file.sha256)}:",  # RFC 9530
        },
    )


def _base64(hexadecimal: str) -> str:
    from base64 import b64encode

    return b64encode(bytes.fromhex(hexadecimal)).decode()
