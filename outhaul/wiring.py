"""From settings to working objects, in one place. Each part is made on first use: a command pays for what it uses."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from outhaul.domain.retry import RetryRule
from outhaul.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine

    from outhaul.data.catalog import Catalog
    from outhaul.orchestrator import Orchestrator
    from outhaul.service.copying import Copying
    from outhaul.service.dispatcher import Dispatcher
    from outhaul.service.exports import Exports
    from outhaul.service.pausing import Pausing
    from outhaul.service.sources import Sources
    from outhaul.service.worker import Worker
    from outhaul.store.files import FileStore
    from outhaul.store.jobs import JobStore
    from outhaul.store.pauses import PauseStore
    from outhaul.store.tenants import TenantStore


class App:
    """Outhaul as configured. Use ``outhaul()`` to get one; it is closed at the end of that block."""

    def __init__(self, settings: Settings, resources: ExitStack) -> None:
        self.settings = settings
        self._resources = resources

    @cached_property
    def database_url(self) -> str:
        """URL of the queue's database; starts the embedded server if that is meant and it is down."""
        return self.settings.outside_database or self._embedded("outhaul")

    @cached_property
    def source_url(self) -> str:
        """URL of the database that datasets are read from."""
        return self.settings.outside_source or self._embedded("demo")

    @cached_property
    def engine(self) -> Engine:
        """The control pool."""
        from outhaul.store.database import connect

        engine = connect(self.database_url)
        self._resources.callback(engine.dispose)
        return engine

    @cached_property
    def jobs(self) -> JobStore:
        """The jobs' rows."""
        from outhaul.store.jobs import JobStore

        return JobStore(self.engine, **self._bounds)

    @cached_property
    def pauses(self) -> PauseStore:
        """What is held back."""
        from outhaul.store.pauses import PauseStore

        return PauseStore(self.engine)

    @cached_property
    def sources(self) -> Sources:
        """The databases that datasets are read from."""
        from outhaul.service.sources import Sources

        return Sources(lambda: self.source_url, self.settings.named_sources, lambda: self.pauses)

    @cached_property
    def pausing(self) -> Pausing:
        """Holding things back, and letting them go."""
        from outhaul.service.pausing import Pausing

        return Pausing(self.pauses, self.tenants, lambda: self.catalog, self.sources, self.dispatcher)

    @cached_property
    def tenants(self) -> TenantStore:
        """The tenants' rows."""
        from outhaul.store.tenants import TenantStore

        return TenantStore(self.engine)

    @cached_property
    def catalog(self) -> Catalog:
        """The datasets."""
        from outhaul.data.catalog import load_catalog

        return load_catalog(self.settings.catalog)

    @cached_property
    def store_url(self) -> str:
        """Where files go."""
        return self.settings.store_url or f"file://{self.settings.home.resolve() / 'files'}"

    @cached_property
    def files(self) -> FileStore:
        """The object store."""
        from outhaul.store.files import open_store

        return open_store(self.store_url, self._s3_client)

    @cached_property
    def orchestrator(self) -> Orchestrator:
        """Prefect."""
        from outhaul.orchestrator import Orchestrator

        # Prefect reads its settings from the environment when it is first imported.
        os.environ.setdefault("PREFECT_API_URL", self.prefect_api_url)
        return Orchestrator()

    @property
    def prefect_api_url(self) -> str:
        """The embedded Prefect server; PREFECT_API_URL in the environment goes before it."""
        return f"http://127.0.0.1:{self.settings.prefect_port}/api"

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Admission and sweep."""
        from outhaul.service.dispatcher import Dispatcher

        return Dispatcher(self.jobs, self.orchestrator, self.sources, RetryRule(self.settings.retries))

    @cached_property
    def exports(self) -> Exports:
        """What people do with exports."""
        from outhaul.service.exports import Exports
        from outhaul.store.insights import Insights

        return Exports(
            self.jobs,
            Insights(self.engine, **self._bounds),
            self.tenants,
            lambda: self.catalog,
            self.sources,
            self.dispatcher,
            self.orchestrator,
        )

    @cached_property
    def worker(self) -> Worker:
        """What a worker does."""
        from outhaul.service.worker import Worker

        return Worker(
            self.jobs,
            lambda: self.catalog,
            lambda: self.files,
            self.dispatcher,
            self.sources,
            lease=timedelta(seconds=self.settings.lease_seconds),
            heartbeat=timedelta(seconds=self.settings.heartbeat_seconds),
            statement_timeout=timedelta(seconds=self.settings.statement_timeout_seconds),
            hide_values=self.settings.hide_values,
        )

    @cached_property
    def copying(self) -> Copying:
        """The data path alone."""
        from outhaul.service.copying import Copying

        return Copying(
            self.sources,
            timedelta(seconds=self.settings.statement_timeout_seconds),
            self.settings.hide_values,
            self._s3_client,
        )

    @property
    def _bounds(self) -> dict[str, int]:
        return {"max_active": self.settings.max_active_jobs, "max_per_source": self.settings.source_max_jobs}

    @property
    def _s3_client(self) -> Callable[[], Any] | None:
        block = self.settings.store_credentials_block
        if block is None:
            return None

        def client() -> Any:
            from outhaul.store.s3_client import make_client

            return make_client(*self.orchestrator.store_login(block))

        return client

    def _embedded(self, database: str) -> str:
        from outhaul.stack.postgres import EmbeddedPostgres

        server = EmbeddedPostgres(self.settings.home)
        return self._resources.enter_context(server.running(database))


@contextmanager
def outhaul(settings: Settings | None = None) -> Iterator[App]:
    """Outhaul with the given settings, or those of the environment. Raises Unavailable for a setting that is wrong."""
    with ExitStack() as resources:
        yield App(settings or load_settings(), resources)
