"""A look into published files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def first_rows(parquet: Path, columns: Sequence[str], count: int) -> list[tuple[Any, ...]]:
    """The first ``count`` rows of a Parquet file; no more of it is read than they need."""
    return pl.scan_parquet(parquet).select(columns).head(count).collect().rows()
