"""Sending what the outbox holds, and looking at what became of it.

A receiver may be slow, dead or full of errors for a day: jobs never wait for it, and it gets its notice in the end.
Each notice is sent at least once; a receiver knows a second copy by its id.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from outhaul.domain.job import Status
from outhaul.domain.notices import Notice, Outcome, next_try
from outhaul.errors import InvalidRequest, NotFound
from outhaul.notify import mail, webhook
from outhaul.notify.answer import Answer, Verdict
from outhaul.notify.letter import Letter

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from outhaul.domain.job import Job
    from outhaul.domain.notices import Delivery, Message, Try
    from outhaul.notify.guard import Guard
    from outhaul.notify.mail import MailServer
    from outhaul.service.links import Links
    from outhaul.store.deliveries import DeliveryStore
    from outhaul.store.endpoints import EndpointStore
    from outhaul.store.insights import Insights
    from outhaul.store.jobs import JobStore

BATCH = 40
PER_ADDRESSEE = 4  # of a batch: one that lets every try run into its timeout must not keep the others waiting
THREADS = 8
HOLD = timedelta(minutes=5)  # longer than a batch can take: until then nobody else sends what was taken
MAX_FILES = 100  # that a notice lists; the rest is behind its link
STATUSES = {
    Notice.COMPLETED: Status.COMPLETED,
    Notice.FAILED: Status.FAILED,
    Notice.DEAD: Status.DEAD,
    Notice.CANCELLED: Status.CANCELLED,
}
OUTCOMES = {Verdict.DELIVERED: Outcome.DELIVERED, Verdict.RETRY: Outcome.RETRY}  # any other: nothing comes of another


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Sends notices by webhook and e-mail. Methods raise Unavailable when the database does not answer."""

    store: DeliveryStore
    jobs: JobStore
    endpoints: EndpointStore
    insights: Insights
    links: Links
    guard: Guard
    mail_server: MailServer | None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def deliver(self, *, job_id: UUID | None = None) -> Counter[Outcome]:
        """Send one batch of what is due; returns what became of it. Empty: nothing was due.

        Of a single job it is a small batch, all at once: whoever has just finished the job is kept for one timeout at
        most.
        """
        messages = self.store.take(THREADS if job_id else BATCH, PER_ADDRESSEE, HOLD, job_id)
        if not messages:
            return Counter()
        with ThreadPoolExecutor(min(THREADS, len(messages))) as threads:
            return Counter(outcome for outcome in threads.map(self._try, messages) if outcome)

    def of_job(self, job: Job) -> list[Delivery]:
        """The job's notices, newest first."""
        return self.store.all(job_id=job.id)

    def tries(self, delivery: Delivery) -> list[Try]:
        """The log of one notice, oldest first."""
        return self.store.tries(delivery.id)

    def resend(self, job: Job, delivery_id: UUID, *, actor: str) -> None:
        """Make a notice of the job due again, with another day of tries. Raises NotFound."""
        detail = {"delivery": str(delivery_id)}
        if not self.jobs.note("delivery_resend", "resend", actor, detail, job_id=job.id, delivery_id=delivery_id):
            raise NotFound(f"job {job.short_id} has no delivery {delivery_id}")

    def body(self, message: Message) -> bytes:
        """The JSON of a webhook's notice; the same at every try, for its signature covers these bytes."""
        job = message.job
        data: dict[str, Any] = {
            "id": str(job.id),
            "tenant": job.tenant,
            "dataset": job.dataset,
            "format": str(job.format),
            "requested_by": job.requested_by,
            "created_at": job.created_at.isoformat(),
            "url": self.links.of_job(job),
            **message.said,
        }
        if message.delivery.notice is Notice.COMPLETED and job.finished_at is not None:
            files = self.insights.files(job.id)
            data["files"] = [
                {
                    "part": file.part,
                    "rows": file.row_count,
                    "bytes": file.byte_count,
                    "sha256": file.sha256,
                    "url": self.links.of_file(job, file.part),
                }
                for file in files[:MAX_FILES]
            ]
            data["file_count"] = len(files)
            data["links_end_at"] = self.links.end(job).isoformat()
        document = {"type": str(message.delivery.notice), "timestamp": message.at.isoformat(), "data": data}
        return json.dumps(document, ensure_ascii=False).encode()

    def letter(self, message: Message) -> Letter:
        """What the e-mail of a notice says."""
        job, done = message.job, message.delivery.notice is Notice.COMPLETED
        files = self.insights.files(job.id)[:MAX_FILES] if done else []
        return Letter(
            status=STATUSES[message.delivery.notice],
            job=job.short_id,
            name=job.dataset,
            dataset=job.dataset,
            rows=message.said.get("rows"),
            size=message.said.get("bytes"),
            links=[self.links.of_file(job, file.part) for file in files],
            expires=self.links.end(job) if files else None,
            error=message.said.get("message", ""),
        )

    def _try(self, message: Message) -> Outcome | None:
        answer = self._send(message)
        delivery = message.delivery
        outcome = OUTCOMES.get(answer.verdict, Outcome.DEAD)
        delay = next_try(delivery.tries, asked=answer.retry_after)
        if outcome is Outcome.RETRY and delay is None:
            outcome = Outcome.DEAD
        if answer.verdict is Verdict.GONE and delivery.endpoint_id:
            self.endpoints.disable(delivery.endpoint_id, answer.note)
        return self.store.record(
            delivery, outcome, answer=answer.status, note=answer.note, detail=answer.detail, delay=delay
        )

    def _send(self, message: Message) -> Answer:
        if message.closed:
            return Answer(Verdict.REFUSED, message.closed)
        if message.url:
            return webhook.send(
                message.url,
                message_id=f"msg_{message.delivery.id.hex}",
                at=self.now(),
                body=self.body(message),
                secrets=message.secrets,
                guard=self.guard,
                headers={},
            )
        return self._mail(message)

    def _mail(self, message: Message) -> Answer:
        if self.mail_server is None:
            return Answer(Verdict.RETRY, "no e-mail can be sent: OUTHAUL_MAIL_URL is not set")
        try:
            mailed = mail.compose(
                self.letter(message),
                server=self.mail_server,
                recipient=message.delivery.recipient or "",
                message_id=f"msg_{message.delivery.id.hex}",
                at=self.now(),
            )
        except InvalidRequest as error:
            return Answer(Verdict.REFUSED, error.message)
        return mail.send(self.mail_server, [mailed])[0]
