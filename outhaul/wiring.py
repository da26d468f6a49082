"""From settings to working objects, in one place. Each part is made on first use: a command pays for what it uses."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from outhaul.domain.retry import RetryRule
from outhaul.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine

    from outhaul.data.catalog import Catalog
    from outhaul.notify.guard import Guard
    from outhaul.notify.mail import MailServer
    from outhaul.orchestrator import Orchestrator
    from outhaul.service.access import Access
    from outhaul.service.alerting import Alerting
    from outhaul.service.copying import Copying
    from outhaul.service.datasets import Datasets
    from outhaul.service.deliveries import Deliveries
    from outhaul.service.dispatcher import Dispatcher
    from outhaul.service.downloads import Downloads
    from outhaul.service.estimating import Estimating
    from outhaul.service.exports import Exports
    from outhaul.service.links import Links
    from outhaul.service.pausing import Pausing
    from outhaul.service.sources import Sources
    from outhaul.service.webhooks import Webhooks
    from outhaul.service.worker import Worker
    from outhaul.store.endpoints import EndpointStore
    from outhaul.store.files import FileStore
    from outhaul.store.insights import Insights
    from outhaul.store.jobs import JobStore
    from outhaul.store.pauses import PauseStore
    from outhaul.store.tenants import TenantStore

LINE_FRESH_FOR = timedelta(seconds=1)  # for a server, which many ask why their jobs wait


class App:
    """Outhaul as configured. Use ``outhaul()`` to get one; it is closed at the end of that block."""

    def __init__(self, settings: Settings, resources: ExitStack, *, serves: bool = False) -> None:
        self.settings = settings
        self._resources = resources
        self._serves = serves

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

    @property
    def prefect_ui(self) -> str:
        """Where people look at Prefect."""
        return os.environ.get("PREFECT_API_URL", self.prefect_api_url).removesuffix("/api")

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Admission and sweep."""
        from outhaul.service.dispatcher import Dispatcher

        return Dispatcher(self.jobs, self.orchestrator, self.sources, RetryRule(self.settings.retries))

    @cached_property
    def exports(self) -> Exports:
        """What people do with exports."""
        from outhaul.service.exports import Exports

        return Exports(
            self.jobs,
            self.insights,
            self.tenants,
            lambda: self.catalog,
            self.sources,
            self._admit,
            self.orchestrator,
            max_waiting=self.settings.max_waiting_jobs,
            mail=self.settings.mail_url is not None,
        )

    @cached_property
    def _admit(self) -> Callable[[str], None]:
        from outhaul.service.admitting import AtOnce, InBackground

        if self._serves:
            return self._resources.enter_context(InBackground(self.dispatcher))
        return AtOnce(self.dispatcher)

    @cached_property
    def insights(self) -> Insights:
        """What is asked about jobs."""
        from outhaul.store.insights import Insights

        fresh_for = LINE_FRESH_FOR if self._serves else timedelta()
        return Insights(self.engine, **self._bounds, line_fresh_for=fresh_for)

    @cached_property
    def datasets(self) -> Datasets:
        """What can be exported."""
        from outhaul.service.datasets import Datasets

        return Datasets(lambda: self.catalog)

    @cached_property
    def estimating(self) -> Estimating:
        """What an export would be."""
        from outhaul.service.estimating import Estimating

        return Estimating(
            lambda: self.catalog,
            self.sources,
            self.tenants,
            self.insights,
            timedelta(seconds=self.settings.statement_timeout_seconds),
        )

    @cached_property
    def access(self) -> Access:
        """The keys of the HTTP API."""
        from outhaul.service.access import Access
        from outhaul.store.api_keys import KeyStore

        return Access(KeyStore(self.engine), self.tenants)

    @cached_property
    def endpoints(self) -> EndpointStore:
        """The webhooks' rows."""
        from outhaul.store.endpoints import EndpointStore

        return EndpointStore(self.engine)

    @cached_property
    def webhooks(self) -> Webhooks:
        """What tenants do with webhooks."""
        from outhaul.service.webhooks import Webhooks

        return Webhooks(self.endpoints, self.tenants, self._guard)

    @cached_property
    def deliveries(self) -> Deliveries:
        """The outbox."""
        from outhaul.service.deliveries import Deliveries
        from outhaul.store.deliveries import DeliveryStore

        return Deliveries(
            DeliveryStore(self.engine),
            self.jobs,
            self.endpoints,
            self.insights,
            self.links,
            self._guard,
            self._mail_server,
        )

    @cached_property
    def alerting(self) -> Alerting:
        """Telling operators of trouble."""
        from outhaul.service.alerting import Alerting
        from outhaul.store.alerts import AlertStore

        url = self.settings.alert_url
        return Alerting(
            AlertStore(self.engine),
            self.orchestrator,
            self._guard,
            url.get_secret_value() if url else None,
            self.settings.alert_block,
            self.prefect_ui,
        )

    @cached_property
    def links(self) -> Links:
        """Links to files."""
        from outhaul.service.links import Links
        from outhaul.store.deliveries import DeliveryStore

        secret = cache(lambda: DeliveryStore(self.engine).secret("links"))
        return Links(self.api_url, secret, timedelta(days=self.settings.link_days))

    @cached_property
    def downloads(self) -> Downloads:
        """The files of jobs."""
        from outhaul.service.downloads import Downloads

        return Downloads(self.insights, self.tenants, lambda: self.files, self.links)

    def ready(self) -> None:
        """See whether the queue's database answers with this release's schema. Raises Unavailable."""
        from outhaul.store.migrate import require_current

        require_current(self.database_url)

    @property
    def api_url(self) -> str:
        """Where askers reach the HTTP API."""
        return self.settings.public_url or f"http://127.0.0.1:{self.settings.api_port}"

    @cached_property
    def _mail_server(self) -> MailServer | None:
        from outhaul.notify.mail import read_server

        url = self.settings.mail_url
        return None if url is None else read_server(url.get_secret_value(), self.settings.mail_from)

    @cached_property
    def _guard(self) -> Guard:
        from outhaul.notify.guard import Guard

        return Guard(self.settings.webhook_allow)

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
def outhaul(settings: Settings | None = None, *, serves: bool = False) -> Iterator[App]:
    """Outhaul with the given settings, or those of the environment. Raises Unavailable for a setting that is wrong.

    One that ``serves`` many askers admits in the background: none of them waits for Prefect.
    """
    with ExitStack() as resources:
        yield App(settings or load_settings(), resources, serves=serves)
