"""Whether this process lives, and whether it can do its work. Needs no key."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from api.access import Outhaul
from api.problems import problem_answer

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """It does."""

    status: str = "ok"


@router.get("/healthz")
def healthz() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/readyz", responses={503: problem_answer(503)})
def readyz(app: Outhaul) -> Health:
    """Whether the queue's database answers and has this release's schema. Prefect may be down: exports are stored."""
    app.ready()
    return Health()
