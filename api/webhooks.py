"""The addresses that a tenant wants to be told at."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from uuid import UUID

from fastapi import APIRouter

from api.access import Outhaul, Reader, Writer
from api.models import NewWebhook, Rotation, TestResult, WebhookChange, WebhookModel, WebhookWithSecret
from api.problems import documented

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


@router.post("", status_code=HTTPStatus.CREATED, responses=documented(409, 400, 413))
def add_webhook(app: Outhaul, caller: Writer, body: NewWebhook) -> WebhookWithSecret:
    """Add a webhook. What it gets is signed as Standard Webhooks has it, with the secret that this answer shows."""
    endpoint, secret = app.webhooks.add(
        caller.tenant, body.url, events=body.events, description=body.description, actor=caller.actor
    )
    return WebhookWithSecret.with_secret(endpoint, secret)


@router.get("", responses=documented())
def list_webhooks(app: Outhaul, caller: Reader) -> list[WebhookModel]:
    """The tenant's webhooks, oldest first."""
    return [WebhookModel.of(endpoint) for endpoint in app.webhooks.all(caller.tenant)]


@router.get("/{webhook_id}", responses=documented())
def get_webhook(app: Outhaul, caller: Reader, webhook_id: UUID) -> WebhookModel:
    """Look at one webhook."""
    return WebhookModel.of(app.webhooks.get(caller.tenant, webhook_id))


@router.patch("/{webhook_id}", responses=documented(400, 413))
def change_webhook(app: Outhaul, caller: Writer, webhook_id: UUID, body: WebhookChange) -> WebhookModel:
    """Change a webhook; what the body does not name stays."""
    return WebhookModel.of(app.webhooks.set(caller.tenant, webhook_id, **body.model_dump()))


@router.delete("/{webhook_id}", status_code=HTTPStatus.NO_CONTENT, responses=documented())
def remove_webhook(app: Outhaul, caller: Writer, webhook_id: UUID) -> None:
    """Remove a webhook. What is still due to it is not sent."""
    app.webhooks.remove(caller.tenant, webhook_id)


@router.post("/{webhook_id}/rotate", responses=documented(400, 413))
def rotate_secret(app: Outhaul, caller: Writer, webhook_id: UUID, body: Rotation | None = None) -> WebhookWithSecret:
    """Make a new secret. For a while both sign, so that the receiver can change over without a gap."""
    overlap = timedelta(seconds=(body or Rotation()).overlap_seconds)
    return WebhookWithSecret.with_secret(*app.webhooks.rotate(caller.tenant, webhook_id, overlap))


@router.post("/{webhook_id}/test", responses=documented())
def test_webhook(app: Outhaul, caller: Writer, webhook_id: UUID) -> TestResult:
    """Send a signed message of the type `outhaul.test` now, and say what the receiver answered."""
    answer = app.webhooks.test(caller.tenant, webhook_id)
    return TestResult(delivered=answer.verdict == "delivered", answer=answer.status, note=answer.note)
