"""What can be exported."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from api.access import Outhaul, Reader
from api.models import DatasetModel
from api.problems import documented

router = APIRouter(tags=["datasets"])


@router.get("/datasets", responses=documented())
def list_datasets(app: Outhaul, _: Reader) -> list[DatasetModel]:
    """The datasets, with their columns and the filter operators that fit each."""
    return [DatasetModel.model_validate(asdict(dataset)) for dataset in app.datasets.all()]
