"""From the wire to the promised types, with the policy for values that they cannot hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from outhaul.errors import ExportError, UnrepresentableValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from outhaul.data.scan import PlannedColumn

Policy: TypeAlias = Literal["fail", "null", "text"]


class Tally:
    """What becomes of values that a type cannot hold, and how often it happened, by column.

    With ``text`` the plan has made such columns text, so nothing is left to replace but what a type cannot hold even
    so: that fails.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.replaced: Counter[str] = Counter()

    def settle(self, column: PlannedColumn, lost: pl.Series) -> None:
        """Judge values that the type cannot hold, as text. Raises UnrepresentableValue unless they become NULL."""
        if lost.is_empty():
            return
        if self.policy != "null":
            raise UnrepresentableValue(
                f"Column {column.name!r} holds {lost[0]}, which {column.dtype} cannot hold. "
                "Ask for unrepresentable=null or unrepresentable=text, or leave the column out."
            )
        self.replaced[column.name] += len(lost)


def typed_frame(columns: Iterable[PlannedColumn], frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """All columns in their promised types. Raises UnrepresentableValue."""
    return pl.DataFrame([typed(column, frame, tally).alias(column.name) for column in columns])


def typed(column: PlannedColumn, frame: pl.DataFrame, tally: Tally) -> pl.Series:
    """One column in its promised type. Raises UnrepresentableValue."""
    wire = frame[column.wire]
    value = _convert(column, wire)
    if column.aside:
        tally.settle(column, frame[column.aside].drop_nulls())
    if value.null_count() > wire.null_count():
        tally.settle(column, named(column, column.live.words, wire.filter(value.is_null() & wire.is_not_null())))
    return value


def checkable(column: PlannedColumn, frame: pl.DataFrame) -> pl.Series:
    """One column as its contract's checks see it; NULL stands for values that the type cannot hold."""
    return _convert(column, frame[column.wire]).alias(column.name)


def _convert(column: PlannedColumn, wire: pl.Series) -> pl.Series:
    return named(column, lambda series: column.live.convert(series, column.dtype), wire)


def named(column: PlannedColumn, convert: Callable[[pl.Series], pl.Series], series: pl.Series) -> pl.Series:
    """Convert, and name the column if Polars gives up: its panics are no ordinary exceptions."""
    try:
        return convert(series)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ExportError(f"Column {column.name!r} could not be converted.", detail=str(error)) from error
