from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outhaul.domain.request import parse_request
from outhaul.service.sources import Sources
from outhaul.store.database import connect
from outhaul.store.insights import Insights
from outhaul.store.jobs import JobStore
from outhaul.store.pauses import PauseStore
from outhaul.store.tenants import TenantStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine


BOUNDS = {"max_active": 100, "max_per_source": 100}


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def jobs(engine: Engine) -> JobStore:
    return JobStore(engine, **BOUNDS)


@pytest.fixture
def insights(engine: Engine) -> Insights:
    return Insights(engine, **BOUNDS)


@pytest.fixture
def tenants(engine: Engine) -> TenantStore:
    return TenantStore(engine)


@pytest.fixture
def pauses(engine: Engine) -> PauseStore:
    return PauseStore(engine)


@pytest.fixture
def sources(pauses: PauseStore, source_url: str) -> Sources:
    return Sources(lambda: source_url, {}, lambda: pauses)


@pytest.fixture
def ask(jobs: JobStore, tenants: TenantStore):
    """Store a request of a tenant, made on first use, and return the job's id."""
    known = {}

    def ask(tenant: str = "UA", source: str = "default", **raw: object):
        if tenant not in known:
            known[tenant] = tenants.add(tenant, "free", 2).id
        request = parse_request({"dataset": "flights", **raw})
        job_id, _ = jobs.add(known[tenant], request, requested_by="test", source=source)
        return job_id

    return ask
