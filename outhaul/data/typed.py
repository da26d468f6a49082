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

    def settle(self, column: PlannedColumn, printed: pl.Series, lost: pl.Series) -> None:
        """Judge the values of ``printed`` where ``lost`` holds. Raises UnrepresentableValue unless they become NULL."""
        count = int(lost.sum())
        if not count:
            return
        if self.policy != "null":
            example = printed.filter(lost)[0]
            raise UnrepresentableValue(
                f"Column {column.name!r} holds {example}, which {column.dtype} cannot hold. "
                "Ask for unrepresentable=null or unrepresentable=text, or leave the column out."
            )
        self.replaced[column.name] += count


def typed_frame(columns: Iterable[PlannedColumn], frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """All columns in their promised types. Raises UnrepresentableValue."""
    return pl.DataFrame([typed(column, frame, tally).alias(column.name) for column in columns])


def typed(column: PlannedColumn, frame: pl.DataFrame, tally: Tally) -> pl.Series:
    """One column in its promised type. Raises UnrepresentableValue."""
    wire = frame[column.wire]
    form = column.live.type
    if column.dtype == pl.String:
        return named(column, form.text, wire)
    value = named(column, lambda series: form.typed(series, column.dtype), wire)
    if column.aside:
        aside = frame[column.aside]
        tally.settle(column, aside, aside.is_not_null())
    elif form.partial and value.null_count() > wire.null_count():
        tally.settle(column, named(column, form.text, wire), value.is_null() & wire.is_not_null())
    return value


def checkable(column: PlannedColumn, frame: pl.DataFrame) -> pl.Series:
    """One column as its contract's checks see it; NULL stands for values that the type cannot hold."""
    form = column.live.type
    convert = form.text if column.dtype == pl.String else lambda series: form.typed(series, column.dtype)
    return named(column, convert, frame[column.wire]).alias(column.name)


def named(column: PlannedColumn, convert: Callable[[pl.Series], pl.Series], series: pl.Series) -> pl.Series:
    """Convert, and name the column if Polars gives up: its panics are no ordinary exceptions."""
    try:
        return convert(series)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ExportError(f"Column {column.name!r} could not be converted.", detail=str(error)) from error
