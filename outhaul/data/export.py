"""One attempt at an export: plan, read, hold to the contract, write, and only then let the files appear."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outhaul.data.catalog import Lake
from outhaul.data.contract import Enforcer, violation
from outhaul.data.csv_writer import guarded
from outhaul.data.lake import LakeReader
from outhaul.data.parts import Parts
from outhaul.data.query import check_options, check_request
from outhaul.data.reader import PostgresReader
from outhaul.data.readers import Attempt
from outhaul.data.session import Limits
from outhaul.data.typed import Tally, checkable
from outhaul.domain.files import Produced
from outhaul.domain.options import CsvOptions, ParquetOptions
from outhaul.errors import ContractViolation, CountMismatch, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

    from outhaul.data.catalog import Dataset
    from outhaul.data.reader import Reader, Reading
    from outhaul.domain.files import OpenUpload, Upload
    from outhaul.domain.job import StoredFile
    from outhaul.domain.request import ExportRequest

MANIFEST = "manifest.json"


def choose_reader(
    url: str,
    dataset: Dataset,
    request: ExportRequest,
    *,
    tenant: str | None,
    as_text: bool,
    attempt: Attempt,
    limits: Limits,
) -> Reader:
    """What reads the dataset's kind of source."""
    if isinstance(dataset.source, Lake):
        return LakeReader(dataset, dataset.source, request, tenant=tenant, as_text=as_text)
    return PostgresReader(url, dataset, request, tenant=tenant, as_text=as_text, attempt=attempt, limits=limits)


def expected_rows(
    url: str, dataset: Dataset, request: ExportRequest, *, tenant: str | None, limits: Limits
) -> int | None:
    """About how many rows the source's planner, or a lake's footers, promise; None when nobody can tell.

    Raises:
        ContractViolation: the source breaks the contract.
        SourceError: the source refused or broke off.
    """
    attempt = Attempt("estimate")
    with choose_reader(url, dataset, request, tenant=tenant, as_text=False, attempt=attempt, limits=limits) as reading:
        return reading.expected


class Export:
    """One attempt at an export.

    Args:
        url: libpq URI of the source database; a lake needs none.
        dataset: what to read from.
        request: which rows and columns, in which format.
        tenant: the asking tenant's value of the dataset's tenant column; None for a shared dataset.
        attempt: goes into the session's name and the manifest.
        open_upload: how the store starts a file.
        prefix: what the store puts before the names it is given, for the keys in the manifest.
        limits: how long the source may be kept busy.
        hide_values: leave examples out of contract errors.
        with_manifest: write ``manifest.json`` beside the files.
    """

    def __init__(
        self,
        url: str,
        dataset: Dataset,
        request: ExportRequest,
        *,
        tenant: str | None,
        attempt: Attempt,
        open_upload: OpenUpload,
        prefix: str = "",
        limits: Limits | None = None,
        hide_values: bool = False,
        with_manifest: bool = True,
    ) -> None:
        if dataset.columns:
            check_request(dataset, request)
        self._dataset = dataset
        self._request = request
        self._tenant = tenant
        self._attempt = attempt
        self._open_upload = open_upload
        self._prefix = prefix
        self._hide_values = hide_values
        self._with_manifest = with_manifest
        options = request.options
        self._tally = Tally(options.unrepresentable if isinstance(options, ParquetOptions) else "fail")
        self._reader = choose_reader(
            url,
            dataset,
            request,
            tenant=tenant,
            as_text=self._tally.policy == "text",
            attempt=attempt,
            limits=limits or Limits(),
        )
        self._parts: Parts | None = None
        self._manifest_upload: Upload | None = None
        self._ran = threading.Event()

    def cancel(self) -> None:
        """Cut short whatever the source is doing. Another thread may call it; ``run`` then asks ``stop`` why."""
        self._reader.cancel()

    def run(
        self,
        *,
        progress: Callable[[int, int | None], None] = lambda _rows, _expected: None,
        stop: Callable[[], None] = lambda: None,
    ) -> Produced:
        """Produce the files and their manifest, whole or not at all. May be called once.

        Args:
            progress: called with the rows done, and about how many there will be if known, at the start and after
                each batch.
            stop: called before each batch and before the files appear; it raises to end the work.

        Raises:
            ContractViolation: source or rows break the contract.
            UnrepresentableValue: the format cannot hold a value and the policy is to fail.
            SourceError: the source refused or broke off.
            StoreError: the store refused or broke off.
            CountMismatch: rows went missing on the way; a fault of this program.
        """
        if self._ran.is_set():
            raise RuntimeError("an Export runs once")
        self._ran.set()
        try:
            return self._produce(progress, stop)
        except BaseException as error:
            if self._parts:
                self._parts.abort()
            if self._manifest_upload:
                self._manifest_upload.abort()
            if isinstance(error, SourceError):
                stop()  # a query that was cut short on purpose has a better reason than its SQLSTATE
            raise

    def _produce(self, progress: Callable[[int, int | None], None], stop: Callable[[], None]) -> Produced:
        rows = 0
        stop()
        with self._reader as reading:
            check_options([column.name for column in reading.columns], self._request.options)
            progress(0, reading.expected)
            hold = self._promise(reading)
            self._parts = Parts(
                self._open_upload,
                self._dataset.name,
                columns=reading.columns,
                options=self._request.options,
                metadata=self._metadata(reading.snapshot_time),
                tally=self._tally,
            )
            with closing(reading.frames()) as frames:
                for frame in frames:
                    stop()
                    hold(frame)
                    self._parts.write(frame)
                    rows += len(frame)
                    progress(rows, reading.expected)
        files = [replace(file, s3_key=self._prefix + file.s3_key) for file in self._parts.close()]
        if (written := sum(file.row_count for file in files)) != rows:
            raise CountMismatch(f"{rows} rows were read, but {written} written.")
        manifest = self._manifest(reading, files)
        stop()
        self._parts.complete()
        if self._with_manifest:
            self._write_manifest(manifest)
        return Produced(
            tuple(files),
            manifest,
            self._prefix + MANIFEST,
            rows,
            sum(file.byte_count for file in files),
            reading.snapshot_time,
            dict(self._tally.replaced),
            reading.notes,
        )

    def _promise(self, reading: Reading) -> Callable[[pl.DataFrame], None]:
        """What holds each frame to the contract."""
        promised = self._dataset.rules.columns
        filled = [column for column in reading.columns if not column.nullable]
        checked = [column for column in reading.columns if column.name in promised and promised[column.name].checks]
        enforcer = None
        if checked:
            enforcer = Enforcer([promised[column.name] for column in checked], hide_values=self._hide_values)
        rows = 0

        def hold(frame: pl.DataFrame) -> None:
            nonlocal rows
            rows += len(frame)
            for column in filled:
                missing = frame[column.wire]
                nulls = missing.null_count()
                if nulls and column.aside:
                    nulls = int((missing.is_null() & frame[column.aside].is_null()).sum())
                if nulls:
                    raise ContractViolation(violation(column.name, "not NULL", nulls, rows))
            if enforcer:
                enforcer.check(frame.select(checkable(column, frame) for column in checked))

        return hold

    def _metadata(self, snapshot_time: datetime) -> dict[str, str]:
        return {
            "outhaul.dataset": self._dataset.name,
            "outhaul.job": self._attempt.job,
            "outhaul.snapshot_time": snapshot_time.isoformat(),
            "outhaul.request": self._request.query.model_dump_json(exclude_defaults=True),
        }

    def _manifest(self, reading: Reading, files: list[StoredFile]) -> dict[str, Any]:
        options = self._request.options
        return {
            "version": 1,
            "job": self._attempt.job,
            "attempt": self._attempt.attempt,
            "generation": self._attempt.generation,
            "dataset": self._dataset.name,
            "tenant": self._tenant,
            "format": self._request.format.value,
            "options": options.model_dump(mode="json"),
            "query": self._request.query.model_dump(mode="json", exclude_defaults=True),
            "snapshot_time": reading.snapshot_time.isoformat(),
            "rows": sum(file.row_count for file in files),
            "files": [
                {"key": file.s3_key, "rows": file.row_count, "bytes": file.byte_count, "sha256": file.sha256}
                for file in files
            ],
            "schema": [
                {
                    "name": column.name,
                    "source_type": column.live.pg,
                    "type": str(column.dtype),
                    "nullable": column.nullable,
                    "description": column.description,
                }
                for column in reading.columns
            ],
            "unrepresentable": {"policy": self._tally.policy, "replaced": dict(self._tally.replaced)},
            "guarded": guarded(reading.columns, options) if isinstance(options, CsvOptions) else [],
            "notes": list(reading.notes),
        }

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        self._manifest_upload = self._open_upload(MANIFEST, "application/json")
        self._manifest_upload.write(json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n")
        self._manifest_upload.complete()
