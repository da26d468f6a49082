"""The files of a lake: which there are, what their footers say, and whether they stayed as they were."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from outhaul.errors import ContractViolation, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from outhaul.data.catalog import Lake

WILD = re.compile(r"[*?\[]")
PATH = "\x00path"  # no column has this name
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
FOOTERS_AT_ONCE = 16
# A log beside the files that says which of them count: reading all would bring deleted rows back.
LOGS = re.compile(r"(^|/)(_delta_log/|metadata/[^/]*\.metadata\.json$|\.hoodie/)")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One file as it was listed; ``keys`` are the columns that its folders' names tell."""

    path: str
    size: int
    modified: int | None
    keys: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself; ``groups`` are rows and uncompressed bytes of each row group."""

    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """All rows of the file."""
        return sum(rows for rows, _ in self.groups)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a lake at one moment, by path."""

    lake: Lake
    files: tuple[LakeFile, ...]
    filesystem: fs.FileSystem

    @classmethod
    def of(cls, lake: Lake) -> Self:
        """Find the files. Raises ContractViolation if there are none or if they are no plain Parquet files."""
        scheme, _, path = lake.path.rpartition("://")
        system: fs.FileSystem = _s3() if scheme else fs.LocalFileSystem()
        root = path.rstrip("/") if scheme else os.path.abspath(path)  # noqa: PTH100 - keeps what Path would tidy up
        with failures():
            base, found = _find(system, root)
        if any(LOGS.search(info.path.removeprefix(base)) for info in found):
            raise ContractViolation("The lake is a Delta, Iceberg or Hudi table; only plain Parquet files can be read.")
        pattern = root.removeprefix(base).strip("/").split("/") if base != root else ["**", "*.parquet"]
        files = []
        for info in sorted(found, key=lambda info: info.path):
            below = info.path.removeprefix(base).strip("/")
            if info.path != root and (not _matches(below.split("/"), pattern) or _hidden(below)):
                continue
            keys = _keys(below) if lake.hive else {}
            files.append(LakeFile(info.path, info.size, info.mtime_ns, keys))
        if not files:
            raise ContractViolation("The lake has no Parquet files.", detail=lake.path)
        for file in files:
            if file.keys.keys() != files[0].keys.keys():
                raise ContractViolation(
                    f"The lake's folders name different columns: {_name(files[0])} and {_name(file)}."
                )
        return cls(lake, tuple(files), system)

    def scan(self, files: Sequence[LakeFile], schema: dict[str, pl.DataType] | None = None) -> pl.LazyFrame:
        """Files as one lazy frame, with ``PATH`` beside them; columns that a file lacks are NULL there."""
        return pl.scan_parquet(
            [self.address(file) for file in files],
            glob=False,
            hive_partitioning=False,
            schema=schema,
            missing_columns="raise" if schema is None else "insert",
            extra_columns="raise" if schema is None else "ignore",
            include_file_paths=PATH,
        )

    def address(self, file: LakeFile) -> str:
        """A file as Polars names it."""
        return f"s3://{file.path}" if self.lake.path.startswith("s3://") else file.path

    def schema(self, file: LakeFile) -> pl.Schema:
        """The columns of one file as Polars reads them."""
        with failures(_name(file)):
            return self.scan([file]).collect_schema()

    def footers(self, files: Iterable[LakeFile]) -> list[Footer]:
        """Read what the files say of themselves. Raises ContractViolation naming a file that is no Parquet."""

        def read(file: LakeFile) -> Footer:
            with failures(_name(file)):
                metadata = pq.read_metadata(file.path, filesystem=self.filesystem)
                groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
                return Footer(
                    metadata.schema.to_arrow_schema(),
                    tuple((group.num_rows, group.total_byte_size) for group in groups),
                )

        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return list(pool.map(read, files))

    def check_unchanged(self, files: Sequence[LakeFile]) -> None:
        """Raise SourceError if a file was replaced or removed since it was listed."""
        # Listed again, not asked for: answers about single objects round the time that lists give.
        try:
            now = frozenset((file.path, file.size, file.modified) for file in Listing.of(self.lake).files)
        except ContractViolation:
            now = frozenset()  # whoever is replacing the files has removed them all
        for file in files:
            if (file.path, file.size, file.modified) not in now:
                raise SourceError(f"The lake's file {_name(file)} changed while it was being read.", detail=file.path)


@contextmanager
def failures(name: str = "") -> Iterator[None]:
    """Say in plain words what keeps files from being read; a broken file no retry can mend."""
    what = f"The lake's file {name}" if name else "The lake's files"
    try:
        yield
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException) as error:
        said = str(error)
        if re.search(r"access.?denied|forbidden|permission", said, re.IGNORECASE):
            raise SourceError(f"{what} cannot be read: access is denied.", detail=said) from error
        if isinstance(error, FileNotFoundError):
            raise SourceError(f"{what} cannot be read: a file is no longer there.", detail=said) from error
        if isinstance(error, OSError) or "object-store error" in said:
            raise SourceError(f"{what} cannot be read: the store does not answer as it should.", detail=said) from error
        raise ContractViolation(f"{what} cannot be read as Parquet.", detail=said) from error


def _s3() -> fs.FileSystem:
    # Arrow's client, unlike the others, does not look for an endpoint in the environment.
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return fs.S3FileSystem(endpoint_override=endpoint, connect_timeout=10, request_timeout=120)


def _find(system: fs.FileSystem, root: str) -> tuple[str, list[Any]]:
    """The folder that is the lake, and the files in it, which may be more than are meant."""
    exact = system.get_file_info(root)
    if exact.type is fs.FileType.File:
        return root.rpartition("/")[0], [exact]
    base = root
    if exact.type is not fs.FileType.Directory:
        wild = WILD.search(root)
        base = root[: wild.start()].rpartition("/")[0] if wild else root
    found = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return base, [info for info in found if info.type is fs.FileType.File]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern, folder by folder; ``**`` stands for any number of them."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _hidden(below: str) -> bool:
    """Whether a file, or a folder above it, is one that writers put beside the data."""
    return any(part.startswith((".", "_")) and "=" not in part for part in below.split("/"))


def _keys(below: str) -> dict[str, str | None]:
    pairs = (folder.partition("=") for folder in below.split("/")[:-1] if "=" in folder)
    return {key: None if value == NULL_FOLDER else unquote(value) for key, _, value in pairs}


def _name(file: LakeFile) -> str:
    return repr(file.path.rpartition("/")[2])
