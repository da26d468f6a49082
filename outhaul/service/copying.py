"""The data path alone, without queue or Prefect: for trying a dataset, for benchmarks and for operators."""

from __future__ import annotations

import itertools
import resource
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outhaul.data.catalog import ad_hoc
from outhaul.data.export import Export
from outhaul.data.readers import Attempt
from outhaul.data.session import Limits
from outhaul.domain.job import DEFAULT_SOURCE, Format
from outhaul.domain.request import parse_request
from outhaul.errors import Interrupted, InvalidRequest, unknown
from outhaul.store.files import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta

    from outhaul.data.catalog import Catalog
    from outhaul.service.sources import Sources

ENDINGS = {
    "csv": Format.CSV,
    "json": Format.JSON,
    "jsonl": Format.JSON,
    "ndjson": Format.JSON,
    "parquet": Format.PARQUET,
}
COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """One file that a copy wrote; ``sha256`` is in lower-case hexadecimal."""

    to: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy wrote, and what it took.

    ``to`` and ``sha256`` are of the first file, rows and bytes of all; ``peak_rss_bytes`` is of the whole process.
    """

    to: str
    rows: int
    bytes: int
    sha256: str
    files: tuple[CopiedFile, ...]
    seconds: float
    peak_rss_bytes: int


class Interrupt:
    """Ends a copy early, and in order."""

    def __init__(self) -> None:
        self.asked = False
        self.cancel: Callable[[], None] = lambda: None

    def now(self) -> None:
        """Have the copy end soon. Safe in a signal handler: another thread takes the locks."""
        self.asked = True
        threading.Thread(target=self.cancel, name="outhaul interrupt", daemon=True).start()

    def check(self) -> None:
        """Raise Interrupted if that was asked."""
        if self.asked:
            raise Interrupted("the copy was interrupted")


@dataclass(frozen=True, slots=True)
class Copying:
    """Copies rows to one file."""

    sources: Sources
    statement_timeout: timedelta
    hide_values: bool
    s3_client: Callable[[], Any] | None

    def copy(
        self,
        catalog: Callable[[], Catalog],
        *,
        dataset: str | None,
        sql: str | None,
        source: str = DEFAULT_SOURCE,
        tenant: str | None,
        to: str,
        raw: Mapping[str, Any],
        on_progress: Callable[[int, int | None], None],
        interrupt: Interrupt | None = None,
    ) -> Copied:
        """Copy a dataset's rows, or those of one SELECT, to the file or S3 object ``to``, whole or not at all.

        An existing file stays as it is until the new one is whole. If the options split the rows, the files after the
        first have a number before their ending: ``orders.csv``, ``orders-00001.csv``.

        Raises:
            InvalidRequest: what is asked cannot be done; nothing was read.
            ExportError: reading or writing broke off; Interrupted, if ``interrupt`` did it.
        """
        started = time.monotonic()
        if (dataset is None) == (sql is None):
            raise InvalidRequest("copy", "name a dataset, or give one SELECT with --sql")
        if sql is None and source != DEFAULT_SOURCE:
            raise InvalidRequest("source", "goes with --sql; a dataset says itself where it is")
        if sql is not None:
            chosen = ad_hoc(sql, source)
        else:
            assert dataset is not None
            chosen = catalog().get(dataset)
        if tenant is None and not chosen.shared:
            raise InvalidRequest("tenant", f"dataset {chosen.name!r} belongs to tenants: name one with --tenant")
        folder, name = _split(to)
        request = parse_request({"dataset": chosen.name, **_by_ending(name, raw)})
        store = open_store(folder, self.s3_client)
        names = _numbered(name)
        export = Export(
            self.sources.url_of(chosen),
            chosen,
            request,
            tenant=None if chosen.shared else tenant,
            attempt=Attempt("copy"),
            open_upload=lambda _name, content_type: store.open_upload(next(names), content_type, replace=True),
            limits=Limits(statement_timeout=chosen.statement_timeout or self.statement_timeout),
            hide_values=self.hide_values,
            with_manifest=False,
        )
        interrupt = interrupt or Interrupt()
        interrupt.cancel = export.cancel
        produced = export.run(progress=on_progress, stop=interrupt.check)
        folder = to.removesuffix(name)
        files = tuple(
            CopiedFile(folder + name, file.row_count, file.byte_count, file.sha256)
            for name, file in zip(_numbered(name), produced.files, strict=False)
        )
        return Copied(
            to,
            produced.rows,
            produced.byte_count,
            files[0].sha256,
            files,
            round(time.monotonic() - started, 3),
            _peak_rss_bytes(),
        )


def _peak_rss_bytes() -> int:
    """The most memory that this program held; getrusage also counts what the one that started it held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _numbered(name: str) -> Iterator[str]:
    """The names of a copy's files."""
    stem, dot, endings = name.partition(".")
    yield name
    yield from (f"{stem}-{number:05}{dot}{endings}" for number in itertools.count(1))


def _split(to: str) -> tuple[str, str]:
    """The store and the key in it."""
    if to.startswith("s3://"):
        folder, _, name = to.rpartition("/")
        if not name or folder == "s3:/":
            raise InvalidRequest("to", f"{to!r} names no object: s3://bucket/key")
        return folder, name
    path = Path(to.removeprefix("file://")).absolute()
    if path.is_dir():
        raise InvalidRequest("to", f"{to!r} is a folder: name a file")
    return f"file://{path.parent}", path.name


def _by_ending(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Let the file's ending say the format and the compression that were not given."""
    endings = name.lower().split(".")[1:]
    asked = dict(raw)
    options = dict(asked.get("options") or {})
    if endings and endings[-1] in COMPRESSIONS:
        options.setdefault("compression", COMPRESSIONS[endings.pop()])
    if not asked.get("format"):
        if not endings or endings[-1] not in ENDINGS:
            what = unknown("file ending", endings[-1] if endings else name, ENDINGS)
            raise InvalidRequest("to", f"{what} Or say --format.")
        asked["format"] = ENDINGS[endings[-1]]
    return {**asked, "options": options}
