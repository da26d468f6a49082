"""The options of each file format: one model per format, every option described, unknown ones refused."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from outhaul.domain.job import Format

STRICT = ConfigDict(extra="forbid", frozen=True)


class FormatOptions(BaseModel):
    """Options that every format has."""

    model_config = STRICT


class CsvOptions(FormatOptions):
    """CSV as PostgreSQL's ``COPY ... (FORMAT csv, HEADER)`` writes it, unless told otherwise."""

    delimiter: str = Field(default=",", min_length=1, max_length=1, description="Separator, one ASCII character.")
    header: bool = Field(default=True, description="Whether the first record names the columns.")
    compression: Literal["none", "gzip", "zstd"] = Field(default="none", description="Compression of the whole file.")


class JsonOptions(FormatOptions):
    """JSON, one document a line or one array."""

    layout: Literal["lines", "array"] = Field(default="lines", description="One object a line, or one array of them.")
    compression: Literal["none", "gzip", "zstd"] = Field(default="none", description="Compression of the whole file.")


class ParquetOptions(FormatOptions):
    """Parquet with types from the dataset's contract."""

    compression: Literal["zstd", "snappy", "lz4", "gzip", "none"] = Field(
        default="zstd", description="Compression of the column chunks."
    )
    unrepresentable: Literal["fail", "null", "text"] = Field(
        default="fail",
        description="What becomes of values that the column's type cannot hold, such as infinity: the export fails, "
        "they become NULL and are counted, or such columns are text as a whole.",
    )


OPTIONS: dict[Format, type[FormatOptions]] = {
    Format.CSV: CsvOptions,
    Format.JSON: JsonOptions,
    Format.PARQUET: ParquetOptions,
}
