"""The options of each file format: one model per format, every option described, unknown ones refused."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from outhaul.domain.job import Format

STRICT = ConfigDict(extra="forbid", frozen=True)
EXCEL_ROWS = 1_048_575  # a worksheet's rows without the header
DIRECTIVES = "YymdjHIMSfpbBaAzZ"
NO = (None, False, "false", "no", "off", "0")
LEVELS = {"zstd": (1, 22), "gzip": (1, 9)}


class FormatOptions(BaseModel):
    """Options that every format has."""

    model_config = STRICT

    max_rows_per_file: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Begin another file after so many rows."
    )
    max_bytes_per_file: Annotated[int, Field(ge=1 << 20)] | None = Field(
        default=None,
        description="Begin another file before this one grows beyond so many bytes, compressed. It is judged by what "
        "the rows before took, so a file may end up a little larger.",
    )


def _separator(value: str) -> str:
    if not value.isascii() or value in '"\r\n' or value == "\x00":
        raise ValueError("must be one ASCII character, and neither a quote nor a line break")
    return value


def _pattern(value: str) -> str:
    for directive in re.findall("%(.?)", value):
        if directive not in set(DIRECTIVES):
            allowed = ", ".join(f"%{letter}" for letter in DIRECTIVES)
            raise ValueError(f"does not know %{directive}. Allowed: {allowed}")
    return value


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_pattern)]


class CsvOptions(FormatOptions):
    """CSV as PostgreSQL's ``COPY ... (FORMAT csv, HEADER)`` writes it, unless told otherwise."""

    excel: bool = Field(
        default=False,
        description="For opening in Excel: sets bom, line_ending=crlf and max_rows_per_file=1048575 unless they are "
        "given. Excel still guesses types: it drops leading zeros and rounds numbers of more than 15 digits unless "
        "such columns are imported as text.",
    )
    delimiter: Annotated[str, AfterValidator(_separator)] = Field(
        default=",", min_length=1, max_length=1, description="Separator, one ASCII character."
    )
    quote: Literal["necessary", "all"] = Field(
        default="necessary", description="Which values stand in quotes: those that must, or all that are not NULL."
    )
    null: str = Field(
        default="", max_length=20, description="What stands for NULL. A value that reads the same is quoted."
    )
    header: bool = Field(default=True, description="Whether the first record names the columns.")
    line_ending: Literal["lf", "crlf"] = Field(default="lf", description="What ends a record.")
    bom: bool = Field(default=False, description="Whether each file begins with the byte order mark of UTF-8.")
    decimal: Literal[".", ","] = Field(
        default=".", description="Decimal separator of numeric and floating-point columns."
    )
    date_format: Pattern | None = Field(
        default=None,
        description="How dates are written, such as %d.%m.%Y. What it cannot tell, infinity and years before 1 or "
        "after 9999, stays as PostgreSQL prints it.",
    )
    timestamp_format: Pattern | None = Field(
        default=None, description="How timestamps are written, such as %Y-%m-%dT%H:%M:%S.%f%z, as date_format; in UTC."
    )
    guard_formulas: bool | list[str] = Field(
        default=False,
        description="Put an apostrophe before text that a spreadsheet would run as a formula: in all columns of free "
        "text, or in those named. To undo, drop the first apostrophe of values that begin with apostrophes followed "
        "by one of = + - @ TAB CR LF.",
    )
    compression: Literal["none", "gzip", "zstd"] = Field(default="none", description="Compression of the whole file.")

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("excel") not in NO:
            return {"bom": True, "line_ending": "crlf", "max_rows_per_file": EXCEL_ROWS, **raw}
        return raw

    @field_validator("guard_formulas", mode="before")
    @classmethod
    def _names(cls, raw: Any) -> Any:
        if isinstance(raw, str) and raw.lower() not in {"true", "false"}:
            return [name.strip() for name in raw.split(",")]
        return raw

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.delimiter == self.decimal:
            raise ValueError(f"delimiter and decimal are both {self.decimal!r}: choose another delimiter")
        if any(char in self.null for char in f'{self.delimiter}"\r\n'):
            raise ValueError("null holds the delimiter, a quote or a line break")
        return self


class JsonOptions(FormatOptions):
    """JSON, one document a line or one array."""

    layout: Literal["lines", "array"] = Field(default="lines", description="One object a line, or one array of them.")
    compression: Literal["none", "gzip", "zstd"] = Field(default="none", description="Compression of the whole file.")


class ParquetOptions(FormatOptions):
    """Parquet with types from the dataset's contract."""

    compression: Literal["zstd", "snappy", "lz4", "gzip", "none"] = Field(
        default="zstd", description="Compression of the column chunks."
    )
    compression_level: int | None = Field(
        default=None, description="Effort of the compression: 1 to 22 for zstd, 1 to 9 for gzip."
    )
    unrepresentable: Literal["fail", "null", "text"] = Field(
        default="fail",
        description="What becomes of values that the column's type cannot hold, such as infinity: the export fails, "
        "they become NULL and are counted, or such columns are text as a whole.",
    )

    @model_validator(mode="after")
    def _level(self) -> Self:
        if self.compression_level is not None:
            if self.compression not in LEVELS:
                raise ValueError(f"compression_level does not go with {self.compression}")
            least, most = LEVELS[self.compression]
            if not least <= self.compression_level <= most:
                raise ValueError(f"compression_level of {self.compression} is {least} to {most}")
        return self


OPTIONS: dict[Format, type[FormatOptions]] = {
    Format.CSV: CsvOptions,
    Format.JSON: JsonOptions,
    Format.PARQUET: ParquetOptions,
}
