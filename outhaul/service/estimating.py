"""What an export would be, before anyone asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from outhaul.domain.request import parse_request
from outhaul.errors import SourceError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from outhaul.data.catalog import Catalog
    from outhaul.service.sources import Sources
    from outhaul.store.insights import Insights
    from outhaul.store.tenants import TenantStore

PATIENCE = timedelta(seconds=10)  # an asker waits for the answer


@dataclass(frozen=True, slots=True)
class Estimate:
    """What can be told in advance; None where nobody can.

    Attributes:
        rows: about how many, by the source's planner.
        bytes: of the files, by the newest exports of the same dataset and format.
        seconds: from its start to its end, by the same.
        statement_timeout: the longest that its query may run.
        max_concurrent_jobs: how many of the tenant's jobs may be under way at once.
        under_way: how many are now.
        waiting: how many wait in line.
    """

    rows: int | None
    bytes: int | None
    seconds: float | None
    statement_timeout: timedelta
    max_concurrent_jobs: int
    under_way: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Estimating:
    """Answers what an export would be. It asks the source's planner and reads no rows."""

    catalog: Callable[[], Catalog]
    sources: Sources
    tenants: TenantStore
    insights: Insights
    statement_timeout: timedelta

    def estimate(self, raw: Mapping[str, Any], *, tenant: str) -> Estimate:
        """Estimate a request as ``Exports.request`` takes it.

        Raises:
            InvalidRequest: it can never be carried out.
            ContractViolation: the source no longer keeps the dataset's contract.
            Unavailable: the source, or the queue's database, does not answer.
        """
        from outhaul.data.export import expected_rows
        from outhaul.data.query import check_request
        from outhaul.data.session import Limits

        request = parse_request(dict(raw))
        dataset = self.catalog().get(request.dataset)
        check_request(dataset, request)
        owner = self.tenants.get(tenant)
        try:
            rows = expected_rows(
                self.sources.url_of(dataset),
                dataset,
                request,
                tenant=None if dataset.shared else tenant,
                limits=Limits(statement_timeout=PATIENCE),
            )
        except SourceError as error:
            raise Unavailable(f"the source cannot tell now: {error.message}", detail=error.detail) from error
        row_bytes, row_seconds = self.insights.usual(request.dataset, request.format)
        under_way, waiting = self.insights.load(owner.id)
        return Estimate(
            rows,
            None if rows is None or row_bytes is None else round(rows * row_bytes),
            None if rows is None or row_seconds is None else round(rows * row_seconds, 1),
            dataset.statement_timeout or self.statement_timeout,
            owner.max_concurrent_jobs,
            under_way,
            waiting,
        )
