"""A store on two independent S3 servers and on a folder, and a proxy that spoils what passes through it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from fault_proxy import FaultProxy
from s3_server import BUCKET, S3Server

from outhaul.store.local import LocalStore
from outhaul.store.s3 import S3Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outhaul.store.files import FileStore

STORES = ("local", "moto", "juicefs")
_numbers = count(1)


@pytest.fixture(params=["moto", "juicefs"])
def server(request) -> S3Server:
    return request.getfixturevalue(request.param)


@pytest.fixture
def prefix() -> str:
    return f"test-{next(_numbers)}-{uuid4().hex[:8]}"


@pytest.fixture
def s3(server, prefix) -> S3Store:
    """A store of its own on each S3 server."""
    return S3Store(server.client(), BUCKET, prefix)


@dataclass(frozen=True)
class Place:
    """Where another process finds the same store."""

    url: str
    environment: dict[str, str]


@pytest.fixture(params=STORES)
def place(request, tmp_path, prefix) -> Place:
    if request.param == "local":
        return Place(f"file://{tmp_path}/files", {})
    return Place(f"s3://{BUCKET}/{prefix}", request.getfixturevalue(request.param).environment)


@pytest.fixture
def store(place, request, tmp_path, prefix) -> FileStore:
    """An empty store of each kind."""
    if place.url.startswith("file:"):
        return LocalStore(tmp_path / "files")
    server = request.getfixturevalue(request.node.callspec.params["place"])
    return S3Store(server.client(), BUCKET, prefix)


@pytest.fixture
def proxy(server) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as running:
        yield running


@pytest.fixture
def spoiled(server, proxy, prefix) -> S3Store:
    """A store whose requests pass through the proxy."""
    return S3Store(server.client(port=proxy.port), BUCKET, prefix)
