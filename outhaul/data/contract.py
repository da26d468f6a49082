"""The promise a dataset makes about its columns: a Pandera model, read once and enforced on every batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outhaul.errors import ContractViolation, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    import polars as pl
    from pandera.polars import DataFrameModel

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One promised column; ``checks`` are the names of its value checks."""

    name: str
    dtype: pl.DataType
    nullable: bool
    description: str
    checks: tuple[str, ...]
    pandera: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Contract:
    """All columns a dataset promises, by name; empty when it promises nothing."""

    columns: dict[str, Column]

    @classmethod
    def of(cls, model: type[DataFrameModel] | None, *, owner: str) -> Self:
        """Read a Pandera model.

        Raises:
            InvalidRequest: if the model holds what cannot be kept while rows stream by: checks over the whole frame,
                uniqueness, optional columns, or types that no PostgreSQL column has.
        """
        if model is None:
            return cls({})
        import polars as pl

        schema = model.to_schema()
        if schema.checks or schema.unique:
            raise InvalidRequest(owner, "checks over whole frames and uniqueness cannot be kept while rows stream by")
        columns = {}
        for name, column in schema.columns.items():
            where = f"{owner}, column {name!r}"
            dtype = getattr(column.dtype, "type", None)
            try:
                dtype = dtype() if isinstance(dtype, type) else dtype
            except TypeError:
                dtype = None
            if not isinstance(dtype, pl.DataType):
                raise InvalidRequest(where, f"needs a complete Polars type, not {column.dtype}")
            if isinstance(dtype, (pl.Enum, pl.Categorical)):
                raise InvalidRequest(where, "declare text, with isin=[...] for the allowed values")
            if column.unique or not column.required or column.regex:
                raise InvalidRequest(where, "unique, optional and regex columns cannot be kept while rows stream by")
            if column.checks and (dtype.is_nested() or dtype == pl.Binary):
                raise InvalidRequest(where, f"checks on {dtype} columns are not supported")
            columns[name] = Column(
                name,
                dtype,
                bool(column.nullable),
                column.description or "",
                tuple(str(check.error or check.name) for check in column.checks),
                column,
            )
        return cls(columns)


class Enforcer:
    """Holds the batches of one export to the value checks of ``columns``, and counts what fails."""

    def __init__(self, columns: Sequence[Column], *, hide_values: bool) -> None:
        import pandera.polars as pa
        from pandera.config import ValidationDepth, config_context

        self._rows = 0
        self._hide_values = hide_values
        self._errors: type[Any] = pa.errors.SchemaErrors
        # The environment can switch Pandera off; a promise is kept regardless.
        self._config: Callable[[], Any] = lambda: config_context(
            validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA
        )
        # NULLs are judged apart, on what the source sent: here they may also stand for values the type cannot hold.
        self._schema: Any = pa.DataFrameSchema(
            {
                column.name: pa.Column(column.pandera.dtype, checks=column.pandera.checks, nullable=True)
                for column in columns
            }
        )

    def check(self, frame: pl.DataFrame) -> None:
        """Judge the next batch. Raises ContractViolation."""
        self._rows += len(frame)
        try:
            with self._config():
                self._schema.validate(frame, lazy=True)
        except self._errors as error:
            raise self._violation(error.failure_cases) from None

    def _violation(self, cases: pl.DataFrame) -> ContractViolation:
        first = cases.row(0, named=True)
        same = cases.filter((cases["column"] == first["column"]) & (cases["check"] == first["check"]))
        message = violation(first["column"], first["check"], len(same), self._rows)
        if not self._hide_values:
            message += f", for example {', '.join(map(str, same['failure_case'].head(EXAMPLES)))}"
        return ContractViolation(message)


def violation(column: str, check: str, failed: int, rows: int) -> str:
    """The sentence for a broken promise."""
    return f"column {column!r} breaks its contract: {check} does not hold in {failed:,} of the first {rows:,} rows"
