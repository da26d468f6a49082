"""The API as a server in a thread, on a real database, a folder and a Prefect without a clock."""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from fake_prefect import FakePrefect

from api.app import create_app
from outhaul.domain.job import StoredFile
from outhaul.settings import Settings
from outhaul.wiring import outhaul

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outhaul.domain.job import Job
    from outhaul.wiring import App

TENANTS = ("UA", "DL")


@pytest.fixture
def settings() -> dict[str, object]:
    """A test's own settings."""
    return {}


@pytest.fixture
def oh(database_url: str, source_url: str, tmp_path, settings, monkeypatch) -> Iterator[App]:
    """Outhaul with two tenants, and no Prefect server."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    made = Settings(
        database_url=database_url,
        source_url=source_url,
        home=tmp_path,
        store_url=f"file://{tmp_path}/files",
        requests_per_minute=10_000,
        webhook_allow=("127.0.0.1/32",),
        **settings,
    )
    with outhaul(made, serves=True) as app:
        app.__dict__["orchestrator"] = FakePrefect()
        for name in TENANTS:
            app.tenants.add(name, "free", 2)
        yield app


@pytest.fixture
def url(oh: App) -> Iterator[str]:
    """Where the API answers."""

    @contextmanager
    def opened() -> Iterator[App]:
        yield oh

    server = uvicorn.Server(uvicorn.Config(create_app(opened), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def client(oh: App, url: str):
    """Makes a client with a key of its own, of a tenant or, with None, of an admin."""
    clients = []

    def make(tenant: str | None = "UA", scopes=("read", "write"), **headers: str) -> httpx.Client:
        _, key = oh.access.create(tenant, f"{tenant}'s", scopes if tenant else ["admin"], actor="test")
        clients.append(
            httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}", **headers}, trust_env=False)
        )
        return clients[-1]

    yield make
    for one in clients:
        one.close()


@pytest.fixture
def ask_claimed(oh: App):
    """Stores a tenant's request and takes it up, as a worker does."""

    def claimed(tenant: str = "UA", **raw) -> Job:
        job, _ = oh.exports.request({"dataset": "flights", **raw}, tenant=tenant, requested_by="test")
        while (job := oh.jobs.get(job.id)).prefect_flow_run_id is None:
            oh.dispatcher.dispatch(actor="test")  # or the server's own thread does
        run = job.prefect_flow_run_id
        job = oh.jobs.claim(job.id, job.generation, owner="run/1", flow_run_id=run, lease=timedelta(minutes=5))
        assert job is not None
        return job

    return claimed


@pytest.fixture
def done(oh: App, ask_claimed):
    """Carries out a tenant's request without Prefect: the job is completed with one file of these bytes."""

    def done(tenant: str = "UA", content: bytes = b"a,b\n1,2\n", name: str = "flights-00000.csv", **raw) -> Job:
        job = ask_claimed(tenant, **raw)
        key = f"{tenant}/{job.id}/1-1/{name}"
        upload = oh.files.open_upload(key, "text/csv")
        upload.write(content)
        upload.complete()
        file = StoredFile(0, key, 1, len(content), hashlib.sha256(content).hexdigest())
        assert oh.jobs.complete(job, [file], manifest_key=f"{tenant}/{job.id}/1-1/manifest.json", actor="worker")
        return oh.jobs.get(job.id)

    return done
