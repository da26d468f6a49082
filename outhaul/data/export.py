"""One attempt at an export: plan, read, hold to the contract, write, and only then let the files appear."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outhaul.data import scan
from outhaul.data.contract import Enforcer, violation
from outhaul.data.query import check_request
from outhaul.data.session import Limits, Session
from outhaul.data.sink import Sink
from outhaul.data.typed import Tally, checkable
from outhaul.data.writers import file_kind, open_writer
from outhaul.domain.files import Produced
from outhaul.domain.job import StoredFile
from outhaul.domain.options import ParquetOptions
from outhaul.errors import ContractViolation, CountMismatch, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

    from outhaul.data.catalog import Dataset
    from outhaul.domain.files import OpenUpload, Upload
    from outhaul.domain.request import ExportRequest

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who produces: the job's id, and its fencing numbers."""

    job: str
    attempt: int = 1
    generation: int = 1


class Export:
    """One attempt at an export.

    Args:
        url: libpq URI of the source database.
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
        self._session = Session(url, name=f"outhaul:{attempt.job}:{attempt.attempt}", limits=limits or Limits())
        self._ran = threading.Event()

    def cancel(self) -> None:
        """Cut short whatever the source is doing. Another thread may call it; ``run`` then asks ``stop`` why."""
        self._session.cancel()

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
        uploads: list[Upload] = []
        try:
            return self._produce(uploads, progress, stop)
        except BaseException as error:
            for upload in uploads:
                upload.abort()
            if isinstance(error, SourceError):
                stop()  # a query that was cut short on purpose has a better reason than its SQLSTATE
            raise

    def _produce(
        self, uploads: list[Upload], progress: Callable[[int, int | None], None], stop: Callable[[], None]
    ) -> Produced:
        options = self._request.options
        tally = Tally(options.unrepresentable if isinstance(options, ParquetOptions) else "fail")
        extension, content_type = file_kind(options)
        name = f"{self._dataset.name}-00000.{extension}"
        rows = 0
        stop()
        with self._session as session:
            snapshot_time = session.now()
            plan = scan.plan(
                session,
                self._dataset,
                self._request.query,
                self._request.format,
                self._tenant,
                as_text=tally.policy == "text",
            )
            session.set(plan.compiled.settings)
            estimate = session.estimate(plan.compiled.sql)
            progress(0, estimate)
            hold = self._promise(plan)
            upload = self._open_upload(name, content_type)
            uploads.append(upload)
            sink = Sink(upload)
            writer = open_writer(sink, plan.columns, options, self._metadata(snapshot_time), tally)
            with closing(scan.frames(session, plan)) as frames:
                for frame in frames:
                    stop()
                    hold(frame)
                    writer.write(frame)
                    rows += len(frame)
                    progress(rows, estimate)
        writer.close()
        if writer.rows != rows:
            raise CountMismatch(f"{rows} rows were read, but {writer.rows} written.")
        file = StoredFile(0, self._prefix + name, writer.rows, sink.byte_count, sink.sha256)
        manifest = self._manifest(plan, [file], snapshot_time, tally)
        stop()
        for each in uploads:
            each.complete()
        if self._with_manifest:
            self._write_manifest(manifest, uploads)
        return Produced(
            (file,),
            manifest,
            self._prefix + MANIFEST,
            rows,
            file.byte_count,
            snapshot_time,
            dict(tally.replaced),
            plan.notes,
        )

    def _promise(self, plan: scan.Plan) -> Callable[[pl.DataFrame], None]:
        """What holds each frame to the contract."""
        promised = self._dataset.rules.columns
        filled = [column for column in plan.columns if not column.nullable]
        checked = [column for column in plan.columns if column.name in promised and promised[column.name].checks]
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

    def _manifest(
        self, plan: scan.Plan, files: list[StoredFile], snapshot_time: datetime, tally: Tally
    ) -> dict[str, Any]:
        return {
            "version": 1,
            "job": self._attempt.job,
            "attempt": self._attempt.attempt,
            "generation": self._attempt.generation,
            "dataset": self._dataset.name,
            "tenant": self._tenant,
            "format": self._request.format.value,
            "options": self._request.options.model_dump(mode="json"),
            "query": self._request.query.model_dump(mode="json", exclude_defaults=True),
            "snapshot_time": snapshot_time.isoformat(),
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
                for column in plan.columns
            ],
            "unrepresentable": {"policy": tally.policy, "replaced": dict(tally.replaced)},
            "notes": list(plan.notes),
        }

    def _write_manifest(self, manifest: dict[str, Any], uploads: list[Upload]) -> None:
        upload = self._open_upload(MANIFEST, "application/json")
        uploads.append(upload)
        upload.write(json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n")
        upload.complete()
