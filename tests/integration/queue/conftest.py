from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outhaul.domain.request import parse_request
from outhaul.store.database import connect
from outhaul.store.insights import Insights
from outhaul.store.jobs import JobStore
from outhaul.store.tenants import TenantStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def jobs(engine: Engine) -> JobStore:
    return JobStore(engine)


@pytest.fixture
def insights(engine: Engine) -> Insights:
    return Insights(engine)


@pytest.fixture
def tenants(engine: Engine) -> TenantStore:
    return TenantStore(engine)


@pytest.fixture
def ask(jobs: JobStore, tenants: TenantStore):
    """Store a request of a tenant, made on first use, and return the job's id."""
    known = {}

    def ask(tenant: str = "UA", **raw: object):
        if tenant not in known:
            known[tenant] = tenants.add(tenant, "free", 2).id
        request = parse_request({"dataset": "flights", **raw})
        job_id, _ = jobs.add(known[tenant], request, requested_by="test")
        return job_id

    return ask
