"""An export in one call, into memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
import pytest

from outhaul.data.catalog import Dataset, Select, Table, ad_hoc
from outhaul.data.export import Export
from outhaul.data.readers import Attempt
from outhaul.domain.job import Format
from outhaul.domain.request import ExportRequest, parse_options, parse_query

if TYPE_CHECKING:
    from outhaul.domain.files import Produced


class MemoryUpload:
    def __init__(self, store: MemoryStore, name: str) -> None:
        self.store, self.name, self.data, self.ended = store, name, bytearray(), ""

    def write(self, data) -> int:
        if self.store.fail_after is not None and len(self.data) + len(data) > self.store.fail_after:
            raise self.store.error
        self.data += data
        return len(data)

    def finish(self) -> None:
        self.store.finished.append(self.name)

    def complete(self) -> None:
        self.ended = "complete"
        self.store.files[self.name] = bytes(self.data)

    def abort(self) -> None:
        self.ended = "aborted"
        self.store.files.pop(self.name, None)


@dataclass
class MemoryStore:
    files: dict[str, bytes] = field(default_factory=dict)
    uploads: list[MemoryUpload] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    fail_after: int | None = None
    error: BaseException | None = None

    def open_upload(self, name: str, content_type: str) -> MemoryUpload:
        self.uploads.append(MemoryUpload(self, name))
        return self.uploads[-1]


@dataclass
class Result:
    produced: Produced
    store: MemoryStore

    @property
    def data(self) -> bytes:
        return self.store.files[self.produced.files[0].s3_key]


@dataclass
class Exporter:
    url: str

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def copy(self, select: str) -> bytes:
        """What PostgreSQL's own COPY prints."""
        with psycopg.connect(self.url) as connection:
            connection.execute("SET timezone TO 'UTC'")
            with connection.cursor().copy(f"COPY ({select}) TO STDOUT (FORMAT csv, HEADER)") as copy:
                return b"".join(bytes(chunk) for chunk in copy)

    def prepare(
        self, source, format_="csv", query=None, options=None, tenant=None, store=None, contract=None, **more
    ) -> Export:
        if isinstance(source, str):
            source = ad_hoc(source)
        if contract is not None:
            source = Dataset("d", source.source, contract, shared=True)
        request = ExportRequest(
            dataset=source.name,
            query=parse_query(query or {}),
            format=Format(format_),
            options=parse_options(Format(format_), options or {}),
        )
        store = MemoryStore() if store is None else store
        return Export(
            self.url,
            source,
            request,
            tenant=tenant,
            attempt=Attempt("7e57", 1, 1),
            open_upload=store.open_upload,
            **more,
        )

    def __call__(self, source, format_="csv", query=None, *, store=None, progress=None, stop=None, **more) -> Result:
        store = MemoryStore() if store is None else store
        export = self.prepare(source, format_, query, store=store, **more)
        hooks = {name: hook for name, hook in (("progress", progress), ("stop", stop)) if hook}
        return Result(export.run(**hooks), store)


@pytest.fixture
def export(source_url: str) -> Exporter:
    return Exporter(source_url)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


__all__ = ["Select", "Table"]
